"""Updates and requirements of tables and views, decoded as the bodies of requests are."""

from __future__ import annotations

import msgspec

from floecat.iceberg.requirements import TableRequirement
from floecat.iceberg.updates import TableUpdate
from floecat.iceberg.views.view_updates import ViewRequirement, ViewUpdate


def decode_updates(data: bytes) -> list[TableUpdate]:
    return msgspec.json.decode(data, type=list[TableUpdate])


def decode_requirements(data: bytes) -> list[TableRequirement]:
    return msgspec.json.decode(data, type=list[TableRequirement])


def decode_view_updates(data: bytes) -> list[ViewUpdate]:
    return msgspec.json.decode(data, type=list[ViewUpdate])


def decode_view_requirements(data: bytes) -> list[ViewRequirement]:
    return msgspec.json.decode(data, type=list[ViewRequirement])
