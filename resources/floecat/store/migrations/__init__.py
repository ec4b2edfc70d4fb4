"""The migrations of the schema. Before the first release there is one, and stores are not upgraded."""

from __future__ import annotations

from typing import Final

__all__ = ["HEAD_REVISION", "VERSION_TABLE"]

HEAD_REVISION: Final = "61e3d17eef43"
"""The revision that this code works with: a digest of the schema, which a test computes."""

VERSION_TABLE: Final = "floecat_alembic_version"
"""Where Alembic notes the revision of a store; not its usual name, which Dagster takes in its own schema."""
