"""A request with thousands of updates: none of them costs more because of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floecat.iceberg.builder.definition_list import DefinitionKind, DefinitionList
from floecat.iceberg.metadata.properties import strip_trailing_slash
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.views.view_builder import apply_view_updates, new_view_metadata
from tests.unit.iceberg.operations import operations_of
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    append,
    commit,
    document,
    empty,
    encode,
    parse,
    read,
    set_ref,
    snapshot,
    update,
)
from tests.updates import decode_view_updates

STEP = 60


def column(number: int) -> dict:
    return {"id": 1, "name": f"c{number}", "required": False, "type": "long"}


def add_schema(number: int) -> list[dict]:
    return [update("add-schema", schema={"type": "struct", "fields": [column(number)]})]


def add_spec(number: int) -> list[dict]:
    fields = [{"name": f"p{number}", "transform": f"bucket[{number + 1}]", "source-id": 1}]
    return [update("add-spec", spec={"fields": fields})]


def add_order(number: int) -> list[dict]:
    field = {"transform": f"bucket[{number + 1}]", "source-id": 1, "direction": "asc"}
    return [
        update("add-sort-order", sort_order={"order-id": 1, "fields": [field | {"null-order": "nulls-last"}]})
    ]


def add_key(number: int) -> list[dict]:
    key = {"key-id": f"k{number}", "encrypted-key-metadata": "aGVsbG8="}
    return [update("add-encryption-key", encryption_key=key)]


def set_statistics(number: int) -> list[dict]:
    file = {"snapshot-id": number, "statistics-path": "file:///s", "file-size-in-bytes": 1}
    more = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    return [
        update("set-statistics", statistics=file | more),
        update("set-partition-statistics", partition_statistics=file),
    ]


def add_and_remove(number: int) -> list[dict]:
    """Each removal takes a snapshot, a branch and statistics with it."""
    added = snapshot(100 + number, 100 + number)
    return [
        update("add-snapshot", snapshot=added),
        set_ref(f"b{number}", 100 + number),
        *set_statistics(100 + number),
        update("remove-snapshots", snapshot_ids=[100 + number]),
    ]


def add_and_remove_definitions(number: int) -> list[dict]:
    spec, schema = add_spec(number), add_schema(number)
    return [
        *spec,
        *schema,
        update("remove-partition-specs", spec_ids=[1]),
        update("remove-schemas", schema_ids=[2]),
        *add_key(number),
        update("remove-encryption-key", key_id=f"k{number}"),
    ]


KINDS: dict[str, Callable[[int], list[dict]]] = {
    "add-schema": add_schema,
    "add-spec": add_spec,
    "add-sort-order": add_order,
    "add-encryption-key": add_key,
    "set-statistics": set_statistics,
    "remove-statistics": lambda number: [update("remove-statistics", snapshot_id=number)],
    "set-snapshot-ref": lambda number: [set_ref(f"b{number}", 13)],
    "remove-snapshot-ref": lambda number: [
        set_ref(f"b{number}", 13),
        update("remove-snapshot-ref", ref_name=f"b{number}"),
    ],
    "main": lambda number: [set_ref("main", 11 + number % 3)],
    "append": lambda number: append(100 + number, 100 + number, None),
    "snapshots that are removed": add_and_remove,
    "snapshots that are removed beside branches that stay": lambda number: [
        set_ref(f"b{number}", 13),
        *set_statistics(number),
        update("add-snapshot", snapshot=snapshot(1000 + number, 1000 + number)),
        update("remove-snapshots", snapshot_ids=[1000 + number]),
    ],
    "definitions that are removed": add_and_remove_definitions,
    "set-properties": lambda number: [update("set-properties", updates={f"k{number}": "x"})],
    "remove-properties": lambda number: [update("remove-properties", removals=[f"k{number}"])],
}


def growth(cost: Callable[[int], int]) -> float:
    """How much more the third part of some work costs than the second one."""
    cost(1)  # caches of the process are filled
    first, second, third = (cost(count * STEP) for count in (1, 2, 3))
    return (third - second) / (second - first)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_costs_the_same_however_many_there_are(kind: str) -> None:
    def cost(count: int) -> int:
        base = parse(document(**{"last-sequence-number": 99}))
        updates = [each for number in range(count) for each in KINDS[kind](number)]
        return operations_of(lambda: commit(base, *updates))

    assert growth(cost) < 1.1


@pytest.mark.parametrize("kind", ["schemas", "versions"])
def test_updates_of_views_cost_the_same_however_many_there_are(kind: str) -> None:
    def cost(count: int) -> int:
        view = new_view_metadata(
            schema=encode({"type": "struct", "fields": [column(0)]}),
            view_version=encode(view_version(0)),
            properties={},
            location="file:///v",
            view_uuid="0190a1b2-0000-7000-8000-000000000001",
            now_ms=BASE_MS,
        )
        updates = [
            add_schema(number + 1)[0]
            if kind == "schemas"
            else update("add-view-version", view_version=view_version(number + 1))
            for number in range(count)
        ]
        decoded = decode_view_updates(encode(updates))
        return operations_of(lambda: apply_view_updates(view, decoded, now_ms=BASE_MS))

    assert growth(cost) < 1.1


def view_version(number: int) -> dict:
    return {
        "version-id": number + 1,
        "timestamp-ms": BASE_MS,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": f"select {number}", "dialect": "spark"}],
    }


def test_growth_would_be_found() -> None:
    known: list[int] = []

    def cost(count: int) -> int:
        known.clear()
        return operations_of(lambda: [known.append(n) for n in range(count) if all(k != n for k in known)])

    assert growth(cost) > 1.5


def test_the_next_id_is_one_more_than_the_highest_there_is() -> None:
    kind = DefinitionKind[PartitionSpec](
        array="partition-specs",
        selector="default-spec-id",
        noun="spec",
        role="default partition spec",
        read=lambda _: (),
        id_of=lambda spec: spec.spec_id,
        content_of=lambda spec: spec.content,
    )
    specs = DefinitionList(None, kind, selected_id=-2)
    for expected in range(100):
        assert specs.next_id() == expected
        specs.insert(PartitionSpec(expected), b"{}")
    specs.remove({99, 3})
    assert specs.next_id() == 99
    specs.remove({98, 97})
    specs.insert(PartitionSpec(7), b"{}")
    assert specs.next_id() == 97
    specs.remove(set(range(100)))
    assert specs.next_id(1) == 1


def test_what_was_removed_is_added_anew() -> None:
    base = parse(empty())
    made = commit(base, *add_spec(1), update("remove-partition-specs", spec_ids=[1]), *add_spec(1)).metadata
    assert [(spec.spec_id, spec.fields[0].field_id) for spec in made.partition_specs[1:]] == [(1, 1001)]
    made = commit(made, *add_spec(2), update("remove-partition-specs", spec_ids=[1]), *add_spec(1)).metadata
    assert [spec.spec_id for spec in made.partition_specs[1:]] == [2, 3]


def test_a_removed_key_and_a_removed_file_leave_the_others_as_they_were() -> None:
    keys = [add_key(number)[0] for number in range(4)]
    made = commit(parse(document()), *keys).metadata
    again = commit(made, update("remove-encryption-key", key_id="k1"), *add_key(1), *add_key(2)).metadata
    assert [key["key-id"] for key in read(again)["encryption-keys"]] == ["k0", "k2", "k3", "k1"]
    made = commit(
        parse(document()), *(each for number in range(3) for each in set_statistics(number))
    ).metadata
    again = commit(made, update("remove-statistics", snapshot_id=0), *set_statistics(1)).metadata
    assert [file["snapshot-id"] for file in read(again)["statistics"]] == [1, 2]
    assert [file["snapshot-id"] for file in read(again)["partition-statistics"]] == [0, 1, 2]


def test_statistics_of_a_snapshot_that_the_base_has_twice_become_one() -> None:
    files = [
        {"snapshot-id": owner, "statistics-path": path, "file-size-in-bytes": 1}
        for owner, path in ((1, "a"), (2, "b"), (1, "c"))
    ]
    base = parse(document(**{"partition-statistics": files}))
    made = commit(base, update("set-partition-statistics", partition_statistics=files[0])).metadata
    assert read(made)["partition-statistics"] == [files[1], files[0]]
    made = commit(base, update("remove-partition-statistics", snapshot_id=2)).metadata
    assert read(made)["partition-statistics"] == [files[0], files[2]]


def test_a_branch_that_was_moved_goes_with_its_last_snapshot_only() -> None:
    base = parse(document())
    removal = update("remove-snapshots", snapshot_ids=[11])
    moved = commit(base, set_ref("b", 11), set_ref("b", 12), set_ref("c", 11), removal).metadata
    assert moved.refs.keys() == {"main", "b"}
    later = commit(
        base, removal, set_ref("b", 12), set_ref("b", 13), update("remove-snapshots", snapshot_ids=[12])
    ).metadata
    assert later.refs.keys() == {"main", "b"}


@pytest.mark.parametrize(
    ("location", "stripped"),
    [
        ("s3://bucket/a///", "s3://bucket/a"),
        ("s3:///", "s3://"),
        ("s3://", "s3://"),
        ("s3:/", "s3:"),
        ("s3://a:/", "s3://a:"),
        ("s3://a://", "s3://a://"),
        ("///", ""),
        ("a", "a"),
    ],
)
def test_slashes_at_the_end(location: str, stripped: str) -> None:
    assert strip_trailing_slash(location) == stripped


def test_slashes_at_the_end_cost_nothing() -> None:
    costs = {
        operations_of(lambda count=count: strip_trailing_slash("s3://b" + "/" * count))
        for count in (3, 50_000)
    }
    assert len(costs) == 1
