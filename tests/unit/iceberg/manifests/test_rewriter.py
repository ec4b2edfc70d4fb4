from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.container import encode_container, read_blocks, read_header
from floecat.iceberg.manifests import index as manifest_index
from floecat.iceberg.manifests.index import EntryKeys, read_index
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.manifests.rewriter import OldManifest, find_entries, rewrite
from floecat.iceberg.manifests.writer import EncodedManifest
from tests.unit.iceberg.manifest_bytes import manifest_bytes
from tests.unit.iceberg.manifest_samples import SampleFile, Table, comparable, read_entries, read_metadata

LOCATION = "s3://b/t/metadata/m0.avro"
DELETES = FileContent.POSITION_DELETES
EXISTING, ADDED, DELETED = 0, 1, 2
IDS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


def old(manifest: EncodedManifest, first_row_id: int | None = None) -> OldManifest:
    return OldManifest(manifest.data, LOCATION, first_row_id)


def keys(*values: str) -> Any:
    return pa.array(values, pa.string())


def key_of(file: SampleFile) -> str:
    return file.path if file.referenced is None else file.referenced


def rewritten(
    manifests: Sequence[tuple[Sequence[SampleFile], int | None]], remove: Sequence[str], snapshot_id: int
) -> list[SampleFile]:
    """The entries that a rewrite should leave, by what readers make of the old manifests."""
    live = []
    for files, first_row_id in manifests:
        next_row_id = first_row_id
        for file in files:
            if file.status == DELETED:
                continue
            row_id = file.first_row_id
            if row_id is None and next_row_id is not None:
                row_id, next_row_id = next_row_id, next_row_id + file.records
            live.append(dataclasses.replace(file, first_row_id=row_id))
    return [dataclasses.replace(file, status=EXISTING) for file in live if key_of(file) not in remove] + [
        dataclasses.replace(file, status=DELETED, snapshot_id=snapshot_id)
        for file in live
        if key_of(file) in remove
    ]


@st.composite
def manifests(draw: st.DrawFn) -> tuple[Table, FileContent, list[tuple[list[SampleFile], int | None]]]:
    table = Table(("int", "string"), format_version=draw(st.sampled_from([2, 3])))
    content = draw(st.sampled_from([FileContent.DATA, DELETES]))
    inherits = content is FileContent.DATA and table.format_version == 3
    names = st.sampled_from("abcdefgh")
    file = st.builds(
        SampleFile,
        path=names,
        status=st.sampled_from([EXISTING, ADDED, DELETED]),
        snapshot_id=IDS,
        sequence_number=IDS,
        partition=st.tuples(st.one_of(st.none(), st.integers(0, 99)), st.text(max_size=3)),
        records=st.integers(-1, 10**6),
        size=st.integers(0, 10**6),
        metrics=st.fixed_dictionaries(
            {}, optional={"upper_bounds": st.dictionaries(st.integers(1, 3), st.binary(max_size=300))}
        ),
        referenced=st.none() if content is FileContent.DATA else st.one_of(st.none(), names),
        first_row_id=st.one_of(st.none(), st.integers(0, 2**62)) if inherits else st.none(),
    )
    first_row_id = st.one_of(st.none(), st.integers(0, 2**40)) if inherits else st.none()
    return (
        table,
        content,
        draw(st.lists(st.tuples(st.lists(file, max_size=8), first_row_id), min_size=1, max_size=3)),
    )


@settings(max_examples=80)
@given(manifests(), st.lists(st.sampled_from("abcdefghxyz")), IDS)
def test_the_same_as_writing_afresh(
    drawn: tuple[Table, FileContent, list[tuple[list[SampleFile], int | None]]],
    remove: list[str],
    snapshot_id: int,
) -> None:
    table, content, sources = drawn
    olds = [old(table.write(files, content), first_row_id) for files, first_row_id in sources]
    result = rewrite(olds, remove=keys(*remove), snapshot_id=snapshot_id)
    wanted = rewritten(sources, remove, snapshot_id)
    assert read_entries(result.data) == table.entries(wanted, content)
    afresh = table.write(wanted, content)
    assert result.index.entries.equals(afresh.index.entries)
    assert result.data == afresh.data
    assert result.data == rewrite(olds, remove=keys(*remove), snapshot_id=snapshot_id).data
    # and once more, from what was just written
    again = rewrite([old(result)], remove=keys("a"), snapshot_id=snapshot_id)
    assert read_entries(again.data) == table.entries(rewritten([(wanted, None)], ["a"], snapshot_id), content)


