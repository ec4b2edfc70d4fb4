"""Hashes beside those of `mmh3` over single-value bytes made by the standard library."""

from __future__ import annotations

import struct
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import mmh3
import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.schemas.types import parse_primitive
from floecat.statistics.files.hashing import hash_values

_RANDOM = Random(7)
_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0]
_INT64 = [0, 1, -1, 2**63 - 1, -(2**63), *(_RANDOM.randrange(-(2**63), 2**63) for _ in range(100))]
_INT32 = [0, 1, -1, 2**31 - 1, -(2**31)]
_DOUBLES = [0.0, -0.0, 1.5, float("nan"), _NAN, float("inf"), float("-inf")]
_TEXTS = ["ż" * count + "a" * (count % 3) for count in range(1, 150)] + ["x" * 100_000]
_UNSCALED = [sign * ((1 << bits) + step) for bits in range(120) for step in (-1, 0, 1) for sign in (1, -1)]


def _decimal_bytes(unscaled: int) -> bytes:
    size = 1
    while not -(1 << 8 * size - 1) <= unscaled < 1 << 8 * size - 1:
        size += 1
    return unscaled.to_bytes(size, "big", signed=True)


_CASES: list[tuple[str, pa.DataType, list[Any], list[bytes]]] = [
    ("boolean", pa.bool_(), [True, False], [b"\x01", b"\x00"]),
    ("int", pa.int32(), _INT32, [struct.pack("<i", value) for value in _INT32]),
    ("date", pa.date32(), _INT32, [struct.pack("<i", value) for value in _INT32]),
    ("long", pa.int64(), _INT64, [struct.pack("<q", value) for value in _INT64]),
    ("timestamp", pa.timestamp("us"), _INT64, [struct.pack("<q", value) for value in _INT64]),
    ("timestamptz_ns", pa.timestamp("ns", "UTC"), _INT64, [struct.pack("<q", each) for each in _INT64]),
    ("float", pa.float32(), [0.5, -0.0], [struct.pack("<f", 0.5), struct.pack("<f", -0.0)]),
    ("double", pa.float64(), _DOUBLES, [struct.pack("<d", value) for value in _DOUBLES]),
    ("string", pa.string(), _TEXTS, [text.encode() for text in _TEXTS]),
    ("binary", pa.large_binary(), [b"\x00", b"\x00\x00"], [b"\x00", b"\x00\x00"]),
    ("uuid", pa.binary(16), [UUID(int=5).bytes], [UUID(int=5).bytes]),
    ("fixed[3]", pa.binary(3), [b"abc"], [b"abc"]),
    (
        "decimal(38, 2)",
        pa.decimal128(38, 2),
        [Decimal(f"{unscaled}e-2") for unscaled in _UNSCALED],
        [_decimal_bytes(unscaled) for unscaled in _UNSCALED],
    ),
    (
        "decimal(18, 0)",
        pa.decimal128(18, 0),
        [Decimal(unscaled) for unscaled in _UNSCALED if abs(unscaled) < 10**18],
        [_decimal_bytes(unscaled) for unscaled in _UNSCALED if abs(unscaled) < 10**18],
    ),
]


@pytest.mark.parametrize(("type", "arrow", "values", "encoded"), _CASES, ids=[case[0] for case in _CASES])
def test_hashes_are_those_of_single_value_bytes(
    type: str, arrow: pa.DataType, values: list[Any], encoded: list[bytes]
) -> None:
    # A null before and a value that is cut off, as in slices of batches.
    array = pa.array([values[0], None, *values], arrow).slice(1)
    hashes = hash_values(array, parse_primitive(type))
    assert sorted(hashes.tolist()) == sorted(
        mmh3.hash64(data, 9001, True, signed=False)[0] >> 1 for data in encoded
    )


def test_empty_values_have_no_hash() -> None:
    assert len(hash_values(pa.array(["", "a", ""]), parse_primitive("string"))) == 1
    assert len(hash_values(pa.array([], pa.string()), parse_primitive("string"))) == 0


def test_chunks_do_not_show() -> None:
    values = np.arange(100_000)
    long, string = parse_primitive("long"), parse_primitive("string")
    assert len(np.unique(hash_values(pa.array(values), long))) == len(values)
    texts = pa.array(values).cast(pa.string())
    whole = hash_values(texts, string)
    parts = [hash_values(texts.slice(start, 33_333), string) for start in range(0, len(values), 33_333)]
    assert (np.sort(whole) == np.sort(np.concatenate(parts))).all()
