from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.errors import UnsupportedDeltaTableError
from floecat.iceberg.parquet.decoded_pages import meter_column
from floecat.iceberg.parquet.thrift_compact import ThriftError
from floecat.settings.limits import LimitSettings

MIB = 1 << 20


def parquet(values: Sequence[Any], type: pa.DataType | None = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": pa.array(values, type)}), sink, **options)
    return bytes(sink.getvalue())


def decoded_bytes(data: bytes, most: int = 1 << 50) -> int:
    """Bytes that are counted; the meter tells them by what still fits."""
    counted = []

    class Meter(ReadMeter):
        def add(self, decoded_bytes: int) -> None:
            counted.append(decoded_bytes)
            super().add(decoded_bytes)

    meter = Meter(LogBounds(LimitSettings(delta_log_bytes=most)))
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            meter_column(data, metadata.row_group(group).column(column), meter.add)
    return sum(counted)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_repeated_texts_count_each_time(compression: str, version: str) -> None:
    text = "x" * MIB
    options = {"compression": compression, "data_page_version": version, "dictionary_pagesize_limit": 8 * MIB}
    data = parquet([text] * 50, **options)
    assert len(data) < 2 * MIB
    assert 50 * MIB <= decoded_bytes(data) < 60 * MIB
    with pytest.raises(UnsupportedDeltaTableError, match=r"floecat\.limits\.delta-log-bytes"):
        decoded_bytes(data, most=50 * MIB)


def test_the_longest_text_of_a_dictionary_counts() -> None:
    texts = ["x" * (MIB // 2), *(f"{number}" for number in range(1000))]
    data = parquet([texts[number % 1001] for number in range(2002)], dictionary_pagesize_limit=8 * MIB)
    assert decoded_bytes(data) >= 2002 * (MIB // 2)


def test_texts_that_share_a_prefix_count_in_full() -> None:
    texts = [f"{'x' * 100_000}{number:03}" for number in range(300)]
    data = parquet(texts, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    assert len(data) < MIB
    assert decoded_bytes(data) >= 300 * 100_000


def test_nulls_count_too() -> None:
    data = parquet([None] * 1_000_000, pa.string())
    assert len(data) < 10_000
    assert decoded_bytes(data) >= 4_000_000


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=200), st.booleans())
def test_no_column_decodes_to_more_than_is_counted(values: list[str | None], use_dictionary: bool) -> None:
    data = parquet(values, pa.string(), use_dictionary=use_dictionary, data_page_size=100)
    table = pq.read_table(pa.BufferReader(data))
    assert table.nbytes <= decoded_bytes(data)


def test_usual_columns_count_little_more_than_they_take() -> None:
    texts = [f"part-{number:05}-of-a-table.snappy.parquet" for number in range(20_000)]
    data = parquet(texts)
    assert decoded_bytes(data) < 3 * pq.read_table(pa.BufferReader(data)).nbytes


def test_damaged_pages_are_named_so() -> None:
    data = bytearray(parquet(["x" * 100] * 100, compression="none"))
    chunk = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0).column(0)
    data[4:40] = bytes(36)
    with pytest.raises(ThriftError):
        meter_column(bytes(data), chunk, ReadMeter(LogBounds()).add)
    with pytest.raises(ThriftError):
        meter_column(bytes(data[:100]), chunk, ReadMeter(LogBounds()).add)
