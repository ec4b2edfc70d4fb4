from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.view.metadata import ViewMetadata as PyIcebergViewMetadata

from floecat.errors import InvalidMetadataError
from floecat.iceberg.views.normalization import normalize_view
from floecat.iceberg.views.view_integrity import check_view_integrity
from floecat.iceberg.views.view_metadata import ViewMetadata
from tests.view_documents import view_document, view_version

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "decimal(9, 2)"}],
}
SQL = {"type": "sql", "sql": "SELECT 1", "dialect": "spark"}
UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"


def changed(where: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With some fields changed; `...` removes one."""
    return {name: value for name, value in (where | changes).items() if value is not ...}


def document(**changes: Any) -> dict[str, Any]:
    body = view_document(SCHEMA, view_version()) | {"properties": {"comment": "c"}}
    return changed(body, {name.replace("_", "-"): value for name, value in changes.items()})


def with_version(**changes: Any) -> dict[str, Any]:
    sent = {name.replace("_", "-"): value for name, value in changes.items()}
    return document(versions=[changed(view_version(), sent)])


def with_schema(**changes: Any) -> dict[str, Any]:
    return document(
        schemas=[changed(SCHEMA, {name.replace("_", "-"): value for name, value in changes.items()})]
    )


def encode(body: Any) -> bytes:
    return json.dumps(body).encode()


def two_versions(**changes: Any) -> dict[str, Any]:
    log = [{"timestamp-ms": 1, "version-id": 1}, {"timestamp-ms": 2, "version-id": 2}]
    versions = [view_version(), view_version(version_id=2, timestamp_ms=2)]
    return document(**({"versions": versions, "version_log": log, "current_version_id": 2} | changes))


NORMALIZED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "type in capitals": (with_version(representations=[SQL | {"type": "SQL"}]), document()),
    "no type": (with_version(representations=[{"sql": "SELECT 1", "dialect": "spark"}]), document()),
    "null type": (with_version(representations=[SQL | {"type": None}]), document()),
    "a query twice": (with_version(representations=[SQL, SQL | {"type": "Sql"}]), document()),
    "no summary": (with_version(summary=...), document()),
    "null summary": (with_version(summary=None), document()),
    "summary of other values": (
        with_version(summary={"a": 1, "b": True, "c": None, "d": 1.50, "e": "f"}),
        with_version(summary={"a": "1", "b": "true", "d": "1.5", "e": "f"}),
    ),
    "null default catalog": (with_version(default_catalog=None), document()),
    "no namespace": (with_version(default_namespace=...), with_version(default_namespace=[])),
    "null namespace": (with_version(default_namespace=None), with_version(default_namespace=[])),
    "no schema id in the version": (with_version(schema_id=...), document()),
    "null schema id in the version": (with_version(schema_id=None), document()),
    "schema id -1 in the version": (with_version(schema_id=-1), document()),
    "no schema id anywhere": (
        document(versions=[view_version(schema_id=-1)], schemas=[changed(SCHEMA, {"schema-id": ...})]),
        document(),
    ),
    "null schema id": (with_schema(schema_id=None), document()),
    "null identifiers": (with_schema(**{"identifier-field-ids": None}), document()),
    "schema without a type": (with_schema(type=...), document()),
    "types in another spelling": (
        with_schema(fields=[SCHEMA["fields"][0] | {"type": "DECIMAL(9,2)"}]),
        document(),
    ),
    "nulls in a field": (with_schema(fields=[SCHEMA["fields"][0] | {"doc": None}]), document()),
    "a schema twice": (document(schemas=[SCHEMA, SCHEMA]), document()),
    "a version twice": (document(versions=[view_version(), view_version()]), document()),
    "properties of other values": (
        document(properties={"a": 10, "b": False, "c": None, "d": "e"}),
        document(properties={"a": "10", "b": "false", "d": "e"}),
    ),
    "no log": (document(version_log=...), document()),
    "null properties": (document(properties=None), document(properties={})),
    "null log": (document(version_log=None), document()),
    "empty log": (document(version_log=[]), document()),
    "no current version": (document(current_version_id=...), document()),
    "null current version": (document(current_version_id=None), document()),
    "no current version and no log": (document(current_version_id=..., version_log=...), document()),
    "no current version among several": (two_versions(current_version_id=...), two_versions()),
    "log that is not sorted": (two_versions(version_log=two_versions()["version-log"][::-1]), two_versions()),
    "no log of several": (
        two_versions(version_log=None),
        two_versions(version_log=[{"timestamp-ms": 2, "version-id": 2}]),
    ),
    "uuid in braces": (document(view_uuid=f"{{{UUID.upper()}}}"), document()),
    "uuid without dashes": (document(view_uuid=UUID.replace("-", "")), document()),
}


@pytest.mark.parametrize(("sent", "answered"), NORMALIZED.values(), ids=NORMALIZED.keys())
def test_what_other_writers_send(sent: dict[str, Any], answered: dict[str, Any]) -> None:
    sent, answered = (body | {"x-later": [1.50, 10**30]} for body in (sent, answered))
    normalized = normalize_view(encode(sent))

    assert json.loads(normalized) == answered
    assert normalize_view(normalized) is normalized
    check_view_integrity(ViewMetadata.parse(normalized))
    PyIcebergViewMetadata.model_validate_json(normalized)


@pytest.mark.parametrize(
    "body",
    [
        document(),
        document(properties=...),
        two_versions(),
        with_version(representations=[SQL, SQL | {"dialect": "Trino"}], default_catalog="c", x=[None]),
        with_version(schema_id=0, summary={"operation": "REPLACE", "engine-name": "Spark"}),
        document(version_log=[{"timestamp-ms": 1, "version-id": 99}, {"timestamp-ms": 1, "version-id": 1}]),
    ],
)
def test_a_good_document_stays_the_same_object(body: dict[str, Any]) -> None:
    data = json.dumps(body, indent=2).encode()
    assert normalize_view(data) is data
    check_view_integrity(ViewMetadata.parse(data))


OTHER_SCHEMA = SCHEMA | {"schema-id": 1}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no uuid": (document(view_uuid=...), "view-uuid"),
    "null uuid": (document(view_uuid=None), "view-uuid"),
    "uuid that is none": (document(view_uuid="me"), "view-uuid"),
    "no location": (document(location=...), "location"),
    "no format version": (document(format_version=...), "format-version"),
    "format version 2": (document(format_version=2), r"Unsupported format version: 2 \(supported: 1\)"),
    "format version 2 of another form": (
        document(format_version=2, versions={"a": 1}),
        r"Unsupported format version: 2 \(supported: 1\)",
    ),
    "format version as text": (document(format_version="1"), "format-version"),
    "no schemas": (document(schemas=...), "schemas"),
    "null schemas": (document(schemas=None), "schemas"),
    "no versions": (document(versions=...), "versions"),
    "null versions": (document(versions=None), "versions"),
    "empty versions": (document(versions=[]), "current version 1"),
    "unknown current version": (document(current_version_id=9), "current version 9"),
    "no current version, and which is unknown": (
        two_versions(current_version_id=..., version_log=...),
        "current-version-id",
    ),
    "schema id -1 of several": (
        document(schemas=[SCHEMA, OTHER_SCHEMA], versions=[view_version(schema_id=-1)]),
        "current schema with id -1",
    ),
    "no schema id in a version of several schemas": (
        two_versions(
            schemas=[SCHEMA, OTHER_SCHEMA],
            versions=[changed(view_version(), {"schema-id": ...}), view_version(version_id=2)],
        ),
        "schema-id",
    ),
    "unknown schema": (with_version(schema_id=7), "current schema with id 7"),
    "two schemas of one id": (
        document(schemas=[SCHEMA, SCHEMA | {"fields": []}]),
        "schemas have the same id",
    ),
    "two versions of one id": (
        document(versions=[view_version(), view_version(("other",))]),
        "versions have the same id",
    ),
    "two queries of one dialect": (
        with_version(representations=[SQL, SQL | {"sql": "SELECT 2", "dialect": "SPARK"}]),
        "multiple queries for dialect spark",
    ),
    "unknown representation": (
        with_version(representations=[SQL, {"type": "Substrait", "plan": "x"}]),
        "unsupported view representations: substrait",
    ),
    "null representations": (with_version(representations=None), "representations"),
    "query without a dialect": (with_version(representations=[SQL | {"dialect": None}]), "dialect"),
    "no time": (with_version(timestamp_ms=...), "timestamp-ms"),
    "no version id": (with_version(version_id=...), "version-id"),
    "namespace as text": (with_version(default_namespace="ns"), "default_namespace|default-namespace"),
    "nested property": (document(properties={"a": {"b": "c"}}), "properties"),
    "nested summary": (with_version(summary={"a": []}), "summary"),
    "log without versions": (document(version_log=[{"timestamp-ms": 1}]), "version-id"),
    "schema of nonsense": (
        with_schema(fields=[{"id": 1, "name": "a", "required": True, "type": "ghost"}]),
        "ghost",
    ),
}


@pytest.mark.parametrize(("sent", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_plain_meaning_is_refused_by_name(sent: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidMetadataError, match=named):
        check_view_integrity(ViewMetadata.parse(normalize_view(encode(sent))))


def test_key_that_comes_twice_is_refused() -> None:
    data = encode(document()).replace(b'"view-uuid"', b'"view-uuid":"","view-uuid"')
    with pytest.raises(InvalidMetadataError, match="a key more than once"):
        check_view_integrity(ViewMetadata.parse(normalize_view(data)))


def test_byte_order_mark_is_taken_off() -> None:
    data = encode(document())
    assert normalize_view(b"\xef\xbb\xbf" + data) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"\xff"',
        b'{"schemas":[],"versions":[],"a":"\xff"}',
        b"[" * 5000,
        b'{"a":' * 5000,
    ],
)
def test_what_is_no_document_stays(data: bytes) -> None:
    assert normalize_view(data) is data
