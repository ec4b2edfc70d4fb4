"""What data files hold beside the columns that a version has, as far as their footers are read.

The log does not name them: columns that were dropped before its oldest version, columns that were never in
it, as the index of pandas, and partition columns, which some writers put into files too (Delta protocol,
`materializePartitionColumns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floecat.delta.field_ids import FieldIds, PhysicalPath
from floecat.delta.translation.schema import TranslatedSchema
from floecat.iceberg.parquet.field_ids import fields_of, footer_schema

__all__ = ["NOTHING_FOUND", "FileColumns", "FoundColumns", "KnownColumns", "known_columns"]


@dataclass(frozen=True)
class KnownColumns:
    """What need not be found any more.

    Attributes:
        paths: paths that the name mapping lists.
        variants: columns whose parts are of no interest.
        partitions: physical names of partition columns, by the ids that files must not have.
    """

    paths: frozenset[PhysicalPath] = frozenset()
    variants: frozenset[PhysicalPath] = frozenset()
    partitions: Mapping[int, str] | None = None


@dataclass(frozen=True)
class FoundColumns:
    """What was found.

    Attributes:
        hidden: paths that the name mapping must list.
        partitions: physical names of partition columns that files hold under the id of the column.
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
    # without column mapping, files that have ids are copied
    is_mapped = translated.mapping_mode != "none"
    return KnownColumns(
        frozenset([*ids.paths, *ids.hidden_paths, *paths.values()]),
        frozenset(paths[id] for id, type in translated.delta_types.items() if type == "variant"),
        {column.source_id: column.physical_name for column in translated.partition_fields if is_mapped},
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

    def look(self, tail: bytes, location: str) -> None:
        """Looks at a footer.

        Args:
            tail: the end of a file, its whole footer or more.
            location: where it is, for messages.

        Raises:
            InvalidDeltaTableError: the footer is damaged.
        """
        _, root = footer_schema(tail, location)
        fields = list(fields_of(root))
        partitions = self._known.partitions or {}
        ids = {node.field_id for path, node in fields if len(path) == 1}
        # PyIceberg goes by names as soon as a single field has no id
        by_name = any(node.field_id is None for _, node in fields)
        found = FoundColumns(
            frozenset(path for path, _ in fields if by_name and self._is_new(path)),
            frozenset(name for id, name in partitions.items() if id in ids),
        )
        if found != NOTHING_FOUND:
            self._found.append(found)

    def _is_new(self, path: PhysicalPath) -> bool:
        return path not in self._known.paths and not any(
            path[:length] in self._known.variants for length in range(1, len(path))
        )
