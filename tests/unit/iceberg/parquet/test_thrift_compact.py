from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.iceberg.parquet.thrift_compact import (
    STOP,
    FieldPlace,
    Fields,
    ThriftError,
    field_header,
    field_places,
    list_header,
    read_struct,
)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def test_reads_every_type_of_field() -> None:
    data = (
        b"\x11"  # field 1, true
        b"\x12"  # field 2, false
        b"\x13\xfe"  # field 3, a byte
        + b"\x15"
        + zigzag(-7)  # field 4
        + b"\x16"
        + zigzag(2**63 - 1)  # field 5
        + b"\x17"
        + struct.pack("<d", 1.5)  # field 6
        + b"\x18"
        + varint(3)
        + b"abc"  # field 7
        + b"\x19\x28"
        + varint(1)
        + b"x"
        + varint(0)  # field 8, a list of two texts
        + b"\x1c"
        + b"\x15"
        + zigzag(5)
        + b"\x00"  # field 9, a struct
        + b"\x1a\x21\x01\x02"  # field 10, a set of two booleans
        + b"\x05"
        + zigzag(100)
        + zigzag(9)  # field 100
        + b"\x00"
    )
    wanted: Fields = {**dict.fromkeys(range(1, 101)), 9: {1: None}}
    assert read_struct(data, wanted) == {
        1: True,
        2: False,
        3: -2,
        4: -7,
        5: 2**63 - 1,
        6: 1.5,
        7: b"abc",
        8: [b"x", b""],
        9: {1: 5},
        10: [True, False],
        100: 9,
    }
    # the same fields are passed over
    assert read_struct(data, {100: None}) == {100: 9}


def test_fields_are_located() -> None:
    parts = [b"\x15\x0a", b"\x18\x02ab", b"\x0d\x64" + bytes(16), b"\x1c\x15\x02\x00", b"\x15\x0c"]
    data = b"before" + b"".join(parts) + b"\x00after"
    assert list(field_places(data, 6)) == [
        FieldPlace(1, 5, 6, 7),
        FieldPlace(2, 8, 8, 9),
        FieldPlace(50, 13, 12, 14),
        FieldPlace(51, 12, 30, 31),
        FieldPlace(52, 5, 34, 35),
        FieldPlace(0, STOP, 36, 37),
    ]
    assert read_struct(data, {1: None, 51: {1: None}, 52: None}, 6) == {1: 5, 51: {1: 1}, 52: 6}


def test_what_is_located_has_not_to_end_well() -> None:
    assert next(field_places(b"\x15")) == FieldPlace(1, 5, 0, 1)


@pytest.mark.parametrize(("number", "after"), [(1, 0), (16, 1), (17, 1), (3, 3), (2, 9), (-1, 0)])
def test_headers_of_fields(number: int, after: int) -> None:
    data = field_header(after, 5, after=0) + b"\x00" + field_header(number, 5, after=after) + b"\x02\x00"
    assert [place.number for place in field_places(data)][:-1] == [after, number]


def test_headers_of_lists() -> None:
    assert list_header(b"\x00\x28ab", 1) == (2, 8, 2)
    assert list_header(b"\xf5" + varint(20) + bytes(20), 0) == (20, 5, 2)
    for data in (b"", b"\xf5", b"\x28", b"\xf5\xff\xff\xff\xff\x0f\x00"):
        with pytest.raises(ThriftError):
            list_header(data, 0)


def test_lists_may_be_long() -> None:
    data = b"\x19\xf5" + varint(1000) + b"".join(map(zigzag, range(1000))) + b"\x00"
    assert read_struct(data, {1: None}) == {1: list(range(1000))}
    assert read_struct(data, {}) == {}


def test_maps_are_passed_over() -> None:
    filled = b"\x1b" + varint(1) + b"\x85" + varint(1) + b"k" + zigzag(3)
    empty = b"\x1b\x00"
    assert read_struct(filled + empty + b"\x15" + zigzag(4) + b"\x00", {3: None}) == {3: 4}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x15\x02",
        b"\x18\x05abc\x00",
        b"\x19\xf5\xff\xff\xff\xff\x0f\x00",
        b"\x19\xfc\xff\xff\xff\xff\x0f\x00",
        b"\x1b\xff\xff\xff\xff\x0f\x88\x00",
        b"\x17\x00\x00",
        b"\x15" + b"\xff" * 20,
        b"\x1e\x00",
        b"\x1c" * 5000 + b"\x00" * 5001,
        b"\x19\x19" * 5000,
    ],
)
@pytest.mark.parametrize("wanted", [{}, {1: None}])
def test_what_does_not_fit_is_refused(data: bytes, wanted: Fields) -> None:
    with pytest.raises(ThriftError):
        read_struct(data, wanted)
    with pytest.raises(ThriftError):
        list(field_places(data))


@settings(max_examples=300)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    deep: Any = {number: {inner: {} for inner in range(8)} for number in range(16)}
    for wanted in ({}, deep):
        with contextlib.suppress(ThriftError):
            assert isinstance(read_struct(data, wanted), dict)
    try:
        *_, end = field_places(data)
    except ThriftError:
        return
    assert (end.kind, end.value) == (STOP, end.start + 1)
    assert end.value <= len(data)
