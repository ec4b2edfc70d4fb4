"""Migrations of the schema, in the order of their revision ids."""

from __future__ import annotations

from typing import Final

__all__ = ["HEAD_REVISION", "VERSION_TABLE"]

HEAD_REVISION: Final = "0015"
"""The revision that this code works with. Revision ids are numbers of four digits, so they sort by age."""

VERSION_TABLE: Final = "floecat_alembic_version"
"""Where Alembic notes the revision of a store; not its usual name, which Dagster takes in its own schema."""
