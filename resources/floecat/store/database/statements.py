"""Parts of statements that several kinds of rows need."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.store.database.connections import PerDialect

__all__ = ["LIMIT", "NO_LIMIT", "insert_if_absent"]

NO_LIMIT: Final = 2**62
"""A limit that is none: one statement serves pages and whole listings."""

LIMIT: Final[sa.BindParameter[int]] = sa.bindparam("limit", type_=sa.BigInteger())
"""The parameter of LIMIT, 64 bits wide."""


def insert_if_absent(table: sa.Table, *key: sa.Column[Any]) -> PerDialect:
    """An INSERT that changes no row where one with this key exists.

    It waits for a transaction that is just inserting the same key, so its row count tells who was first.
    """
    # SQLAlchemy keeps the row count of an INSERT only when asked to
    return PerDialect(
        sqlite.insert(table).on_conflict_do_nothing(index_elements=key),
        postgresql.insert(table)
        .on_conflict_do_nothing(index_elements=key)
        .execution_options(preserve_rowcount=True),
    )