def test_statuses_and_ids() -> None:
    table = Table()
    files = [
        SampleFile("a", ADDED, 3, 4),
        SampleFile("b", EXISTING, 1, 2),
        SampleFile("c", DELETED, 3, 2),
        SampleFile("d", ADDED, 3, 4),
        SampleFile("e", EXISTING, 1, 1),
    ]
    result = rewrite([old(table.write(files))], remove=keys("d", "c", "e", "x"), snapshot_id=10**12)
    assert [
        (entry["data_file"]["file_path"], entry["status"], entry["snapshot_id"], entry["sequence_number"])
        for entry in read_entries(result.data)
    ] == [("a", EXISTING, 3, 4), ("b", EXISTING, 1, 2), ("d", DELETED, 10**12, 4), ("e", DELETED, 10**12, 1)]
    listed = result.manifest_file(LOCATION, snapshot_id=10**12, sequence_number=5)
    assert (listed.added_files_count, listed.existing_files_count, listed.deleted_files_count) == (0, 2, 2)
    assert (listed.existing_rows_count, listed.deleted_rows_count) == (20, 20)
    assert (listed.min_sequence_number, listed.sequence_number) == (2, 5)
    assert listed.added_snapshot_id == 10**12
    assert listed.manifest_length == len(result.data)


@pytest.mark.parametrize("content", [FileContent.DATA, DELETES])
def test_entries_are_found(content: FileContent) -> None:
    table = Table(("int", "string"))
    files = many(3000, EXISTING)
    if content is DELETES:
        files = [
            dataclasses.replace(file, path=f"d{n}", referenced=file.path) for n, file in enumerate(files)
        ]
    files[7] = dataclasses.replace(files[7], status=DELETED)
    manifest = table.write(files, content)
    wanted = [key_of(files[row]) for row in (2999, 7, 5)]
    found = find_entries(old(manifest), EntryKeys(keys(*wanted, "x")))
    assert [(entry.row, entry.key) for entry in found] == [(5, wanted[2]), (2999, wanted[0])]
    assert [entry.file_path for entry in found] == [files[5].path, files[2999].path]
    assert (
        find_entries(OldManifest(manifest.data, LOCATION, None, manifest.index), EntryKeys(keys("x"))) == []
    )


def test_equal_hashes_of_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(values: Any) -> Any:
        return np.zeros(len(values), np.uint64)

    monkeypatch.setattr(manifest_index, "string_hashes", same)
    manifest = Table().write([SampleFile("s3://b/a"), SampleFile("s3://b/b"), SampleFile("s3://b/c")])
    found = find_entries(old(manifest), EntryKeys(keys("s3://b/c", "s3://b/x", "s3://b/a")))
    assert [(entry.row, entry.key) for entry in found] == [(0, "s3://b/a"), (2, "s3://b/c")]


def test_vectors_that_delete_nothing_are_remembered() -> None:
    table = Table()
    rows = table.rows([SampleFile("a"), SampleFile("b"), SampleFile("c")])
    vectors = pa.array(["iabc", None, "ixyz"], pa.string())
    marked = table.write_rows(dataclasses.replace(rows, empty_vectors=vectors))
    plain = table.write([SampleFile("d")])
    result = rewrite([old(plain), old(marked)], remove=keys("a"), snapshot_id=9)
    index = read_index(result.data, location=LOCATION)
    assert index is not None
    assert index.entries["empty_vector"].to_pylist() == [None, None, "ixyz", "iabc"]


