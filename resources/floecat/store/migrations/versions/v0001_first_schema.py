"""The schema. Until the first release it is the one of `floecat.store.all_tables`, whatever that is today."""

from __future__ import annotations

from alembic import op

from floecat.store.all_tables import metadata
from floecat.store.schema import HEAD_REVISION

revision = HEAD_REVISION
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates all tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
