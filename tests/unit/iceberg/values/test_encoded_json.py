from __future__ import annotations

import msgspec
import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.values.encoded_json import (
    Fragment,
    append_elements,
    array_of,
    blocks_of,
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


def _large_array(elements: int) -> Fragment:
    return array_of([b'{"n":%d,"text":"%s"}' % (number, b"x" * 500) for number in range(elements)])


def test_a_small_array_has_no_blocks() -> None:
    assert blocks_of(_large_array(10)) is None


def test_blocks_stay_the_same_objects_while_elements_are_appended() -> None:
    array = _large_array(2000)
    blocks = blocks_of(array)
    assert blocks is not None
    assert fragment_bytes(blocks) == fragment_bytes(array)
    grown = blocks
    for number in range(600):
        more = blocks_of(append_elements(grown, [b'{"more":%d,"text":"%s"}' % (number, b"y" * 500)]))
        assert more is not None
        grown = more
    kept = len(blocks) - 1
    assert [id(block) for block in grown[:kept]] == [id(block) for block in blocks[:kept]]
    assert len({len(block) for block in grown[:-1]}) == 1
    assert len(msgspec.json.decode(fragment_bytes(grown))) == 2600