def test_nothing_is_left() -> None:
    result = rewrite([old(Table().write([SampleFile("a", DELETED)]))], remove=keys(), snapshot_id=1)
    assert read_entries(result.data) == []
    assert len(result.index) == 0


def test_the_header_of_the_last_one() -> None:
    older, newer = Table(), Table(format_version=2)
    first, second = older.write([SampleFile("a")]), newer.write([SampleFile("b")])
    changed = second.data.replace(b'"schema-id":4', b'"schema-id":5')
    # its marker belongs to the content
    header = read_header(changed, location=LOCATION, what="manifest")
    blocks = list(read_blocks(changed, header, location=LOCATION, what="manifest"))
    metadata = {name: value for name, value in header.metadata.items() if name != "avro.codec"}
    newest = encode_container(metadata, blocks)
    result = rewrite([old(first), OldManifest(newest, LOCATION)], remove=keys(), snapshot_id=1)
    assert '"schema-id":5' in read_metadata(result.data)["schema"]
    assert [entry["data_file"]["file_path"] for entry in read_entries(result.data)] == ["a", "b"]


def many(count: int, status: int) -> list[SampleFile]:
    return [
        SampleFile(
            f"s3://b/{number:05d}.parquet",
            status,
            partition=(number % 7, "p"),
            metrics={"upper_bounds": {1: b"%09d" % number, 2: b"x" * (number % 90)}},
        )
        for number in range(count)
    ]


def blocks_of(data: bytes) -> list[bytes]:
    header = read_header(data, location=LOCATION, what="manifest")
    return [bytes(block.data) for block in read_blocks(data, header, location=LOCATION, what="manifest")]


@pytest.mark.parametrize("format_version", [2, 3])
def test_blocks_without_changes_are_copied(format_version: int) -> None:
    table = Table(("int", "string"), format_version=format_version)
    files = many(5000, EXISTING)
    before = table.write(files)
    gone = [files[5].path, files[6].path, files[3000].path]
    after = rewrite([old(before)], remove=keys(*gone), snapshot_id=9)
    wanted = rewritten([(files, None)], gone, 9)
    assert read_entries(after.data) == table.entries(wanted)
    assert after.index.entries.equals(table.write(wanted).index.entries)
    old_blocks, new_blocks = blocks_of(before.data), blocks_of(after.data)
    assert len(old_blocks) > 8
    # Two hold what is gone; the last one may be so small that it is joined with what comes next.
    changed = {old_blocks.index(block) for block in set(old_blocks) - set(new_blocks)}
    assert 0 in changed
    assert len(changed - {len(old_blocks) - 1}) == 2


def test_new_ones_become_existing_ones() -> None:
    table = Table(("int", "string"))
    files = many(3000, ADDED)
    after = rewrite([old(table.write(files))], remove=keys(files[0].path), snapshot_id=9)
    wanted = rewritten([(files, None)], [files[0].path], 9)
    assert after.data == table.write(wanted).data


def test_small_manifests_become_large_blocks() -> None:
    table = Table(("int", "string"))
    files = many(400, EXISTING)
    parts = [table.write(files[start : start + 4]) for start in range(0, 400, 4)]
    merged = rewrite([old(part) for part in parts], remove=keys(), snapshot_id=9)
    assert merged.data == table.write(files).data
    assert len(blocks_of(merged.data)) == 1


def test_row_ids_stay() -> None:
    table = Table(format_version=3)
    files = [
        SampleFile("a", records=10),
        SampleFile("b", records=5, first_row_id=1000),
        SampleFile("c", DELETED, records=7),
        SampleFile("d", EXISTING, records=300),
        SampleFile("e", records=1),
    ]
    result = rewrite([old(table.write(files), 50)], remove=keys("d"), snapshot_id=9)
    assert [
        (entry["data_file"]["file_path"], entry["data_file"]["first_row_id"])
        for entry in read_entries(result.data)
    ] == [("a", 50), ("b", 1000), ("e", 360), ("d", 60)]
    # Nothing is left to inherit, whatever the new manifest is given.
    again = rewrite([old(result, 7777)], remove=keys(), snapshot_id=10)
    assert [entry["data_file"]["first_row_id"] for entry in read_entries(again.data)] == [50, 1000, 360]


