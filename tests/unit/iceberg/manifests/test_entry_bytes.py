from __future__ import annotations

import numpy as np
import pytest

from floecat.iceberg.avro.columns import varint
from floecat.iceberg.manifests.entry_bytes import (
    EntryBytes,
    as_deleted,
    concat_entries,
    file_path,
    select,
    status_bytes,
    with_first_row_ids,
)


def entries(*parts: bytes) -> EntryBytes:
    sizes = np.array([len(part) for part in parts], np.int64)
    return EntryBytes(np.frombuffer(b"".join(parts), np.uint8), sizes)


def parts(made: EntryBytes) -> list[bytes]:
    assert made.sizes.sum() == len(made.data)
    return [
        made.data[start : start + size].tobytes() for start, size in zip(made.starts, made.sizes, strict=True)
    ]


@pytest.mark.parametrize("chosen", ["", "0", "4", "01234", "024", "13", "0134", "12"])
def test_select(chosen: str) -> None:
    made = entries(b"a", b"bb", b"", b"cccc", b"d")
    mask = np.array([str(row) in chosen for row in range(5)])
    assert parts(select(made, mask)) == [parts(made)[int(row)] for row in chosen]


def test_select_of_nothing() -> None:
    assert parts(select(entries(), np.zeros(0, np.bool_))) == []


def test_concat() -> None:
    assert parts(concat_entries([entries(b"a", b""), entries(), entries(b"bc")])) == [b"a", b"", b"bc"]
    assert parts(concat_entries([])) == []


def test_status() -> None:
    assert status_bytes(np.array([0, 1, 2], np.uint8)).tolist() == [0, 2, 4]


def test_deleted() -> None:
    ids = [5, 2**62, -1]
    made = entries(*(b"\x02\x02" + varint(id) + b"rest %d" % id for id in ids))
    deleted = as_deleted(made, np.array(ids), 10**6)
    assert parts(deleted) == [b"\x04\x02" + varint(10**6) + b"rest %d" % id for id in ids]


PATH = "s3://b/" + "ä" * 40


@pytest.mark.parametrize("numbers", [[b"\x00"] * 3, [b"\x02" + varint(number) for number in (0, -1, 2**62)]])
def test_path_of_the_file(numbers: list[bytes]) -> None:
    entry = b"\x02" + b"".join(numbers) + varint(2) + varint(len(PATH.encode())) + PATH.encode() + b"rest"
    assert file_path(entry) == PATH
    for length in range(len(entry) - len(b"rest")):
        with pytest.raises((IndexError, ValueError)):
            file_path(entry[:length])


def test_first_row_ids() -> None:
    made = entries(b"a" + bytes(4), b"bbbb\x02\x0e" + bytes(3), b"cc" + bytes(4))
    changed = with_first_row_ids(made, np.array([300, 0, 0]), np.array([True, False, True]))
    assert parts(changed) == [
        b"a\x02" + varint(300) + bytes(3),
        b"bbbb\x02\x0e" + bytes(3),
        b"cc\x02\x00" + bytes(3),
    ]
