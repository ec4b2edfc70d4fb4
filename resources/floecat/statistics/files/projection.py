"""Columns of a table in its files: read, or filled in where a file lacks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import PrimitiveType, StructType
from floecat.planning.filters.literals import canonical
from floecat.statistics.files.leaf_values import arrow_type_of, leaf_values, one_value
from floecat.statistics.files.sources import Source, UnreadableFileError, reading

__all__ = ["Projection"]

_REPEATED_ROWS: Final = 1 << 16


class Projection:
    """Types and defaults of columns by field id (table specification, "Column Projection")."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.types: Mapping[int, PrimitiveType] = {
            field.id: field.type
            for field in schema.fields_by_id.values()
            if isinstance(field.type, PrimitiveType) and field.type.is_primitive
        }

    def default(self, field_id: int, constants: Mapping[int, bytes | None]) -> bytes | None:
        """The value of a column in all rows of a file that lacks it, None for null.

        Args:
            constants: of the file, as of `DataFile`.
        """
        if field_id in constants:
            return constants[field_id]
        json = self._schema.fields_by_id[field_id].initial_default
        if json is None:
            return None
        type = self.types[field_id]
        value = canonical(json, type)
        if type.name == "boolean":
            value = bool(value)
        return encode_one(value, type)

    def rows_without(self, source: Source, field_id: int) -> int | None:
        """The number of values in each row of a column that a file lacks: one, a default or null.

        Returns:
            0 in a list or map that the file lacks too; None in one that it has, as items are not counted, and
            for a column that the file may have where it is not read.
        """
        if source.hides(field_id):
            return None
        repeated = [
            owner
            for owner in self._owners(field_id)
            if not isinstance(self._schema.fields_by_id[owner].type, StructType)
        ]
        if not repeated:
            return 1
        others = (id for id in self.types if repeated[-1] in self._owners(id))
        return None if any(map(source.has, others)) else 0

    def _owners(self, field_id: int) -> Iterator[int]:
        """The fields around a field, outwards."""
        owner = self._schema.parents.get(field_id)
        while owner is not None:
            yield owner
            owner = self._schema.parents.get(owner)

    def values(
        self, source: Source, field_id: int, location: str, constants: Mapping[int, bytes | None]
    ) -> Iterator[pa.Array]:
        """The values of a column outside lists and maps, one per row of the file.

        Raises:
            UnreadableFileError: the file is damaged, has values of another type, or hides the column.
        """
        if source.hides(field_id):
            raise UnreadableFileError(location, f"field {field_id} is nested in a way that is not read")
        type = self.types[field_id]
        if source.has(field_id):
            for batch in source.read([field_id]):
                with reading(location):
                    values = leaf_values(batch[field_id], type, source.struct_path(field_id))
                    yield values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            return
        value = self.default(field_id, constants)
        kind = arrow_type_of(type)
        for start in range(0, source.row_count, _REPEATED_ROWS):
            count = min(source.row_count - start, _REPEATED_ROWS)
            if value is None:
                yield pa.nulls(count, kind)
            else:
                yield pa.repeat(one_value(value, type)[0], count)
