from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from floecat.iceberg.avro.columns import (
    Cells,
    constant,
    lay_out,
    optional,
    ragged,
    strings,
    varint,
    varint_lengths,
    varints,
    zigzag,
)
from floecat.iceberg.avro.string_columns import StringColumn

LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 63).flatmap(lambda bits: st.integers(-(2**bits), 2**bits - 1)),
)


def avro(schema: Any, value: Any) -> bytes:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def encoded(cells: list[Cells], rows: int) -> list[bytes]:
    data, sizes = lay_out(cells, rows)
    ends = np.cumsum(sizes)
    assert len(data) == (ends[-1] if rows else 0)
    return [data[end - size : end].tobytes() for size, end in zip(sizes, ends, strict=True)]


@given(st.lists(LONGS, min_size=1))
def test_integers(values: list[int]) -> None:
    numbers = np.array(values, np.int64)
    wanted = [avro("long", value) for value in values]
    assert encoded([varints(numbers)], len(values)) == wanted
    assert [varint(value) for value in values] == wanted
    assert varint_lengths(zigzag(numbers)).tolist() == [len(value) for value in wanted]


def test_integers_keep_their_shape() -> None:
    cells = varints(np.array([[1, 300], [-1, 2**40]]))
    assert cells.data.shape == (2, 2, 6)
    assert cells.keep is not None
    assert cells.data[cells.keep].tobytes() == b"".join(avro("long", value) for value in (1, 300, -1, 2**40))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1), st.data())
def test_bytes(values: list[bytes | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start + 1, len(values)))
    column = StringColumn.of(pa.array(values, pa.binary())).slice(start, stop)
    cells = optional(strings(column), column.valid)
    wanted = [avro(["null", "bytes"], value) for value in values[start:stop]]
    assert encoded(cells, stop - start) == wanted


@given(
    st.lists(
        st.tuples(LONGS, st.one_of(st.none(), LONGS), st.text(max_size=20), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_records(rows: list[tuple[int, int | None, str, bool]]) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "b", "type": ["null", "long"]},
            {"name": "c", "type": "string"},
            {"name": "d", "type": "int"},
            {"name": "e", "type": ["null", "int"]},
        ],
    }
    numbers = np.array([row[1] or 0 for row in rows])
    flags = np.array([row[3] for row in rows])
    cells = [
        varints(np.array([row[0] for row in rows])),
        *optional([varints(numbers)], np.array([row[1] is not None for row in rows])),
        *strings(StringColumn.of(pa.array([row[2] for row in rows], pa.string()))),
        constant(varint(77)),
        # constant bytes that only some rows have
        *optional([constant(varint(1000))], flags),
    ]
    wanted = [
        avro(schema, {"a": a, "b": b, "c": c, "d": 77, "e": 1000 if d else None}) for a, b, c, d in rows
    ]
    assert encoded(cells, len(rows)) == wanted


def test_ragged_rows() -> None:
    cells = ragged(np.frombuffer(b"abcdef", np.uint8), np.array([1, 0, 3, 2]))
    assert encoded([cells], 4) == [b"a", b"", b"bcd", b"ef"]
    cells = ragged(np.frombuffer(b"abcd", np.uint8), np.array([2, 2]))
    assert cells.keep is None
    assert encoded([cells, cells], 2) == [b"abab", b"cdcd"]


def test_columns_that_are_no_plain_rows() -> None:
    backwards = Cells(np.arange(6, dtype=np.uint8).reshape(2, 3)[:, ::-1])
    assert encoded([backwards], 2) == [b"\x02\x01\x00", b"\x05\x04\x03"]
