"""View metadata of other writers, brought into the form that every reader reads.

The forms are those of the view specification and of the REST specification; readers are the parsers of the
reference implementation and of PyIceberg. Values without an obvious meaning are left as they are, and refused
by name when the document is parsed and checked.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.encoded_json import decode_fields, decode_json, encode_json, is_null
from floecat.iceberg.values.json_checks import check_json

__all__ = ["normalize_version", "normalize_view"]

T = TypeVar("T")

_Fields = dict[str, Any]
"""A JSON object whose values are encoded or new."""

_LONGEST_UUID: Final = len("urn:uuid:") + 36
_NULL: Final = msgspec.Raw(b"null")
_LAST_ADDED: Final = -1


def normalize_view(data: bytes) -> bytes:
    """The document in the form that every reader reads; the same object if nothing changes.

    A missing schema id becomes that of the only schema, a missing current version the last one of the log, a
    missing log one entry. Nulls become empty maps and lists or are left out; numbers and booleans in string
    maps become strings. Types of columns and representations get their usual spelling. Equal elements are
    kept once.
    """
    data = data.removeprefix(BOM_UTF8)
    try:
        fields = decode_fields(data, "view metadata")
        check_json(data)
        normalized = encode_json(_view(fields))
        return data if msgspec.json.decode(normalized) == msgspec.json.decode(data) else normalized
    except (IllegalArgumentError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return data


def normalize_version(encoded: bytes) -> bytes:
    """The JSON object of one version in that form; but equal elements stay, to be refused.

    Raises:
        IllegalArgumentError: it is not an object, or a part has another type.
    """
    return encode_json(_version(msgspec.Raw(encoded), None))


def _view(fields: _Fields) -> _Fields:
    schemas = _distinct([_schema(raw) for raw in _elements(fields, "schemas")])
    only_schema_id = schemas[0]["schema-id"] if len(schemas) == 1 else None
    versions = [_version(raw, only_schema_id) for raw in _elements(fields, "versions")]
    for version in versions:
        version["representations"] = _distinct(version["representations"])
    versions = _distinct(versions)
    if "view-uuid" in fields:
        fields["view-uuid"] = _uuid(fields["view-uuid"])
    if "properties" in fields:
        fields["properties"] = _strings(fields["properties"])
    log = [] if is_null(fields.get("version-log", _NULL)) else _elements(fields, "version-log")
    log.sort(key=lambda entry: _moment(entry).timestamp_ms)
    current_id = _optional(fields, "current-version-id", int)
    moments = [_moment(encode_json(version)) for version in versions]
    if current_id is None and (log or len(moments) == 1):
        current_id = _moment(log[-1]).version_id if log else moments[0].version_id
    if not log:
        log = [msgspec.Raw(encode_json(each)) for each in moments if each.version_id == current_id]
    changed = {"schemas": schemas, "versions": versions, "version-log": log}
    return fields | changed | {"current-version-id": current_id}


class _Moment(msgspec.Struct, rename="kebab"):
    timestamp_ms: int
    version_id: int


def _moment(entry: msgspec.Raw | bytes) -> _Moment:
    return decode_json(entry, _Moment, "view version")


def _optional(fields: _Fields, name: str, type: type[T]) -> T | None:
    raw = fields.get(name, _NULL)
    return None if is_null(raw) else decode_json(raw, type, name)


def _elements(fields: _Fields, name: str) -> list[msgspec.Raw]:
    return decode_json(fields.get(name, _NULL), list[msgspec.Raw], name)


def _distinct(elements: list[_Fields]) -> list[_Fields]:
    known: dict[bytes, _Fields] = {}
    for each in elements:
        content = msgspec.json.decode(encode_json(each))
        known.setdefault(msgspec.json.encode(content, order="sorted"), each)
    return list(known.values())


def _uuid(raw: msgspec.Raw) -> msgspec.Raw | str:
    try:
        written = decode_json(raw, str, "view-uuid")
        # Python accepts any number of dashes
        return str(UUID(written)) if len(written) <= _LONGEST_UUID else raw
    except (ValueError, IllegalArgumentError):
        return raw


def _schema(raw: msgspec.Raw) -> _Fields:
    schema = parse_schema(encode_json({"type": "struct"} | decode_fields(raw, "schema")))
    return decode_fields(schema.raw, "schema") | {"schema-id": schema.schema_id}


def _version(raw: msgspec.Raw, only_schema_id: int | None) -> _Fields:
    fields: _Fields = dict(decode_fields(raw, "view version"))
    if is_null(fields.get("default-catalog", b"")):
        del fields["default-catalog"]
    if is_null(fields.get("default-namespace", _NULL)):
        fields["default-namespace"] = []
    if only_schema_id is not None and _optional(fields, "schema-id", int) in (None, _LAST_ADDED):
        fields["schema-id"] = only_schema_id
    fields["summary"] = _strings(fields.get("summary", _NULL))
    fields["representations"] = [_representation(each) for each in _elements(fields, "representations")]
    return fields


def _representation(raw: msgspec.Raw) -> _Fields:
    fields: _Fields = dict(decode_fields(raw, "view representation"))
    type = _optional(fields, "type", str)
    if type is None and "sql" in fields:
        type = "sql"
    return fields if type is None else fields | {"type": type.lower()}


def _strings(raw: msgspec.Raw) -> _Fields:
    """A map of strings; numbers and booleans keep their JSON text, nulls are left out."""
    fields = {} if is_null(raw) else decode_fields(raw, "string map")
    return {
        name: value if bytes(value)[:1] in b'"{[' else bytes(value).decode()
        for name, value in fields.items()
        if not is_null(value)
    }
