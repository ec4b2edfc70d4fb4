"""Names of tables in Dagster: asset keys, groups, partition keys.

Names are for people. Code reads the id of a table, from a partition key or from the metadata of an event.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final
from uuid import UUID

import dagster as dg

from floecat.identifiers.namespace import TableIdentifier

__all__ = ["partition_key", "require_table_id", "table_asset_key", "table_group", "table_id"]

_NOT_IN_PARTS: Final = re.compile(r'[/\\%"*~\x00-\x1f\x7f]')
"""`/` separates the parts of a key on the command line, `%` breaks the page of a table, `"` and `*` belong to
the syntax of selections."""

_NOT_IN_PARTITIONS: Final = re.compile(r"[,\[\]]|\.(?=\.)")
"""Belongs to the syntax of ranges and lists of partitions, as `...` does."""

_SEPARATOR: Final = "~~"
_NOT_IN_GROUPS: Final = re.compile(r"[^A-Za-z0-9_]+")

_LONGEST_ASSET_KEY: Final = 1_500
_LONGEST_NAME_IN_PARTITION: Final = 200
_LONGEST_END_OF_PARTITION: Final = 60
"""Bounds for an index of PostgreSQL, which keeps at most 2,704 bytes in an entry."""


def table_asset_key(catalog: str, identifier: TableIdentifier) -> dg.AssetKey:
    """The key of a table's own asset: catalog, namespace levels and name, one part each.

    It has three parts at least; keys of the pipeline's own assets have two. The levels of a very long name
    are replaced by a digest.

    Args:
        catalog: as `floecat.events.live_entries.catalog_label` writes it.
        identifier: of the table or view.
    """
    parts = [_escaped(part) for part in (catalog, *identifier.namespace, identifier.name)]
    key = dg.AssetKey(parts)
    if len(key.to_string()) <= _LONGEST_ASSET_KEY:
        return key
    digest = blake2b(key.to_string().encode(), digest_size=16).hexdigest()
    return dg.AssetKey([parts[0], f"~{digest}", parts[-1]])


def table_group(catalog: str, identifier: TableIdentifier) -> str:
    """The group of a table's own asset: catalog and first level, with `_` for what a group cannot have."""
    return "/".join(_NOT_IN_GROUPS.sub("_", part) for part in (catalog, identifier.namespace[0]))


def partition_key(catalog: str, identifier: TableIdentifier, entry_id: UUID) -> str:
    """The partition of a table in assets that cover many: full name, id and name, with `~~` between them.

    The UI cuts the middle of a key, so that what people read is at both ends.

    Args:
        catalog: as `floecat.events.live_entries.catalog_label` writes it.
        identifier: of the table.
        entry_id: its catalog entry, which a rename does not change.
    """
    names = (f"{catalog}.{identifier}", identifier.name)
    full, name = (_NOT_IN_PARTITIONS.sub(_as_hex, _escaped(text)) for text in names)
    # no escaped name has `~~`, nor has one that is cut if it does not end with `~`
    full = full[:_LONGEST_NAME_IN_PARTITION].rstrip("~")
    return _SEPARATOR.join((full, str(entry_id), name[-_LONGEST_END_OF_PARTITION:]))


def table_id(partition_key: str) -> UUID | None:
    """The table that a partition is; `None` for another key, which any user of the UI can add."""
    match partition_key.split(_SEPARATOR, 2):
        case [full, text, _] if full:
            try:
                found = UUID(text)
            except ValueError:
                return None
            return found if str(found) == text else None
    return None


def require_table_id(partition_key: str) -> UUID:
    """The table that a partition is.

    Raises:
        Failure: the key has no table id; a retry would not help.
    """
    found = table_id(partition_key)
    if found is None:
        raise dg.Failure(f"Partition {partition_key[:80]!r} is not a table", allow_retries=False)
    return found


def _escaped(text: str) -> str:
    return _NOT_IN_PARTS.sub(_as_hex, text)


def _as_hex(found: re.Match[str]) -> str:
    return f"~{ord(found[0]):02X}"
