"""What every storage does alike."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    FileMissingError,
    PayloadTooLargeError,
)
from floecat.fileio.base import Counts

AWKWARD_KEYS = [
    "a b",
    "a+b",
    "a%20b",
    "a%2Bb",
    "100%",
    "%zz",
    "p=1/q=a%2Fb/f.parquet",
    "ü/表/\U0001f600",
    "e\u0301",
    "[a]{b}",
    "a&b;c@d,e!f$g'h(i)*j",
    "~tilde^caret|pipe`tick",
    'quote"<less>',
    ".hidden",
    "...",
    "00001-0b7c.gz.metadata.json",
]


def test_a_file_is_read_as_it_was_written(storage: Any) -> None:
    location = f"{storage.root}/t/metadata/00000-a.metadata.json"
    storage.files.write_new(location, b'{"format-version":2}')
    assert storage.files.read(location) == b'{"format-version":2}'
    assert storage.files.exists(location)
    assert storage.keys() == {"t/metadata/00000-a.metadata.json"}


@pytest.mark.parametrize("size", [0, 1, 20_000_000])
def test_files_of_any_size(storage: Any, size: int) -> None:
    location = f"{storage.root}/file"
    storage.files.write_new(location, b"x" * size)
    assert storage.files.read(location) == b"x" * size
    assert [entry.size_bytes for entry in storage.files.list(storage.root)] == [size]


@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_keys_are_literal(storage: Any, key: str) -> None:
    location = f"{storage.root}/{key}"
    storage.files.write_new(location, key.encode())
    assert storage.keys() == {key}
    assert storage.files.read(location) == key.encode()
    assert [entry.location for entry in storage.files.list(storage.root)] == [location]
    assert storage.files.delete_many([location]).deleted == 1
    assert storage.keys() == set()


def test_names_that_only_decoding_would_mix_up_are_different_files(storage: Any) -> None:
    names = ["a b", "a+b", "a%20b", "a%2Bb", "a%2520b"]
    for name in names:
        storage.files.write_new(f"{storage.root}/{name}", name.encode())
    assert [storage.files.read(f"{storage.root}/{name}") for name in names] == [
        name.encode() for name in names
    ]
    storage.files.delete(f"{storage.root}/a%20b")
    assert storage.keys() == {"a b", "a+b", "a%2Bb", "a%2520b"}


def test_a_missing_file(storage: Any) -> None:
    location = f"{storage.root}/no/such.file"
    assert not storage.files.exists(location)
    with pytest.raises(FileMissingError) as raised:
        storage.files.read(location)
    assert raised.value.message == f"Failed to open input stream for file: {location}"
    storage.files.delete(location)


def test_a_folder_is_no_file(storage: Any) -> None:
    storage.put("folder/file", b"")
    assert not storage.files.exists(f"{storage.root}/folder")
    with pytest.raises(FileMissingError):
        storage.files.read(f"{storage.root}/folder")


def test_a_write_never_overwrites(storage: Any) -> None:
    location = f"{storage.root}/file"
    storage.files.write_new(location, b"first")
    with pytest.raises(AlreadyExistsError, match="already exists"):
        storage.files.write_new(location, b"first")
    with pytest.raises(AlreadyExistsError):
        storage.files.write_new(location, b"second")
    assert storage.files.read(location) == b"first"
    assert storage.keys() == {"file"}


def test_a_file_of_a_unique_name(storage: Any) -> None:
    location = f"{storage.root}/t/metadata/00000-0190a1b2.metadata.json"
    storage.files.write_new(location, b"first", unique_name=True)
    assert storage.files.read(location) == b"first"
    with pytest.raises(AlreadyExistsError):
        storage.files.write_new(location, b"second")
    counts = storage.files.counters.counts
    assert (counts.writes, counts.bytes_written) == (2, 5)


def test_one_of_many_writers_wins(storage: Any) -> None:
    storage.put("first", b"")  # with which some servers make room for a bucket
    for attempt in range(2):
        location = f"{storage.root}/race-{attempt}"

        def write(writer: int, location: str = location) -> bool:
            try:
                storage.files.write_new(location, b"%d" % writer)
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(write, range(8)))
        assert won.count(True) == 1
        assert storage.files.read(location) == b"%d" % won.index(True)


def test_a_read_is_bounded(storage: Any) -> None:
    location = f"{storage.root}/file"
    storage.put("file", b"x" * 1000)
    assert len(storage.files.read(location, max_bytes=1000)) == 1000
    with pytest.raises(PayloadTooLargeError, match="larger than 999 bytes") as raised:
        storage.files.read(location, max_bytes=999)
    assert "xx" not in raised.value.message


def test_a_listing_covers_a_folder_and_not_its_neighbour(storage: Any) -> None:
    for key in ["t/metadata/1.json", "t/data/p=1/2.parquet", "t2/data/3.parquet"]:
        storage.put(key, key.encode())
    started_at_ms = int(time.time() * 1000)
    for prefix in (f"{storage.root}/t", f"{storage.root}/t/"):
        entries = {entry.location: entry for entry in storage.files.list(prefix)}
        assert set(entries) == {f"{storage.root}/t/metadata/1.json", f"{storage.root}/t/data/p=1/2.parquet"}
        assert entries[f"{storage.root}/t/metadata/1.json"].size_bytes == len("t/metadata/1.json")
        assert all(abs(entry.modified_at_ms - started_at_ms) < 60_000 for entry in entries.values())
    assert len(list(storage.files.list(storage.root))) == 3
    assert list(storage.files.list(f"{storage.root}/nothing")) == []


def test_a_listing_starts_after_a_name(storage: Any) -> None:
    for key in ["_s/9", "0/1", "a", "b/0", "b.x", "c", "\ue000", "\U0001f600"]:
        storage.put(f"t/{key}", b"")

    def listed(start_after: str) -> set[str]:
        entries = storage.files.list(f"{storage.root}/t", start_after=start_after)
        return {entry.location.removeprefix(f"{storage.root}/t/") for entry in entries}

    everything = {"_s/9", "0/1", "a", "b/0", "b.x", "c", "\ue000", "\U0001f600"}
    assert listed("") == everything
    assert listed("1") == everything - {"0/1"}
    assert listed("a") == {"b/0", "b.x", "c", "\ue000", "\U0001f600"}
    assert listed("aa") == listed("a")
    assert listed("b.x") - {"b/0"} == {"c", "\ue000", "\U0001f600"}
    assert listed("c") == {"\ue000", "\U0001f600"}
    assert listed("\ue000") == {"\U0001f600"}
    assert listed("\U0001f600") == set()


def test_a_listing_of_the_root_starts_after_a_name(storage: Any) -> None:
    for key in ["a", "b/c", "d"]:
        storage.put(key, b"")
    entries = storage.files.list(storage.root, start_after="a")
    assert {entry.location.removeprefix(f"{storage.root}/") for entry in entries} == {"b/c", "d"}


RANGES = [
    ((0, 10), b"0123456789"),
    ((3, 4), b"3456"),
    ((9, 1), b"9"),
    ((8, 5), b"89"),
    ((10, 1), b""),
    ((2**40, 1), b""),
    ((0, 2**31), b"0123456789"),
    ((4, 0), b""),
]


@pytest.mark.parametrize(("part", "expected"), RANGES)
def test_a_part_of_a_file(storage: Any, part: tuple[int, int], expected: bytes) -> None:
    storage.put("file", b"0123456789")
    assert storage.files.read_range(f"{storage.root}/file", *part) == expected
    counts = storage.files.counters.counts
    assert (counts.reads, counts.bytes_read) == (0 if part[1] == 0 else 1, len(expected))


def test_parts_of_a_file(storage: Any) -> None:
    storage.put("file", b"0123456789")
    location = f"{storage.root}/file"
    assert storage.files.read_ranges(location, [part for part, _ in RANGES]) == [data for _, data in RANGES]
    assert storage.files.read_ranges(location, []) == []
    assert storage.files.read_ranges(location, [(7, 2), (1, 3), (2, 1)]) == [b"78", b"123", b"2"]


def test_parts_that_lie_close_together_are_one_request(storage: Any) -> None:
    content = b"ab" + b"." * 1_500_000 + b"cd"
    storage.put("file", content)
    location = f"{storage.root}/file"
    assert storage.files.read_ranges(location, [(1_500_002, 2), (1_500_000, 2), (0, 1)]) == [
        b"cd",
        b"..",
        b"a",
    ]
    near = storage.files.counters.counts
    assert near.reads == (1 if storage.root.startswith("file") else 2)
    assert storage.files.read_ranges(location, [(0, 1), (1_000_000, 1)]) == [b"a", b"."]
    assert (storage.files.counters.counts - near).reads == 1


def test_parts_of_an_empty_file(storage: Any) -> None:
    storage.put("file", b"")
    assert storage.files.read_range(f"{storage.root}/file", 0, 8) == b""


@pytest.mark.parametrize("part", [(0, 1), (5, 7)])
def test_a_part_of_a_missing_file(storage: Any, part: tuple[int, int]) -> None:
    storage.put("folder/file", b"")
    for missing in (f"{storage.root}/missing", f"{storage.root}/folder"):
        with pytest.raises(FileMissingError) as raised:
            storage.files.read_range(missing, *part)
        assert raised.value.message == f"Failed to open input stream for file: {missing}"
        with pytest.raises(FileMissingError):
            storage.files.read_ranges(missing, [part])


@pytest.mark.parametrize("part", [(-1, 1), (0, -1)])
def test_there_are_no_negative_parts(storage: Any, part: tuple[int, int]) -> None:
    storage.put("file", b"0123456789")
    with pytest.raises(ValueError, match="negative"):
        storage.files.read_range(f"{storage.root}/file", *part)
    with pytest.raises(ValueError, match="negative"):
        storage.files.read_ranges(f"{storage.root}/file", [part])


def test_a_listing_of_a_file_is_empty(storage: Any) -> None:
    storage.put("file", b"")
    assert list(storage.files.list(f"{storage.root}/file")) == []


def test_bulk_delete(storage: Any) -> None:
    scheme = storage.root.partition(":")[0]
    count, requests = {"s3": (1001, 2), "abfss": (300, 2)}.get(scheme, (300, 300))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: storage.put(f"data/{number:05}", b""), range(count)))
    storage.put("keep", b"")
    before = storage.files.counters.counts
    files = (f"{storage.root}/data/{number:05}" for number in range(count))
    outcome = storage.files.delete_many(files)
    assert (outcome.deleted, outcome.failures) == (count, ())
    assert storage.keys() == {"keep"}
    assert (storage.files.counters.counts - before).deletes == requests


def test_bulk_delete_takes_missing_files_and_reports_malformed_locations(storage: Any) -> None:
    storage.put("a", b"")
    asked = [f"{storage.root}/a", f"{storage.root}/missing", "relative/path", "s3://", f"{storage.root}/../x"]
    outcome = storage.files.delete_many(asked)
    assert outcome.deleted == 2
    assert [failure.location for failure in outcome.failures] == asked[2:]
    assert storage.keys() == set()


def test_bulk_delete_of_nothing(storage: Any) -> None:
    assert storage.files.delete_many([]).deleted == 0
    assert storage.files.counters.counts == Counts()


def test_folders_can_be_made_in_advance(storage: Any) -> None:
    for _ in range(2):
        storage.files.make_directory(f"{storage.root}/t/metadata")
    storage.files.write_new(f"{storage.root}/t/metadata/1.json", b"")
    assert storage.keys() == {"t/metadata/1.json"}


@pytest.mark.parametrize("call", ["read", "exists", "delete", "list", "make_directory"])
@pytest.mark.parametrize("suffix", ["/a/../b", "/%2e%2e/b", "/a\x00b", "/a\\b"])
def test_malformed_locations_reach_no_storage(storage: Any, call: str, suffix: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid location"):
        getattr(storage.files, call)(storage.root + suffix)
    with pytest.raises(BadRequestError, match="Invalid location"):
        storage.files.read_range(storage.root + suffix, 0, 1)
    with pytest.raises(BadRequestError, match="Invalid location"):
        storage.files.read_ranges(storage.root + suffix, [(0, 1)])
    with pytest.raises(BadRequestError, match="Invalid location"):
        storage.files.write_new(storage.root + suffix, b"")
    assert storage.files.counters.counts == Counts()


def test_requests_and_bytes_are_counted(storage: Any) -> None:
    location = f"{storage.root}/file"
    storage.files.write_new(location, b"12345")
    storage.files.read(location)
    storage.files.exists(location)
    list(storage.files.list(storage.root))
    storage.files.delete(location)
    assert storage.files.counters.counts == Counts(
        reads=1, writes=1, lookups=1, deletes=1, lists=1, bytes_read=5, bytes_written=5
    )
    assert storage.files.counters.counts.calls == 5
