from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.iceberg.avro.string_columns import StringColumn, string_hashes


def values(column: StringColumn) -> list[bytes | None]:
    valid = [True] * len(column) if column.valid is None else column.valid.tolist()
    return [
        column.data[start:stop].tobytes() if is_valid else None
        for start, stop, is_valid in zip(column.offsets[:-1], column.offsets[1:], valid, strict=True)
    ]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string()])
def test_a_slice_of_strings(type: Any) -> None:
    array = pa.array(["left out", "é", None, "", "end", "left out"], type)[1:5]
    column = StringColumn.of(array)
    assert values(column) == ["é".encode(), None, b"", b"end"]
    assert column.lengths.tolist() == [2, 0, 0, 3]
    assert values(column.slice(1, 3)) == [None, b""]


@pytest.mark.parametrize("type", [pa.binary(), pa.large_binary()])
def test_bytes(type: Any) -> None:
    assert values(StringColumn.of(pa.array([b"\x00", None, b"\xff\xff"], type))) == [
        b"\x00",
        None,
        b"\xff\xff",
    ]


def test_chunks() -> None:
    assert values(StringColumn.of(pa.chunked_array([["a"], [], ["bc"]], pa.string()))) == [b"a", b"bc"]


def test_nulls_that_have_bytes() -> None:
    # validity says null, the offsets say two bytes
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 2, 4, 6], np.int32)), pa.py_buffer(b"aabbcc")]
    column = StringColumn.of(pa.BinaryArray.from_buffers(pa.binary(), 3, buffers))
    assert values(column) == [b"aa", None, b"cc"]
    assert column.lengths.tolist() == [2, 0, 2]


def test_none_at_all() -> None:
    column = StringColumn.of(pa.array([], pa.string()))
    assert (len(column), values(column), column.lengths.tolist()) == (0, [], [])


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(TEXT, unique=True))
def test_hashes(texts: list[str]) -> None:
    hashes = string_hashes(pa.array(texts, pa.string()))
    assert len(set(hashes.tolist())) == len(texts)
    # of each for itself, whatever stands around it
    assert [string_hashes(pa.array([text]))[0] for text in texts] == hashes.tolist()


def test_hashes_never_change() -> None:
    # They are in files that outlive this version.
    texts = ["", "a", "s3://bucket/table/part-00000.parquet", "12345678", "é" * 100]
    assert string_hashes(pa.array(texts)).tolist() == [
        0,
        13656869943007173965,
        7355888685807562989,
        6807069727391193880,
        7462097657610821044,
    ]


def test_nulls_and_chunks() -> None:
    assert string_hashes(pa.array([None, ""], pa.string())).tolist() == [0, 0]
    assert string_hashes(pa.array([], pa.string())).tolist() == []
    one, two = string_hashes(pa.array(["a", "b"])).tolist()
    assert string_hashes(pa.chunked_array([["a"], ["b"]])).tolist() == [one, two]
