"""What data files hold beside the columns that a version has, as far as their footers are read.

The log does not name them: columns that were dropped before its oldest version, columns that were never in
it, as the index of pandas, and partition columns, which some writers put into files too (Delta protocol,
`materializePartitionColumns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from floecat.delta.translation.column_ids import FieldIds, PhysicalPath
from floecat.delta.translation.schema import TranslatedSchema
from floecat.iceberg.parquet.field_ids import fields_of
from floecat.iceberg.parquet.parquet_schema import SchemaNode

__all__ = ["NOTHING_FOUND", "FileColumns", "FoundColumns", "KnownColumns", "known_columns"]


@dataclass(frozen=True)
class KnownColumns:
    """What need not be found any more.

    Attributes:
        paths: paths that the name mapping lists.
        variants: columns whose parts are of no interest.
        partitions: ids of partition columns that files must not have, by physical name.
        by_id: whether a file's own ids tell which column is which, rather than its names.
    """

    paths: frozenset[PhysicalPath] = frozenset()
    variants: frozenset[PhysicalPath] = frozenset()
    partitions: Mapping[str, int] = field(default_factory=dict)
    by_id: bool = False


@dataclass(frozen=True)
class FoundColumns:
    """What was found.

    Attributes:
        hidden: paths that the name mapping must list.
        partitions: physical names of partition columns that files hold.
    """

    hidden: frozenset[PhysicalPath] = frozenset()
    partitions: frozenset[str] = frozenset()

    def __or__(self, other: FoundColumns) -> FoundColumns:
        return FoundColumns(self.hidden | other.hidden, self.partitions | other.partitions)


NOTHING_FOUND = FoundColumns()


def known_columns(translated: TranslatedSchema, ids: FieldIds) -> KnownColumns:
    """What is known of the data files of a version.

    Args:
        translated: its schema.
        ids: the ids of the table.
    """
    paths = translated.physical_paths
    return KnownColumns(
        frozenset([*ids.paths, *ids.hidden_paths, *paths.values()]),
        frozenset(paths[id] for id, type in translated.delta_types.items() if type == "variant"),
        {
            column.physical_name: column.source_id
            for column in translated.partition_fields
            if column.physical_name not in ids.separate
        },
        by_id=translated.mapping_mode == "id",
    )


class FileColumns:
    """Collects what footers show. Threads may share it."""

    def __init__(self, known: KnownColumns) -> None:
        self._known = known
        self._found: list[FoundColumns] = []

    @property
    def found(self) -> FoundColumns:
        """All of it."""
        all_found = NOTHING_FOUND
        for each in self._found:
            all_found |= each
        return all_found

    def look(self, root: SchemaNode) -> None:
        """Looks at the schema of a file."""
        fields = list(fields_of(root))
        names = {node.name.casefold() for node in root.children}
        ids = {node.field_id for node in root.children}
        # PyIceberg goes by names as soon as a single field has no id
        by_name = any(node.field_id is None for _, node in fields)
        found = FoundColumns(
            frozenset(path for path, _ in fields if by_name and self._is_new(path)),
            frozenset(
                name
                for name, id in self._known.partitions.items()
                if id in ids or (name.casefold() in names and not self._known.by_id)
            ),
        )
        if found != NOTHING_FOUND:
            self._found.append(found)

    def _is_new(self, path: PhysicalPath) -> bool:
        return path not in self._known.paths and not any(
            path[:length] in self._known.variants for length in range(1, len(path))
        )