def test_equal_hashes_of_different_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_the_same(array: Any) -> Any:
        return np.full(len(array), 7, np.uint64)

    monkeypatch.setattr(manifest_index, "string_hashes", always_the_same)
    table = Table()
    files = [SampleFile(name) for name in ("a", "ab", "b", "c")]
    manifest = table.write(files)
    assert manifest.index.holds(keys("x"))
    result = rewrite([old(manifest)], remove=keys("ab", "c", "x"), snapshot_id=9)
    assert comparable(read_entries(result.data)) == table.entries(rewritten([(files, None)], ["ab", "c"], 9))


@pytest.mark.parametrize("remove", [pa.chunked_array([["a"], ["x"]]), EntryKeys(pa.array(["x", "a"]))])
def test_other_forms_of_keys(remove: Any) -> None:
    manifest = Table().write([SampleFile("a"), SampleFile("b")])
    result = rewrite([old(manifest)], remove=remove, snapshot_id=9)
    assert [entry["status"] for entry in read_entries(result.data)] == [EXISTING, DELETED]


def test_what_does_not_belong_together() -> None:
    plain = old(Table().write([SampleFile("a")]))
    with pytest.raises(ValueError, match="No manifest"):
        rewrite([], remove=keys(), snapshot_id=1)
    with pytest.raises(ValueError, match=f"Manifest {LOCATION} has no index"):
        rewrite([OldManifest(manifest_bytes([]), LOCATION)], remove=keys(), snapshot_id=1)
    others = {
        "partition-spec-id": Table(spec_id=1).write([SampleFile("a")]),
        "content": Table().write([SampleFile("a")], DELETES),
        "avro.schema": Table(("int",)).write([SampleFile("a", partition=(1,))]),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"different {name} cannot"):
            rewrite([plain, old(other)], remove=keys(), snapshot_id=1)
    with pytest.raises(ValueError, match="cannot become one"):
        rewrite([plain, old(Table(format_version=3).write([]))], remove=keys(), snapshot_id=1)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9, 0.97, 0.999])
def test_damage(place: float) -> None:
    data = bytearray(Table().write([SampleFile(f"s3://b/{number}") for number in range(2000)]).data)
    data[int(len(data) * place)] ^= 1
    with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest {LOCATION}: "):
        rewrite([OldManifest(bytes(data), LOCATION)], remove=keys(), snapshot_id=1)


def test_cut_off() -> None:
    data = Table().write([SampleFile(f"s3://b/{number}") for number in range(2000)]).data
    header = read_header(data, location=LOCATION, what="manifest")
    for size in (10, header.size - 1, header.size, header.size + 1, header.size + 100, len(data) - 1):
        with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest {LOCATION}: "):
            rewrite([OldManifest(data[:size], LOCATION)], remove=keys(), snapshot_id=1)


def test_entries_that_are_not_those_of_the_index() -> None:
    table = Table()
    one, other = table.write([SampleFile("a")]), table.write([SampleFile("abc")])
    header = read_header(one.data, location=LOCATION, what="manifest")
    foreign = read_header(other.data, location=LOCATION, what="manifest")
    blocks = list(read_blocks(other.data, foreign, location=LOCATION, what="manifest"))
    mixed = encode_container(header.metadata, blocks)
    assert read_index(mixed, location=LOCATION) is not None
    with pytest.raises(InvalidMetadataError, match="do not fit its index"):
        rewrite([OldManifest(mixed, LOCATION)], remove=keys(), snapshot_id=1)
    with pytest.raises(InvalidMetadataError, match="do not fit its index"):
        rewrite(
            [OldManifest(encode_container(header.metadata, blocks * 2), LOCATION)],
            remove=keys(),
            snapshot_id=1,
        )
