"""A table like `lineitem` of TPC-H, in Parquet files with field ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["COLUMNS", "write_files"]

COLUMNS = {
    "l_orderkey": "bigint",
    "l_partkey": "bigint",
    "l_suppkey": "bigint",
    "l_linenumber": "int",
    "l_quantity": "decimal(12,2)",
    "l_extendedprice": "decimal(12,2)",
    "l_discount": "decimal(12,2)",
    "l_tax": "decimal(12,2)",
    "l_returnflag": "string",
    "l_linestatus": "string",
    "l_shipdate": "date",
    "l_commitdate": "date",
    "l_receiptdate": "date",
    "l_shipinstruct": "string",
    "l_shipmode": "string",
    "l_comment": "string",
}
"""SQL types by name; field ids count from 1."""

_ROWS_PER_FILE = 1_000_000
_MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
_INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
_WORDS = [
    "about",
    "according",
    "across",
    "against",
    "alongside",
    "around",
    "at",
    "bold",
    "carefully",
    "daringly",
    "dependencies",
    "dugouts",
    "even",
    "express",
    "finally",
    "frays",
    "gifts",
    "ideas",
    "ironic",
    "permanently",
    "platelets",
    "regular",
    "silent",
    "special",
    "unusual",
    "waters",
]


def write_files(folder: Path, rows: int, *, first: int = 0, scale: int) -> Iterator[Path]:
    """Writes files of a million rows each.

    Args:
        folder: where.
        rows: how many rows in all.
        first: the first row; other rows have other orders.
        scale: rows of the whole table, from which the numbers of parts and suppliers follow.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(first, first + rows, _ROWS_PER_FILE):
        count = min(first + rows - start, _ROWS_PER_FILE)
        path = folder / f"{start:012d}.parquet"
        pq.write_table(_rows(start, count, scale), path, compression="zstd", store_schema=False)
        yield path


def _rows(start: int, count: int, scale: int) -> pa.Table:
    random = np.random.default_rng(start)

    def whole(low: int, high: int) -> Any:
        return random.integers(low, high, count)

    def decimals(hundredths: Any) -> pa.Array:
        words = np.stack([hundredths, hundredths >> 63], 1).astype(np.int64)
        return pa.Array.from_buffers(pa.decimal128(12, 2), count, [None, pa.py_buffer(words)])

    def chosen(values: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(
            whole(0, len(values)).astype(np.int32), values
        ).dictionary_decode()

    numbers = np.arange(start, start + count)
    quantity, shipped = whole(1, 51), whole(8036, 10_562)
    returned = shipped < 9298
    flags = np.where(returned, np.where(whole(0, 2) == 1, "R", "A"), "N")
    words = [chosen(_WORDS) for _ in range(5)]
    columns = {
        "l_orderkey": pa.array(numbers // 4 * 8 + numbers % 4 // 2),
        "l_partkey": pa.array(whole(1, max(scale // 30, 10))),
        "l_suppkey": pa.array(whole(1, max(scale // 600, 10))),
        "l_linenumber": pa.array((numbers % 4 + 1).astype(np.int32)),
        "l_quantity": decimals(quantity * 100),
        "l_extendedprice": decimals(quantity * whole(90_000, 200_000)),
        "l_discount": decimals(whole(0, 11)),
        "l_tax": decimals(whole(0, 9)),
        "l_returnflag": pa.array(flags.tolist()),
        "l_linestatus": pa.array(np.where(returned, "F", "O").tolist()),
        "l_shipdate": pa.array(shipped.astype(np.int32)).view(pa.date32()),
        "l_commitdate": pa.array((shipped + whole(-60, 60)).astype(np.int32)).view(pa.date32()),
        "l_receiptdate": pa.array((shipped + whole(1, 31)).astype(np.int32)).view(pa.date32()),
        "l_shipinstruct": chosen(_INSTRUCTIONS),
        "l_shipmode": chosen(_MODES),
        "l_comment": pc.utf8_slice_codeunits(pc.binary_join_element_wise(*words, " "), 0, 43),
    }
    fields = [
        pa.field(name, array.type, metadata={"PARQUET:field_id": str(id)})
        for id, (name, array) in enumerate(columns.items(), start=1)
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))
