"""Updates that would leave a table which a client cannot read: refused, or written as all read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.metadata_builder import new_table_metadata
from floecat.iceberg.views.view_builder import apply_view_updates, new_view_metadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from tests.unit.iceberg.table_documents import (
    ID,
    append,
    column,
    commit,
    document,
    empty,
    encode,
    order,
    parse,
    read,
    schema,
    snapshot,
    sort_field,
    spec,
    update,
)
from tests.updates import decode_view_updates
from tests.view_documents import view_version

BIG = 10**1500


def _statistics(**blob: object) -> dict:
    sent = {"type": "t", "snapshot-id": 11, "sequence-number": 1, "fields": [1], **blob}
    return {
        "snapshot-id": 11,
        "statistics-path": "s3://lake/s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [sent],
    }


def _key(material: str = "AAEC", **more: object) -> dict:
    return update(
        "add-encryption-key", encryption_key={"key-id": "k", "encrypted-key-metadata": material, **more}
    )


def _several(field: dict) -> dict:
    return {name: value for name, value in field.items() if name != "source-id"} | {"source-ids": [1, 2]}


def _bucket(**source: object) -> dict:
    return {"name": "b", "transform": "bucket[4]", "field-id": 1000} | {
        name.replace("_", "-"): value for name, value in source.items()
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_key("!!notbase64"), "not base64"),
        (_key("A"), "not base64"),
        (_key("AA="), "not base64"),
        (_key("AA-_"), "not base64"),
        (_key("AAEC\n"), "not base64"),
        (_key(properties=None), "properties"),
        (_key(later=BIG), "more than 1000 characters"),
        (update("set-statistics", statistics=_statistics(properties=None)), "properties"),
        (update("set-statistics", statistics=_statistics(fields=[2**31])), "fields"),
        (update("set-statistics", statistics=_statistics() | {"later": BIG}), "more than 1000 characters"),
        (
            update(
                "set-partition-statistics",
                partition_statistics={
                    "snapshot-id": 11,
                    "statistics-path": "s3://lake/p",
                    "file-size-in-bytes": 1,
                    "later": -BIG,
                },
            ),
            "more than 1000 characters",
        ),
        (
            update("add-snapshot", snapshot=snapshot(14, 4, 13, later={"x": [BIG]})),
            "more than 1000 characters",
        ),
        (update("add-schema", schema=schema(column(1, "id", later=BIG))), "more than 1000 characters"),
        (update("add-snapshot", snapshot=snapshot(14, 4, 13, summary={"operation": ""})), "operation"),
        (update("add-snapshot", snapshot=snapshot(14, 4, 13, summary={"operation": "merge"})), "operation"),
        (update("add-snapshot", snapshot=snapshot(14, 4, 13, summary={"operation": "APPEND"})), "operation"),
        (
            update("add-spec", spec=spec(_bucket(source_ids=[1, 2]))),
            "source-ids of partition field b: transforms of several columns are not supported",
        ),
        (update("add-spec", spec=spec(_bucket(source_id=1, source_ids=[1, 2]))), "several columns"),
        (update("add-spec", spec=spec(_bucket(source_id=1, source_ids=[2]))), "several columns"),
        (update("add-sort-order", sort_order=order(_several(sort_field(1)))), "source-ids of sort field"),
        (update("add-schema", schema=schema(column(1, "d", "decimal(0, 0)"))), "precision must be 1 to 38"),
        (update("add-schema", schema=schema(column(1, "d", "decimal(5, 9)"))), "scale 0 to precision"),
    ],
)
def test_refused(change: dict, words: str) -> None:
    table = parse(document())
    with pytest.raises(IllegalArgumentError, match=words):
        commit(table, change)


def _without_list(**more: object) -> dict:
    body = snapshot(14, 4, 13, manifests=["s3://lake/m.avro"], **more)
    del body["manifest-list"]
    return body


@pytest.mark.parametrize("version", [2, 3])
def test_manifests_without_a_list_are_of_version_1(version: int) -> None:
    with pytest.raises(IllegalArgumentError, match=f"manifest-list is required in v{version}"):
        commit(
            parse(document(version)),
            update("add-snapshot", snapshot=_without_list(**{"first-row-id": 100, "added-rows": 1})),
        )
    old = _without_list(**{"sequence-number": 0})
    assert commit(parse(document(1)), update("add-snapshot", snapshot=old)).changed


def test_long_numbers_in_strings_and_short_ones_stay() -> None:
    more = {"later": 10**900, "text": "1" * 1500, "escaped": '\\"' + "1" * 1500, "many": [12345] * 500}
    written = read(commit(parse(document()), *append(14, 4, 13, **more)).metadata)
    assert {name: written["snapshots"][-1][name] for name in more} == more


@pytest.mark.parametrize("material", ["", "AA", "AA==", "AAE", "AAE=", "AAEC", "AAEC+/8="])
def test_material_of_keys_that_readers_take(material: str) -> None:
    assert commit(parse(document()), _key(material)).metadata.encryption_keys[0].key_id == "k"


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("DECIMAL(9 , 2)", "decimal(9, 2)"),
        ("decimal(09,02)", "decimal(9, 2)"),
        ("decimal(38, 38)", "decimal(38, 38)"),
        ("fixed[ 7 ]", "fixed[7]"),
        ("Fixed[07]", "fixed[7]"),
        ("LONG", "long"),
    ],
)
def test_types_are_written_in_the_form_of_the_reference(sent: str, written: str) -> None:
    nested = {
        "type": "map",
        "key-id": 10,
        "key": sent,
        "value-id": 11,
        "value-required": True,
        "value": {"type": "list", "element-id": 12, "element": sent, "element-required": True},
    }
    added = read(
        commit(
            parse(document()),
            update("add-schema", schema=schema(column(8, "a", sent), column(9, "b", nested))),
        ).metadata
    )["schemas"][-1]["fields"]
    assert added[0]["type"] == written
    assert (added[1]["type"]["key"], added[1]["type"]["value"]["element"]) == (written, written)


@pytest.mark.parametrize("more", [{"source_ids": [1]}, {"source_id": 1, "source_ids": [1]}])
def test_one_source_is_written_as_source_id(more: dict[str, Any]) -> None:
    field = {"source-ids": [1]} | sort_field(1)
    if "source_id" not in more:
        del field["source-id"]
    written = read(
        commit(
            parse(document()),
            update("add-spec", spec=spec(_bucket(**more))),
            update("add-sort-order", sort_order=order(field)),
        ).metadata
    )
    assert written["partition-specs"][-1] == spec(_bucket(source_id=1), spec_id=1)
    assert written["sort-orders"][-1] == order(sort_field(1))


def _created(**parts: dict) -> dict:
    sent: dict[str, Any] = {
        "schema": schema(ID, column(2, "other")),
        "partition_spec": None,
        "sort_order": None,
    }
    sent |= parts
    return json.loads(
        new_table_metadata(
            **{name: None if part is None else encode(part) for name, part in sent.items()},
            location="s3://lake/t",
            properties={},
            table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            now_ms=1,
        ).to_bytes()
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"schema": schema(column(1, "d", "decimal(0, 0)"))}, "precision must be"),
        ({"partition_spec": spec(_bucket(source_ids=[1, 2]))}, "several columns"),
        ({"partition_spec": spec(_bucket(source_id=1, source_ids=[1, 2]))}, "several columns"),
        ({"sort_order": order(_several(sort_field(1)))}, "several columns"),
        ({"schema": schema(ID, later=BIG)}, "more than 1000 characters"),
    ],
)
def test_refused_when_a_table_is_created(parts: dict, words: str) -> None:
    with pytest.raises(IllegalArgumentError, match=words):
        _created(**parts)


def test_one_source_of_a_new_table() -> None:
    field = {"source-ids": [2]} | sort_field(2)
    del field["source-id"]
    made = _created(partition_spec=spec(_bucket(source_ids=[2])), sort_order=order(field))
    assert made["partition-specs"] == [spec(_bucket(source_id=2))]
    assert made["sort-orders"] == [order(sort_field(2))]


def test_an_old_snapshot_needs_no_operation() -> None:
    old = {"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "s3://lake/l.avro", "summary": {}}
    made = commit(parse(empty(1)), update("add-snapshot", snapshot=old))
    assert made.added_snapshots[0].operation is None


_VERSION = view_version(())


def _view(**parts: Any) -> ViewMetadata:
    sent = {"schema": schema(ID), "view_version": _VERSION, "properties": {}} | parts
    return new_view_metadata(
        schema=encode(sent["schema"]),
        view_version=encode(sent["view_version"]),
        properties=sent["properties"],
        location="s3://lake/v",
        view_uuid="fa6506c3-7681-40c8-86dc-e36561f83385",
        now_ms=1,
    )


@pytest.mark.parametrize(
    ("parts", "change", "words"),
    [
        (
            {"view_version": _VERSION | {"later": BIG}},
            update("add-view-version", view_version=_VERSION | {"later": BIG}),
            "more than 1000 characters",
        ),
        (
            {"schema": schema(column(1, "d", "decimal(1, 2)"))},
            update("add-schema", schema=schema(column(1, "d", "decimal(1, 2)"))),
            "precision must be",
        ),
        (
            {"schema": schema(ID, later=BIG)},
            update("add-schema", schema=schema(ID, column(2, "b"), later=BIG)),
            "more than 1000 characters",
        ),
    ],
)
def test_views(parts: dict, change: dict, words: str) -> None:
    with pytest.raises(IllegalArgumentError, match=words):
        _view(**parts)
    with pytest.raises(IllegalArgumentError, match=words):
        apply_view_updates(_view(), decode_view_updates(encode([change])), now_ms=2)
