from __future__ import annotations

import msgspec
import pytest

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.requirements import check_requirements
from tests.unit.iceberg.table_documents import UUID, document, empty, encode, parse
from tests.updates import decode_requirements


def check(metadata: TableMetadata | None, *requirements: dict) -> None:
    check_requirements(decode_requirements(encode(list(requirements))), metadata)


def require(type: str, **fields: object) -> dict:
    return {"type": type} | {name.replace("_", "-"): value for name, value in fields.items()}


def require_ref(ref: str, **fields: object) -> dict:
    return require("assert-ref-snapshot-id", ref=ref, **fields)


@pytest.fixture
def table() -> TableMetadata:
    refs = {"main": {"snapshot-id": 13, "type": "branch"}, "v1": {"snapshot-id": 11, "type": "tag"}}
    return parse(document(refs=refs))


def test_all_that_hold(table: TableMetadata) -> None:
    check(
        table,
        require("assert-table-uuid", uuid=UUID.upper()),
        require_ref("main", snapshot_id=13),
        require_ref("v1", snapshot_id=11),
        require_ref("dev", snapshot_id=None),
        require("assert-last-assigned-field-id", last_assigned_field_id=3),
        require("assert-current-schema-id", current_schema_id=0),
        require("assert-last-assigned-partition-id", last_assigned_partition_id=999),
        require("assert-default-spec-id", default_spec_id=0),
        require("assert-default-sort-order-id", default_sort_order_id=0),
    )
    check(None, require("assert-create"))
    check(table)
    check(None)


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (require("assert-create"), "table already exists"),
        (require("assert-table-uuid", uuid="x"), f"UUID does not match: expected {UUID} != x"),
        (require_ref("main", snapshot_id=12), "branch main has changed: expected id 12 != 13"),
        (require_ref("main", snapshot_id=None), "branch main was created concurrently"),
        (require_ref("main"), "branch main was created concurrently"),
        (require_ref("v1", snapshot_id=None), "tag v1 was created concurrently"),
        (require_ref("dev", snapshot_id=5), "branch or tag dev is missing, expected 5"),
        (require_ref("dev", snapshot_id=0), "branch or tag dev is missing, expected 0"),
        (
            require("assert-last-assigned-field-id", last_assigned_field_id=4),
            "last assigned field id changed: expected id 4 != 3",
        ),
        (
            require("assert-current-schema-id", current_schema_id=1),
            "current schema changed: expected id 1 != 0",
        ),
        (
            require("assert-last-assigned-partition-id", last_assigned_partition_id=1000),
            "last assigned partition id changed: expected id 1000 != 999",
        ),
        (
            require("assert-default-spec-id", default_spec_id=2),
            "default partition spec changed: expected id 2 != 0",
        ),
        (
            require("assert-default-sort-order-id", default_sort_order_id=1),
            "default sort order changed: expected id 1 != 0",
        ),
    ],
)
def test_those_that_do_not_hold(table: TableMetadata, requirement: dict, message: str) -> None:
    with pytest.raises(CommitFailedError) as caught:
        check(table, requirement)
    assert caught.value.message == f"Requirement failed: {message}"


@pytest.mark.parametrize("sentinel", [-1, None, ...])
def test_a_table_without_snapshots_has_no_main(sentinel: object) -> None:
    changes = {"current-snapshot-id": sentinel}
    for refs in ({}, ...):
        table = parse(empty(**changes, refs=refs))
        check(table, require_ref("main", snapshot_id=None))
        with pytest.raises(CommitFailedError):
            check(table, require_ref("main", snapshot_id=-1))


def test_main_is_implied_by_the_current_snapshot() -> None:
    check(parse(document(refs=...)), require_ref("main", snapshot_id=13))


def test_a_snapshot_id_of_0_is_an_id() -> None:
    table = parse(document(refs={"zero": {"snapshot-id": 0, "type": "branch"}}))
    check(table, require_ref("zero", snapshot_id=0))
    with pytest.raises(CommitFailedError, match="created concurrently"):
        check(table, require_ref("zero", snapshot_id=None))


def test_nothing_can_be_required_of_a_table_to_create() -> None:
    with pytest.raises(IllegalArgumentError, match="Invalid create requirements: assert-current-schema-id"):
        check(None, require("assert-create"), require("assert-current-schema-id", current_schema_id=0))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'[{"type":"assert-peace"}]', "assert-peace"),
        (b'[{"type":"assert-view-uuid","uuid":"x"}]', "assert-view-uuid"),
        (b'[{"type":"assert-table-uuid"}]', "uuid"),
        (b'[{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":"13"}]', "snapshot-id"),
        (
            b'[{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":9223372036854775808}]',
            "snapshot-id",
        ),
        (b'[{"uuid":"x"}]', "type"),
    ],
)
def test_refuses_what_it_does_not_know(raw: bytes, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode_requirements(raw)
