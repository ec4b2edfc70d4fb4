"""What the field ids of a table stand for in all of its schemas.

Files keep the ids that they were written with: an id that comes back with another type, or at another place,
shows values of the column that had it before, or breaks readers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, TypeAlias

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import PrimitiveType, Type

__all__ = ["HIGHEST_FIELD_ID", "FieldHistory"]

HIGHEST_FIELD_ID: Final = 2147483447
"""The ids above are those of metadata columns (table specification, "Reserved Field IDs")."""

_Kind: TypeAlias = PrimitiveType | str
"""A primitive type; of a nested one the word for it, as what is in it has ids of its own."""

_PROMOTIONS: Final = {("int", "long"), ("float", "double")}
_PROMOTIONS_SINCE_V3: Final = {("date", "timestamp"), ("date", "timestamp_ns")}


class FieldHistory:
    """Parents and types by field id."""

    def __init__(self, schemas: Iterable[Schema]) -> None:
        self._known: dict[int, set[tuple[int | None, _Kind]]] = {}
        for schema in schemas:
            self.add(schema)

    def add(self, schema: Schema) -> None:
        """Adds the fields of a schema."""
        for field_id, field in schema.fields_by_id.items():
            self._known.setdefault(field_id, set()).add((schema.parents.get(field_id), _kind(field.type)))

    def check(self, schema: Schema, format_version: int, free_ids: Container[int]) -> None:
        """Refuses a new schema in which an id stands for another column than before.

        Args:
            schema: the new schema.
            format_version: of the table; it decides which promotions are allowed.
            free_ids: ids that may stand for anything.

        Raises:
            IllegalArgumentError: an id was of another type that may not be promoted, or elsewhere in the
                schema, or is new and reserved for metadata columns.
        """
        for field_id, field in schema.fields_by_id.items():
            if field_id not in free_ids:
                problem = self._problem(field_id, schema.parents.get(field_id), field.type, format_version)
                if problem is not None:
                    column = f"column {schema.names_by_id[field_id]} (field id {field_id})"
                    raise IllegalArgumentError(f"Invalid schema: {column} {problem}")

    def _problem(self, field_id: int, parent: int | None, type: Type, format_version: int) -> str | None:
        known = self._known.get(field_id)
        if known is None:
            reserved = field_id > HIGHEST_FIELD_ID
            return f"has a reserved id; the highest is {HIGHEST_FIELD_ID}" if reserved else None
        kind = _kind(type)
        before = [old for place, old in known if place == parent]
        if any(_may_become(old, kind, format_version) for old in before):
            return None
        if not before:
            return f"of type {kind} takes the id of a column at another place"
        types = " and ".join(sorted(map(str, before)))
        return (
            f"of type {kind} takes the id of a column of type {types},"
            f" which may not become {kind} in v{format_version}"
        )


def _kind(type: Type) -> _Kind:
    return type if isinstance(type, PrimitiveType) else str(type)


def _may_become(old: _Kind, new: _Kind, format_version: int) -> bool:
    """Whether files of the old type can be read as the new one (table specification, "Schema Evolution")."""
    if old == new or old == PrimitiveType("unknown"):
        return True
    if not isinstance(old, PrimitiveType) or not isinstance(new, PrimitiveType):
        return False
    if old.name == new.name == "decimal":
        (digits, scale), (new_digits, new_scale) = (map(int, each.parameters) for each in (old, new))
        return scale == new_scale and digits <= new_digits
    change = (old.name, new.name)
    return change in _PROMOTIONS or (format_version >= 3 and change in _PROMOTIONS_SINCE_V3)
