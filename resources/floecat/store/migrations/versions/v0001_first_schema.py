"""The schema. Until the first release it is the one of `floecat.store.schema`, whatever that is today."""

from __future__ import annotations

from alembic import op

from floecat.store import purger_rows as _purger_rows  # noqa: F401 - its table belongs to the schema
from floecat.store.migrations import HEAD_REVISION
from floecat.store.schema import metadata
from floecat.store.statistics import schema as _statistics  # noqa: F401 - its tables belong to the schema

revision = HEAD_REVISION
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates all tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
