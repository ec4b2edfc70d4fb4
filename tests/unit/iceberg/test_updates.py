from __future__ import annotations

import msgspec
import pytest

from floecat.iceberg.updates import (
    RemoveProperties,
    RemoveSnapshots,
    SetProperties,
    SetSnapshotRef,
    TableUpdate,
)
from tests.unit.iceberg.table_documents import encode
from tests.updates import decode_updates


def test_there_are_23() -> None:
    actions = {update.__struct_config__.tag for update in TableUpdate.__args__}
    assert len(actions) == 23


def test_unknown_fields_are_ignored() -> None:
    raw = b'[{"action":"set-location","location":"s3://a","later":{}},{"action":"add-schema","schema":{},"last-column-id":2}]'
    assert len(decode_updates(raw)) == 2


@pytest.mark.parametrize("key", ["updates", "updated"])
def test_early_names_of_set_properties(key: str) -> None:
    (update,) = decode_updates(encode([{"action": "set-properties", key: {"a": "b"}}]))
    assert isinstance(update, SetProperties)
    assert update.properties == {"a": "b"}


@pytest.mark.parametrize("key", ["removals", "removed"])
def test_early_names_of_remove_properties(key: str) -> None:
    (update,) = decode_updates(encode([{"action": "remove-properties", key: ["a", "a"]}]))
    assert isinstance(update, RemoveProperties)
    assert update.keys == {"a"}


def test_64_bit_ids_are_exact() -> None:
    ids = [2**63 - 1, 2**53 + 1, -(2**63)]
    (update,) = decode_updates(encode([{"action": "remove-snapshots", "snapshot-ids": ids}]))
    assert isinstance(update, RemoveSnapshots)
    assert update.snapshot_ids == set(ids)


def test_types_of_refs_are_read_in_any_case() -> None:
    body = {
        "action": "set-snapshot-ref",
        "ref-name": "x",
        "type": "TAG",
        "snapshot-id": 1,
        "max-ref-age-ms": 5,
    }
    (update,) = decode_updates(encode([body]))
    assert isinstance(update, SetSnapshotRef)
    assert update.ref.type == "tag"
    assert update.ref.max_ref_age_ms == 5


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'[{"action":"explode"}]', "explode"),
        (b'[{"action":"set-location","location":"x"},{"action":"explode"}]', r"\[1\]\.action"),
        (b'[{"action":"add-view-version","view-version":{}}]', "add-view-version"),
        (b'[{"action":"set-current-view-version","view-version-id":1}]', "set-current-view-version"),
        (b'[{"action":"set-location"}]', "location"),
        (b'[{"action":"set-location","location":5}]', "location"),
        (b'[{"action":"set-properties"}]', "updates"),
        (b'[{"action":"remove-properties"}]', "removals"),
        (b'[{"action":"set-properties","updates":{"a":null}}]', "updates"),
        (b'[{"action":"remove-snapshots","snapshot-ids":[1.5]}]', "snapshot-ids"),
        (b'[{"action":"remove-snapshots","snapshot-ids":[9223372036854775808]}]', "snapshot-ids"),
        (b'[{"location":"x"}]', "action"),
    ],
)
def test_refuses_what_it_does_not_know(raw: bytes, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode_updates(raw)
