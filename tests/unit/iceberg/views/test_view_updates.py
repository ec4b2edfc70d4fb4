from __future__ import annotations

import json

import msgspec
import pytest

from floecat.iceberg.updates import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from floecat.iceberg.views.view_updates import AddViewVersion, AssertViewUuid, SetCurrentViewVersion
from tests.updates import decode_view_requirements, decode_view_updates


def test_decodes_the_eight_updates() -> None:
    updates = decode_view_updates(
        json.dumps(
            [
                {"action": "assign-uuid", "uuid": "u"},
                {"action": "upgrade-format-version", "format-version": 1},
                {"action": "add-schema", "schema": {"type": "struct", "fields": []}, "last-column-id": 3},
                {"action": "set-location", "location": "s3://b/v"},
                {"action": "set-properties", "updates": {"a": "1"}},
                {"action": "remove-properties", "removals": ["a"]},
                {"action": "add-view-version", "view-version": {"version-id": 1}},
                {"action": "set-current-view-version", "view-version-id": -1},
            ]
        ).encode()
    )
    assert [type(update) for update in updates] == [
        AssignUuid,
        UpgradeFormatVersion,
        AddSchema,
        SetLocation,
        SetProperties,
        RemoveProperties,
        AddViewVersion,
        SetCurrentViewVersion,
    ]


def test_accepts_the_old_names_of_property_updates() -> None:
    updates = decode_view_updates(
        b'[{"action":"set-properties","updated":{"a":"1"}},{"action":"remove-properties","removed":["b"]}]'
    )
    assert isinstance(updates[0], SetProperties)
    assert isinstance(updates[1], RemoveProperties)
    assert updates[0].properties == {"a": "1"}
    assert updates[1].keys == {"b"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'[{"action":"add-snapshot"}]', "add-snapshot"),
        (b'[{"uuid":"x"}]', "action"),
        (b'[{"action":"set-location"}]', "location"),
        (b'[{"action":"set-properties"}]', "updates"),
        (b'[{"action":"remove-properties"}]', "removals"),
        (b'[{"action":"set-properties","updates":{"a":1}}]', "Expected `str`"),
        (b'[{"action":"set-current-view-version","view-version-id":"1"}]', "view-version-id"),
    ],
)
def test_refuses_other_updates(body: bytes, text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=text):
        decode_view_updates(body)


def test_decodes_the_requirement() -> None:
    assert decode_view_requirements(b'[{"type":"assert-view-uuid","uuid":"u"}]') == [AssertViewUuid("u")]


@pytest.mark.parametrize(
    "body", [b'[{"type":"assert-table-uuid","uuid":"u"}]', b'[{"type":"assert-view-uuid"}]', b"[{}]", b"3"]
)
def test_refuses_other_requirements(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_view_requirements(body)
