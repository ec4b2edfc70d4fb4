from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.manifests.partition_tuples import decimal_length
from tests.unit.iceberg.manifest_samples import SampleFile, Table

LOCATION = "s3://b/t/metadata/m0.avro"


@pytest.mark.parametrize(
    ("precision", "length"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (18, 8), (19, 9), (38, 16)]
)
def test_length_of_decimals(precision: int, length: int) -> None:
    assert decimal_length(precision) == length


@pytest.mark.parametrize(
    ("type", "values", "lower", "upper"),
    [
        ("boolean", [True, False], b"\x00", b"\x01"),
        ("long", [2**40, -1], struct.pack("<q", -1), struct.pack("<q", 2**40)),
        ("float", [0.0, -0.0], struct.pack("<f", -0.0), struct.pack("<f", 0.0)),
        ("float", [0.0], struct.pack("<f", 0.0), struct.pack("<f", 0.0)),
        ("double", [-0.0], struct.pack("<d", -0.0), struct.pack("<d", -0.0)),
        ("double", [float("inf"), float("-inf")], struct.pack("<d", -np.inf), struct.pack("<d", np.inf)),
        ("double", [float("nan")], None, None),
        ("date", [-719162, 3_000_000], struct.pack("<i", -719162), struct.pack("<i", 3_000_000)),
        ("time", [1, 5], struct.pack("<q", 1), struct.pack("<q", 5)),
        ("timestamp", [2**62, -1], struct.pack("<q", -1), struct.pack("<q", 2**62)),
        ("timestamptz", [0, 1], struct.pack("<q", 0), struct.pack("<q", 1)),
        ("timestamptz_ns", [0, 1], struct.pack("<q", 0), struct.pack("<q", 1)),
        ("string", ["\U0001f600", "\uffff"], b"\xef\xbf\xbf", b"\xf0\x9f\x98\x80"),
        ("binary", [b"\xff", b"\x01\x02"], b"\x01\x02", b"\xff"),
        ("fixed[2]", [b"\xff\x00", b"\x01\x02"], b"\x01\x02", b"\xff\x00"),
        ("uuid", [bytes(16), b"\x80" * 16], bytes(16), b"\x80" * 16),
        ("decimal(9, 2)", [-128, 128], b"\x80", b"\x00\x80"),
        ("decimal(38, 10)", [-(10**38) + 1, 0], (-(10**38) + 1).to_bytes(16, signed=True), b"\x00"),
        ("int", [None], None, None),
    ],
)
def test_bounds_of_partitions(type: str, values: list[Any], lower: bytes | None, upper: bytes | None) -> None:
    manifest = Table((type,)).write([SampleFile("a", partition=(value,)) for value in values])
    (summary,) = manifest.manifest_file(LOCATION, snapshot_id=1, sequence_number=1).partitions or ()
    assert (summary.lower_bound, summary.upper_bound) == (lower, upper)
    assert summary.contains_null == (None in values)


@pytest.mark.parametrize("type", ["variant", "unknown"])
def test_types_that_partition_nothing(type: str) -> None:
    rows = Table(("int",)).rows([SampleFile("a", partition=(1,))])
    with pytest.raises(ValueError, match=type):
        Table((type,)).write_rows(rows)


def test_partition_values_of_another_arrow_type() -> None:
    table = Table(("string", "long"))
    rows = table.rows([SampleFile(path, partition=(path, 1)) for path in "aba"])
    partitions = pa.StructArray.from_arrays(
        [pa.array(list("aba")).dictionary_encode(), pa.array([1, 1, 1], pa.int32())], names=["x", "y"]
    )
    changed = dataclasses.replace(rows, partitions=pa.chunked_array([partitions]))
    assert table.write_rows(changed).data == table.write_rows(rows).data
