"""Sidecars of statistics say since when they are not needed, not when they were needed last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All that are there count as needed until a capture of the current snapshot does without them."""
    op.add_column("statistics_sidecars", sa.Column("unused_since_ms", sa.BigInteger(), nullable=True))
    op.drop_column("statistics_sidecars", "used_at_ms")
