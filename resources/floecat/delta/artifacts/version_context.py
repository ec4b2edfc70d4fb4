"""The context that all files of a version share, and the names of the fields of partition specs.

A partition field has the name of its column. Iceberg's Java library binds every spec of a table, older ones
too, to the schema that is read. It refuses a table whose schema has a column of the field's name that is not
its source, as after the table was replaced by one whose partition column of that name has another id. So a
name that any schema gives to another column gets the id of the field appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.artifacts.data_files import KnownColumns
from floecat.delta.artifacts.request_bounds import RequestWork
from floecat.delta.translation.translated_schema import TranslatedSchema
from floecat.iceberg.parquet.field_ids import RequiredFieldIds
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import IDENTITY
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS

__all__ = ["VersionContext", "partition_fields", "partition_names", "spec_names"]


@dataclass(frozen=True)
class VersionContext:
    """The inputs for translating a version. Can be pickled for another process.

    Attributes:
        location: root of the Delta table.
        paths: where artifacts go.
        version: the Delta version, the snapshot id.
        translated: its schema.
        schema: the same with the id that it has in the document.
        spec: its partition spec, with the id that it has in the document.
        format_version: 2 or 3.
        position_delete_format: `parquet` or `avro`; of format version 2.
        read_footers: whether row counts that the log lacks are read from files.
        required_ids: field ids that data files must have, if their writers may have left some out; otherwise
            None.
        columns: known columns of data files.
        may_copy_files: whether a file that lacks ids is copied. Otherwise the version is refused.
        work: of the request; None in the pipeline.
        footer_bytes: bounds the footer of a data file.
        lost_specs: ids of partition specs with columns that the schema does not have.
    """

    location: str
    paths: ArtifactPaths
    version: int
    translated: TranslatedSchema
    schema: Schema
    spec: PartitionSpec
    format_version: int
    position_delete_format: DeleteFormat
    read_footers: bool
    required_ids: RequiredFieldIds | None = None
    columns: KnownColumns = field(default_factory=KnownColumns)
    may_copy_files: bool = True
    work: RequestWork | None = None
    footer_bytes: int = DEFAULT_BOUNDS.delta_footer_bytes
    lost_specs: frozenset[int] = frozenset()

    @property
    def sequence_number(self) -> int:
        """Iceberg counts from 1: 0 is for files from before sequence numbers."""
        return self.version + 1


def spec_names(schemas: Sequence[TranslatedSchema], published: Mapping[int, str]) -> Mapping[int, str]:
    """Names of partition fields, by their ids.

    A published name stays, whatever its column is called now, unless a schema has another column of that
    name: Iceberg's Java library opens no such table.

    Args:
        schemas: of all versions, oldest first.
        published: names in specs that readers have seen.
    """
    names = dict(partition_names(schemas))
    sources = {column.field_id: column.source_id for schema in schemas for column in schema.partition_fields}
    for field_id, name in published.items():
        taken_by = {schema.schema.ids_by_name.get(name) for schema in schemas} - {None}
        if field_id not in names or taken_by <= {sources[field_id]}:
            names[field_id] = name
    return names


def partition_fields(schema: TranslatedSchema, names: Mapping[int, str]) -> tuple[PartitionField, ...]:
    """The partition spec of a schema: each partition column as it is.

    Args:
        schema: with its partition columns.
        names: of partition fields, by id; the others have the names of their columns.
    """
    return tuple(
        PartitionField(
            names.get(column.field_id, column.name),
            IDENTITY,
            source_id=column.source_id,
            field_id=column.field_id,
        )
        for column in schema.partition_fields
    )


def partition_names(schemas: Sequence[TranslatedSchema]) -> Mapping[int, str]:
    """Names that partition fields have in all specs of the table, by id of the partition field.

    They differ from those of an earlier call if a column was renamed or added since. Specs written then must
    get the new names, which changes no manifest.

    Args:
        schemas: schemas of the table's versions, the newest last.
    """
    owners: dict[str, set[int]] = {}
    for schema in schemas:
        for name, source_id in schema.schema.ids_by_name.items():
            owners.setdefault(name, set()).add(source_id)
    names: dict[int, str] = {}
    for schema in reversed(schemas):
        for column in schema.partition_fields:
            if column.field_id not in names:
                current = _current_name(column.source_id, column.name, schemas)
                names[column.field_id] = next(
                    name
                    for name in _candidates(current, column.field_id)
                    if name not in names.values() and owners.get(name, set()) <= {column.source_id}
                )
    return names


def _current_name(source_id: int, name: str, schemas: Sequence[TranslatedSchema]) -> str:
    """The column's name in the newest schema that has it."""
    found = (schema.schema.names_by_id.get(source_id) for schema in reversed(schemas))
    return next((current for current in found if current is not None), name)


def _candidates(name: str, field_id: int) -> Iterator[str]:
    yield name
    yield f"{name}_{field_id}"
    for number in count(2):
        yield f"{name}_{field_id}_{number}"
