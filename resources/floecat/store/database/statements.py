"""Parts that the statements of several kinds of rows share: limits, INSERT if absent, JSON in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.errors import BadRequestError
from floecat.store.database.prepared_statements import PerDialect

__all__ = [
    "LIMIT",
    "NO_LIMIT",
    "can_exist",
    "decode_properties",
    "decode_texts",
    "encode_properties",
    "encode_records",
    "encode_rows",
    "encode_texts",
    "in_parts",
    "insert_if_absent",
    "upsert",
]

NO_LIMIT: Final = 2**62
"""Limit that is none in practice, so that one statement serves both pages and whole listings."""

LIMIT: Final[sa.BindParameter[int]] = sa.bindparam("limit", type_=sa.BigInteger())
"""The parameter of LIMIT, 64 bits wide."""

T = TypeVar("T")

_MOST_PARAMETERS: Final = 10_000
"""Of one list. PostgreSQL takes 65,535 in a statement, SQLite 32,766."""

_texts = msgspec.json.Decoder(tuple[str, ...])
_properties = msgspec.json.Decoder(dict[str, str])
_encoder = msgspec.json.Encoder()


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values that go into an expanding parameter, as many at once as every database takes."""
    for start in range(0, len(values), _MOST_PARAMETERS):
        yield values[start : start + _MOST_PARAMETERS]


def insert_if_absent(table: sa.Table, *key: sa.Column[Any]) -> PerDialect:
    """An INSERT that changes no row where one with this key exists; without a key, with any of its keys.

    It waits for a transaction that is inserting the same key, so its row count says which was first.
    """
    # SQLAlchemy keeps the row count of an INSERT only when asked to
    return PerDialect(
        sqlite.insert(table).on_conflict_do_nothing(index_elements=key or None),
        postgresql.insert(table)
        .on_conflict_do_nothing(index_elements=key or None)
        .execution_options(preserve_rowcount=True),
    )


def upsert(table: sa.Table, *key: sa.Column[Any]) -> PerDialect:
    """An INSERT that replaces the other columns where a row with this key exists."""

    def replacing(statement: sqlite.Insert | postgresql.Insert) -> sa.Executable:
        offered = {column.name: statement.excluded[column.name] for column in table.c if column not in key}
        return statement.on_conflict_do_update(index_elements=key, set_=offered)

    return PerDialect(replacing(sqlite.insert(table)), replacing(postgresql.insert(table)))


def can_exist(name: str) -> bool:
    """Whether a row could have this name.

    No name has the character NUL. PostgreSQL refuses a parameter with one where SQLite finds nothing, so that
    neither is asked, and both answer the same.
    """
    return "\0" not in name


def encode_texts(texts: Sequence[str]) -> str:
    """A list of texts as a JSON array.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    return _encode(texts)


def decode_texts(column: str) -> tuple[str, ...]:
    """The list that `encode_texts` wrote."""
    return _texts.decode(column)


def encode_properties(properties: Mapping[str, str]) -> str:
    """Properties as a JSON object, in their order.

    Raises:
        BadRequestError: a key or a value is not valid Unicode.
    """
    return _encode(properties)


def decode_properties(column: str) -> dict[str, str]:
    """The properties that `encode_properties` wrote."""
    return _properties.decode(column)


def encode_records(records: Sequence[Mapping[str, object]]) -> str:
    """Rows as a JSON array of objects, for a statement that takes them as one parameter.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    return _encode(records)


def encode_rows(rows: Sequence[Sequence[str | None]]) -> str:
    """Rows of texts as a JSON array of arrays, for a statement that takes them as one parameter.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    return _encode(rows)


def _encode(value: object) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeError:
        raise BadRequestError("A value cannot be stored: it is not valid Unicode text") from None
