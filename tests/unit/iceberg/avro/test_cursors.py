from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.iceberg.avro.columns import varint
from floecat.iceberg.avro.cursors import Chunk, DamagedRecordsError, RecordCursor

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70), min_size=1, max_size=300)


def cursor(data: bytes, positions: list[int]) -> RecordCursor:
    return RecordCursor(Chunk([data], 0), np.array(positions), np.full(len(positions), len(data)))


@given(INTEGERS)
def test_reads_integers_of_every_length(values: list[int]) -> None:
    encoded = [varint(value) for value in values]
    ends = np.cumsum([len(each) for each in encoded])
    read = cursor(b"".join(encoded), [0, *ends[:-1].tolist()])
    assert read.varints().tolist() == values
    assert read.positions.tolist() == ends.tolist()


@given(INTEGERS, st.data())
def test_skips_any_number_of_integers(values: list[int], data: st.DataObject) -> None:
    ends = [0, *np.cumsum([len(varint(value)) for value in values]).tolist()]
    first = data.draw(st.integers(0, len(values) - 1))
    count = data.draw(st.integers(1, len(values) - first))
    chunk = Chunk([varint(value) for value in values], 0)
    assert chunk.skip_varints(np.array([ends[first]]), np.array([count])).tolist() == [ends[first + count]]


def test_a_bit_beyond_64_is_dropped() -> None:
    """PyIceberg writes -1 so; its own reader, fastavro and Java read -1."""
    read = cursor(b"\x81" + b"\x80" * 8 + b"\x02", [0])
    assert read.varints().tolist() == [-1]
    assert read.positions.tolist() == [10]


def test_an_integer_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(DamagedRecordsError):
        cursor(b"\x80" * 10 + b"\x00", [0]).varints()


@pytest.mark.parametrize("size", [-1, 6, 2**62, 2**63 - 1])
def test_a_size_that_leads_out_of_the_block_is_refused(size: int) -> None:
    with pytest.raises(DamagedRecordsError):
        cursor(b"abcde", [2]).advance(np.array([size]))
