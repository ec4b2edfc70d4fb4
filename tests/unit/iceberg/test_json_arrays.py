from __future__ import annotations

import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.json_arrays import (
    append_elements,
    array_of,
    fragment_bytes,
    fragment_size,
    is_empty_array,
    split_array,
)


@pytest.mark.parametrize("raw", [b"[]", b"[ ]", b"[\n\t ]"])
def test_empty_arrays(raw: bytes) -> None:
    assert is_empty_array((raw,))
    assert bytes(fragment_bytes(append_elements((raw,), [b"1", b"2"]))).replace(b" ", b"").endswith(b"1,2]")


@pytest.mark.parametrize("raw", [b"[1]", b"[[]]", b'["["]', b"[ {} ]"])
def test_full_arrays(raw: bytes) -> None:
    assert not is_empty_array((raw,))
    assert bytes(fragment_bytes(append_elements((raw,), [b"9"]))) == raw[:-1] + b",9]"


def test_appending_again_and_again_shares_the_pieces_before() -> None:
    first = (b"[1]",)
    second = append_elements(first, [b"2"])
    third = append_elements(second, [b"3", b"4"])

    assert bytes(fragment_bytes(third)) == b"[1,2,3,4]"
    assert bytes(fragment_bytes(second)) == b"[1,2]"
    assert third[0] is second[0]
    assert fragment_size(third) == 9
    assert append_elements(third, []) is third


def test_arrays_of_elements() -> None:
    assert array_of([]) == (b"[]",)
    assert array_of([b"1", memoryview(b"{}")]) == (b"[1,{}]",)
    assert [bytes(raw) for raw in split_array((b'[1, {"a": 2}', b" , 3]"), "x")] == [b"1", b'{"a": 2}', b"3"]


def test_refuses_to_split_another_value() -> None:
    with pytest.raises(InvalidMetadataError, match="cannot parse snapshots"):
        split_array((b"{}",), "snapshots")
