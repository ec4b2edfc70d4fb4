"""Bounds on metadata documents: a small compressed file must not take gigabytes once it is parsed."""

from __future__ import annotations

import pytest

from floecat.errors import BoundExceededError, IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.snapshots import check_snapshots
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import read_foreign_table, read_metadata_file
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.json_checks import check_json
from floecat.settings.limits import LimitSettings
from tests.unit.iceberg.table_documents import append, column, commit, document, encode, parse, schema

LIMITS = LimitSettings()


def _longer(size_bytes: int) -> bytes:
    """A document with an unknown field of this size."""
    return encode(document())[:-1] + b',"x":"' + b"a" * (size_bytes - 2) + b'"}'


def test_definitions_beyond_the_default() -> None:
    rest = sum(
        len(memoryview(fragment[0]))
        for name, fragment in TableMetadata.parse(encode(document())).fields.items()
        if name not in ("snapshots", "snapshot-log", "metadata-log")
    )
    data = _longer(LIMITS.definition_bytes - rest)
    assert TableMetadata.parse(data).format_version == 2
    for read in (TableMetadata.parse, read_foreign_table, read_metadata_file):
        with pytest.raises(BoundExceededError, match=r"67,108,864 \(floecat\.limits\.definition-bytes\)"):
            read(data.replace(b'"x":"', b'"x":"a'))


def test_snapshots_beyond_the_default() -> None:
    array = b"[" + b'{"snapshot-id":1},' * (LIMITS.snapshots - 1) + b'{"snapshot-id":1}'
    check_snapshots(array + b"]")
    with pytest.raises(BoundExceededError, match=r"1,000,000 \(floecat\.limits\.snapshots\)"):
        check_snapshots(array + b',{"snapshot-id":1}]')


def test_no_document_grows_beyond_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = commit(parse(document(properties={"a": "b" * 1000})), *append(14, 4, 13)).metadata
    grown.check_bounds()
    monkeypatch.setattr(process_bounds, "limits", LimitSettings(definition_bytes=1000))
    with pytest.raises(BoundExceededError, match=r"floecat\.limits\.definition-bytes"):
        grown.check_bounds()
    monkeypatch.setattr(process_bounds, "limits", LimitSettings(snapshots=len(grown.snapshots) - 1))
    with pytest.raises(BoundExceededError, match=r"floecat\.limits\.snapshots"):
        grown.check_bounds()


def test_texts_beyond_the_default() -> None:
    with pytest.raises(IllegalArgumentError, match=r"16777216 bytes \(floecat\.limits\.json-text-bytes\)"):
        check_json(b'{"a":"' + b"a" * (LIMITS.json_text_bytes) + b'"}')


def test_keys_of_an_object_beyond_the_default() -> None:
    keys = b",".join(b'"%d":1' % number for number in range(LIMITS.object_keys))
    with pytest.raises(IllegalArgumentError, match=r"1000000 keys \(floecat\.limits\.object-keys\)"):
        check_json(b"{" + keys + b',"a":1}')


def test_full_names_beyond_the_default() -> None:
    # the full name of each of these fields has that of the column before it, and a dot
    fields = [column(2 + number, f"{number:04}") for number in range(1000)]
    name = "n" * ((LIMITS.schema_name_bytes - 5 * len(fields)) // (2 + len(fields)) - 1)
    left = LIMITS.schema_name_bytes - len(name) - len(fields) * (len(name) + 5) - len(name) - 1

    def nested(size_bytes: int) -> dict:
        last = column(9999, "x" * size_bytes)
        return schema(column(1, name, {"type": "struct", "fields": [*fields, last]}))

    assert len(parse_schema(encode(nested(left))).names_by_id) == 1002
    refused = nested(left + 1)
    bound = r"too long together \(floecat\.limits\.schema-name-bytes\)"
    with pytest.raises(IllegalArgumentError, match=bound):
        parse_schema(encode(refused))
    with pytest.raises(InvalidMetadataError, match=bound):
        check_integrity(read_foreign_table(encode(document(schemas=[refused]))))


def test_a_wide_character_at_the_end_of_a_large_document() -> None:
    data = encode(document())[:-1] + b',"x":["' + b"a" * (3 << 20) + "🧊".encode() + b'"]}'
    assert TableMetadata.parse(data).format_version == 2
    with pytest.raises(InvalidMetadataError, match="UTF-8"):
        TableMetadata.parse(data.replace("🧊".encode(), "🧊".encode()[:2]))
