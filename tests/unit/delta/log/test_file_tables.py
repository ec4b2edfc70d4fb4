from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from floecat.delta.log.file_tables import (
    DELETION_VECTOR,
    DESCRIPTOR,
    files_schema,
    take_column,
    take_rows,
    vector_ids,
    vector_total,
)
from floecat.errors import InvalidDeltaTableError
from tests.unit.delta.log_lines import descriptor


def descriptors(*values: dict[str, object] | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(list(values), DESCRIPTOR)])


def test_columns_of_files() -> None:
    stats = pa.struct([("numRecords", pa.int64())])
    assert files_schema(["p"]).names == [
        "path",
        "partition_values",
        "size_bytes",
        "modified_at_ms",
        "stats",
        "deletion_vector",
        "dv_id",
    ]
    assert files_schema([], stats).field("stats_parsed").type == stats
    assert files_schema(["q", "p"]).field("partition_values").type == pa.struct(
        [("q", pa.string()), ("p", pa.string())]
    )
    assert files_schema([]).field("deletion_vector").type == DELETION_VECTOR


def test_the_id_of_a_vector_names_its_offset_if_it_has_one() -> None:
    found = vector_ids(
        descriptors(
            descriptor("u", "abc", offset=0),
            None,
            descriptor("i", "x", offset=None),
            descriptor("p", "s3://b/f", offset=7),
        ),
        location="log",
    )
    assert found.to_pylist() == ["uabc@0", None, "ix", "ps3://b/f@7"]
    assert vector_ids(descriptors(None, None), location="log").to_pylist() == [None, None]


def test_a_vector_in_parts() -> None:
    with pytest.raises(InvalidDeltaTableError, match="in log is described incompletely"):
        vector_ids(descriptors(None, descriptor(storageType=None)), location="log")


@pytest.mark.parametrize("large_bytes", [1, 1000, 10**9])
@pytest.mark.parametrize("chunks", [1, 3])
def test_rows_in_another_order(large_bytes: int, chunks: int) -> None:
    table = pa.table(
        {
            "text": [None if number % 7 == 0 else f"{number}" * 5 for number in range(500)],
            "struct": [
                None if number % 5 == 0 else {"a": number, "b": {"c": f"{number}"}} for number in range(500)
            ],
            "nothing": pa.nulls(500, pa.string()),
        }
    )
    table = pa.concat_tables([table] * chunks)
    order = np.random.default_rng(1).permutation(len(table))[:400]
    expected = [table.slice(int(row), 1).to_pylist()[0] for row in order]
    found = [take_column(column, order, large_bytes=large_bytes) for column in table.columns]
    assert pa.Table.from_arrays(found, schema=table.schema).to_pylist() == expected
    assert take_rows(table, order).to_pylist() == expected
    assert take_rows(table, np.zeros(0, np.int64)).to_pylist() == []


@pytest.mark.scale
def test_more_text_than_one_array_holds() -> None:
    chunk = pa.array(["x" * 1_000_000] * 1000)
    table = pa.table({"a": pa.chunked_array([chunk, chunk, chunk])})
    found = take_rows(table, np.random.default_rng(1).permutation(3000))
    assert len(found) == 3000
    assert found["a"].null_count == 0


def test_totals_of_vectors() -> None:
    vectors = [
        {"storage_type": "u", "path_or_inline_dv": "x", "offset": 1, "size_bytes": size, "cardinality": rows}
        for size, rows in ((2**31 - 1, 2**63 - 1), (2**31 - 1, 2**63 - 1), (-5, -5), (7, 1))
    ]
    table = pa.table({"deletion_vector": pa.array([None, *vectors], DELETION_VECTOR)})
    assert vector_total(table, "size_bytes") == 2 * (2**31 - 1) + 7
    assert vector_total(table, "cardinality") >= 2**64 - 2
    assert vector_total(table.slice(0, 1), "cardinality") == 0
