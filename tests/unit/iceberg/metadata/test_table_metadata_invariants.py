"""Whatever sequence of updates is applied, the document stays one that every reader accepts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    ID,
    column,
    commit,
    document,
    empty,
    order,
    parse,
    partition_field,
    schema,
    set_ref,
    snapshot,
    sort_field,
    spec,
    update,
)

TYPES = ["int", "string", "timestamp"]
TRANSFORMS = ["identity", "bucket[4]", "day", "void"]
SNAPSHOT_IDS = st.integers(0, 15)
REF_NAMES = st.sampled_from(["main", "dev", "v1"])


@st.composite
def schemas(draw: st.DrawFn) -> dict:
    ids = draw(st.lists(st.integers(2, 9), unique=True, max_size=4))
    return schema(ID, *(column(i, f"c{i}", draw(st.sampled_from(TYPES))) for i in ids))


@st.composite
def specs(draw: st.DrawFn) -> dict:
    sources = draw(st.lists(st.integers(1, 6), unique=True, max_size=2))
    return spec(
        *(
            partition_field(
                draw(st.integers(1000, 1003)), i, f"p{i}{number}", draw(st.sampled_from(TRANSFORMS))
            )
            for number, i in enumerate(sources)
        )
    )


def updates() -> st.SearchStrategy[dict]:
    some_ids = st.lists(SNAPSHOT_IDS, max_size=4)
    last_or_any = st.sampled_from([-1, -1, 0, 1, 2])
    return st.one_of(
        st.builds(set_ref, REF_NAMES, SNAPSHOT_IDS, st.sampled_from(["branch", "branch", "tag"])),
        st.builds(lambda name: update("remove-snapshot-ref", ref_name=name), REF_NAMES),
        st.builds(lambda ids: update("remove-snapshots", snapshot_ids=ids), some_ids),
        st.builds(lambda body: update("add-schema", schema=body), schemas()),
        st.builds(lambda i: update("set-current-schema", schema_id=i), last_or_any),
        st.builds(lambda i: update("remove-schemas", schema_ids=[i]), st.integers(0, 3)),
        st.builds(lambda body: update("add-spec", spec=body), specs()),
        st.builds(lambda i: update("set-default-spec", spec_id=i), last_or_any),
        st.builds(lambda i: update("remove-partition-specs", spec_ids=[i]), st.integers(0, 3)),
        st.builds(
            lambda ids: update("add-sort-order", sort_order=order(*map(sort_field, ids), order_id=len(ids))),
            st.lists(st.integers(1, 4), unique=True, max_size=2),
        ),
        st.builds(lambda i: update("set-default-sort-order", sort_order_id=i), last_or_any),
        st.builds(lambda v: update("upgrade-format-version", format_version=v), st.integers(2, 3)),
        st.builds(
            lambda i: update(
                "set-partition-statistics",
                partition_statistics={"snapshot-id": i, "statistics-path": "p", "file-size-in-bytes": 1},
            ),
            SNAPSHOT_IDS,
        ),
        st.builds(lambda v: update("set-properties", updates={"k": v}), st.sampled_from(["a", "b"])),
    )


def appends() -> st.SearchStrategy[list[dict]]:
    """A new snapshot, which `numbered` gives its numbers, and often a branch that moves to it."""

    def build(snapshot_id: int, parent: int | None, stale: bool, ref: str | None) -> list[dict]:
        body = snapshot(snapshot_id, 0, parent, **{"first-row-id": 0, "added-rows": 3, "stale": stale})
        added = update("add-snapshot", snapshot=body | {"timestamp-ms": BASE_MS + 6000})
        return [added] if ref is None else [added, set_ref(ref, snapshot_id)]

    rarely = st.integers(0, 9).map(lambda n: n == 0)
    refs = st.sampled_from(["main", "main", "dev", None])
    return st.builds(build, SNAPSHOT_IDS, st.none() | SNAPSHOT_IDS, rarely, refs)


def numbered(request: list[list[dict]], base: TableMetadata) -> list[dict]:
    """One request, with the sequence numbers and row ids of a client that knows the base."""
    updates = [item for group in request for item in group]
    sequence_number, row_id = base.last_sequence_number, base.next_row_id
    for item in updates:
        if item["action"] == "add-snapshot" and not item["snapshot"].pop("stale"):
            sequence_number += 1
            item["snapshot"] |= {"sequence-number": sequence_number, "first-row-id": row_id}
            row_id += 3 if base.format_version == 3 else 0
    return updates


REQUESTS = st.lists(appends() | appends() | updates().map(lambda item: [item]), min_size=1, max_size=4)
STARTS = st.sampled_from([empty(), empty(3), document(), document(3)])


def check_step(before: TableMetadata, after: TableMetadata) -> None:
    """What must hold from one document to the next."""
    assert after.last_column_id >= max(before.last_column_id, after.current_schema.highest_field_id)
    assert after.last_partition_id >= before.last_partition_id
    assert after.last_sequence_number >= before.last_sequence_number
    assert after.last_updated_ms >= before.last_updated_ms
    assert after.next_row_id >= before.next_row_id
    assert after.table_uuid == before.table_uuid
    old = {item.snapshot_id: item for item in before.snapshots}
    for item in after.snapshots:
        if item.snapshot_id in old and item == old[item.snapshot_id]:
            assert bytes(after.snapshot_bytes(item.snapshot_id)) == bytes(
                before.snapshot_bytes(item.snapshot_id)
            )


def check_document(metadata: TableMetadata) -> None:
    """What must hold for one document."""
    read_back = TableMetadata.parse(metadata.to_bytes())
    check_integrity(read_back)
    assert read_back.to_bytes() == metadata.to_bytes()
    assert read_back.header == metadata.header
    assert read_back.refs == metadata.refs
    assert read_back.properties == metadata.properties
    assert read_back.snapshots == metadata.snapshots
    assert read_back.refs_only_bytes() == metadata.refs_only_bytes()

    log = [entry.snapshot_id for entry in metadata.snapshot_log]
    if metadata.current_snapshot_id is not None:
        assert log[-1] == metadata.current_snapshot_id
    assert all(metadata.snapshot(snapshot_id) is not None for snapshot_id in log)
    assert len({item.schema_id for item in metadata.schemas}) == len(metadata.schemas)

    meanings: dict[int | None, tuple[tuple[int, ...], str]] = {}
    for item in metadata.partition_specs:
        for field in item.fields:
            if field.transform != "void":
                meaning = (field.sources, field.transform)
                assert meanings.setdefault(field.field_id, meaning) == meaning


def attempt(base: TableMetadata, request: list[list[dict]], now_ms: int) -> Iterator[TableMetadata]:
    """The document after a request; if that is refused, the documents after its parts, one by one."""
    try:
        yield commit(base, *numbered(deepcopy(request), base), now_ms=now_ms).metadata
    except (IllegalArgumentError, CommitFailedError):
        if len(request) > 1:
            for part in request:
                for after in attempt(base, [part], now_ms):
                    yield after
                    base = after


@settings(max_examples=200)
@given(STARTS, st.lists(REQUESTS, max_size=12))
def test_every_document_is_whole(start: dict, requests: list[list[list[dict]]]) -> None:
    metadata = parse(start)
    for number, request in enumerate(requests):
        for after in attempt(metadata, request, BASE_MS + 6000 + number):
            check_step(metadata, after)
            check_document(after)
            metadata = after
