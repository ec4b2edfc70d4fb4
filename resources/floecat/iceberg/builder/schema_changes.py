"""Changes to the schemas of a table, and the meaning of its field ids across all of them.

Files keep the ids that they were written with: an id that is reused with another type, or at another place,
shows values of the column that had it before, or breaks readers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, TypeAlias

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.definition_list import DefinitionKind, DefinitionList
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.default_values import same_default
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.schema import HIGHEST_COLUMN_ID, Schema
from floecat.iceberg.schemas.transforms import transform_name
from floecat.iceberg.schemas.types import NestedField, PrimitiveType, Type
from floecat.iceberg.values.encoded_json import Fragment, encode_json
from floecat.iceberg.values.text_limits import check_numbers

__all__ = [
    "SchemaChanges",
    "check_promotions",
]


_SCHEMAS = DefinitionKind[Schema](
    array="schemas",
    selector="current-schema-id",
    noun="schema",
    role="current schema",
    read=lambda metadata: metadata.schemas,
    id_of=lambda schema: schema.schema_id,
    content_of=lambda schema: schema.content,
)


class SchemaChanges(DefinitionList[Schema]):
    """Schemas, the current one, and the highest column id ever assigned."""

    def __init__(self, base: TableMetadata | None) -> None:
        super().__init__(base, _SCHEMAS, 0 if base is None else base.current_schema_id)
        self.last_column_id = 0 if base is None else base.last_column_id
        self._history: _FieldHistory | None = None

    @property
    def changed(self) -> bool:
        """Whether anything is different from the base."""
        return super().changed or self._base is None or self.last_column_id != self._base.last_column_id

    def add(self, schema: Schema, format_version: int, *, keeps_rows: bool) -> None:
        """Adds a schema under the next id, or finds the equal one.

        Column ids are never reused: the highest one stays when its column is dropped.

        Args:
            schema: the schema; its id does not matter.
            format_version: of the table.
            keeps_rows: whether the table has rows. Without rows, columns of the current schema may change
                their types: the reference client replaces a table so, keeping ids by name.

        Raises:
            IllegalArgumentError: it needs a later format version, some clients cannot read it, or a column
                has the id of another one.
        """
        schema.check_format_version(format_version)
        self.last_column_id = max(self.last_column_id, schema.highest_field_id)
        existing = self.find(schema)
        if existing is not None:
            self.last_added_id = existing.schema_id
            return
        check_numbers(schema.raw, "schema")
        current = self.items.get(self.selected_id)
        check_new_columns(schema, current)
        free_ids: Container[int] = () if keeps_rows or current is None else current.fields_by_id
        self._fields.check(schema, format_version, free_ids)
        added = schema.with_schema_id(self.next_id())
        self.insert(added, added.raw)
        self._fields.add(added)

    @property
    def _fields(self) -> _FieldHistory:
        if self._history is None:
            # schemas that this request removed count too: files written with them may exist
            self._history = _FieldHistory(() if self._base is None else self._base.schemas)
        return self._history

    def write(self, fields: dict[str, Fragment], format_version: int) -> None:
        """Writes what has changed into the fields of the next document."""
        fields["last-column-id"] = (encode_json(self.last_column_id),)
        if format_version == 1 and (self.selection_changed or "schema" not in fields):
            # for readers of version 1 that do not know the list of schemas
            fields["schema"] = (self.selected.raw,)
        super().write(fields, format_version)


_Kind: TypeAlias = PrimitiveType | str
"""A primitive type, or the word for a nested one, whose fields have ids of their own."""

_PROMOTIONS: Final = {("int", "long"), ("float", "double")}
_PROMOTIONS_SINCE_V3: Final = {("date", "timestamp"), ("date", "timestamp_ns")}


class _FieldHistory:
    """Parents and types by field id."""

    def __init__(self, schemas: Iterable[Schema]) -> None:
        self._known: dict[int, set[tuple[int | None, _Kind]]] = {}
        self._initial_defaults: dict[int, list[object]] = {}
        self._to_add = list(schemas)

    def add(self, schema: Schema) -> None:
        """Adds the fields of a schema."""
        self._to_add.append(schema)

    def _add_all(self) -> None:
        for schema in self._to_add:
            for field_id, field in schema.fields_by_id.items():
                self._known.setdefault(field_id, set()).add((schema.parents.get(field_id), _kind(field.type)))
                defaults = self._initial_defaults.setdefault(field_id, [])
                if not any(same_default(old, field.initial_default, field.type) for old in defaults):
                    defaults.append(field.initial_default)
        self._to_add.clear()

    def check(self, schema: Schema, format_version: int, free_ids: Container[int]) -> None:
        """Refuses a new schema that reuses an id for another column.

        Args:
            schema: the new schema.
            format_version: of the table; it decides which promotions are allowed.
            free_ids: ids without restrictions.

        Raises:
            IllegalArgumentError: an id had a type that cannot be promoted to the new one, another place in
                the schema or another initial default, or is new and reserved for metadata columns.
        """
        self._add_all()
        for field_id, field in schema.fields_by_id.items():
            if field_id not in free_ids:
                problem = self._problem(field_id, schema.parents.get(field_id), field.type, format_version)
                problem = problem or self._changed_default(field)
                if problem is not None:
                    column = f"column {schema.names_by_id[field_id]} (field id {field_id})"
                    raise IllegalArgumentError(f"Invalid schema: {column} {problem}")

    def _problem(self, field_id: int, parent: int | None, type: Type, format_version: int) -> str | None:
        known = self._known.get(field_id)
        if known is None:
            reserved = field_id > HIGHEST_COLUMN_ID
            return f"has a reserved id; the highest is {HIGHEST_COLUMN_ID}" if reserved else None
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

    def _changed_default(self, field: NestedField) -> str | None:
        known = self._initial_defaults.get(field.id)
        if known is None or any(same_default(old, field.initial_default, field.type) for old in known):
            return None
        return (
            "has another initial-default than before: rows that were written without the column would change"
        )


def check_promotions(base: TableMetadata, schema: Schema) -> None:
    """Refuses a change of type that gives partition values of older rows another meaning.

    Args:
        base: the table, with its partition specs.
        schema: the new current schema.

    Raises:
        IllegalArgumentError: a column that a spec sorts into buckets becomes one whose equal values have
            other hashes (table specification, "Schema Evolution").
    """
    before = base.current_schema
    for spec in base.partition_specs:
        for field in spec.fields:
            for source_id in field.sources if transform_name(field.transform) == "bucket" else ():
                old, new = before.find_type(source_id), schema.find_type(source_id)
                if old == PrimitiveType("date") and new not in (None, old):
                    name = schema.names_by_id[source_id]
                    raise IllegalArgumentError(
                        f"Invalid schema: column {name} (field id {source_id}) may not become {new}:"
                        f" {field.transform} of partition spec {spec.spec_id} would change"
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
