"""What all files of a version share."""

from __future__ import annotations

from dataclasses import dataclass, field

from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.artifacts.file_columns import KnownColumns
from floecat.delta.translation.schema import TranslatedSchema
from floecat.iceberg.parquet.field_ids import RequiredFieldIds
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.schema import Schema

__all__ = ["VersionContext"]


@dataclass(frozen=True)
class VersionContext:
    """How a version is translated. It can be sent to another process.

    Attributes:
        location: root of the Delta table.
        paths: where artifacts go.
        version: the Delta version, the snapshot id.
        translated: its schema.
        schema: the same with the id that it has in the document.
        spec: its partition spec, with the id that it has in the document.
        format_version: 2 or 3.
        position_delete_format: `parquet` or `avro`; of format version 2.
        read_footers: whether the row count of a file that the log does not tell is looked up in the file.
        required_ids: field ids that data files must have, if their writers may have done otherwise; None
            if not.
        columns: what is known of the columns in data files.
        may_copy_files: whether a file that lacks ids is copied. If not, the version is refused.
        lost_specs: ids of partition specs by columns that the schema does not have.
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
    lost_specs: frozenset[int] = frozenset()

    @property
    def sequence_number(self) -> int:
        """Iceberg counts from 1: 0 is for what is older than sequence numbers."""
        return self.version + 1
