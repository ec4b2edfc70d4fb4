"""The numbers that a table takes new ids from, and what its document says is in use already."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from floecat.iceberg.metadata.name_mappings import NAME_MAPPING, mapped_ids
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import NO_PARTITION_FIELD_ID

__all__ = ["HIGHEST_COLUMN_ID", "Counter", "counters"]

HIGHEST_COLUMN_ID = 2**31 - 1 - 200
"""Ids above it belong to metadata columns (table specification, "Reserved Field IDs")."""

_ROW_LINEAGE_VERSION = 3


class Counter(NamedTuple):
    """A number in table metadata that new ids are taken from.

    Attributes:
        name: the field of the document.
        value: what the document says.
        in_use: the least value that gives no id a second time.
    """

    name: str
    value: int
    in_use: int


def counters(metadata: TableMetadata) -> Iterator[Counter]:
    """Each such number that the format version of the table has.

    Raises:
        InvalidMetadataError: a part that holds ids cannot be read.
    """
    yield Counter("last-column-id", metadata.last_column_id, max(_column_ids(metadata), default=0))
    partition_ids = (spec.last_field_id for spec in metadata.partition_specs)
    last_partition_id = max(partition_ids, default=NO_PARTITION_FIELD_ID)
    yield Counter("last-partition-id", metadata.last_partition_id, last_partition_id)
    if metadata.format_version > 1:
        numbers = (snapshot.sequence_number for snapshot in metadata.snapshots)
        yield Counter("last-sequence-number", metadata.last_sequence_number, max(numbers, default=0))
    if metadata.format_version >= _ROW_LINEAGE_VERSION:
        rows = ((each.first_row_id or 0) + (each.added_rows or 0) for each in metadata.snapshots)
        yield Counter("next-row-id", metadata.next_row_id, max(rows, default=0))


def _column_ids(metadata: TableMetadata) -> Iterator[int]:
    return (found for found in _mentioned_ids(metadata) if found <= HIGHEST_COLUMN_ID)


def _mentioned_ids(metadata: TableMetadata) -> Iterator[int]:
    """Ids of columns wherever the document names one: files may still hold what no schema has any more."""
    for schema in metadata.schemas:
        yield schema.highest_field_id
    for spec in metadata.partition_specs:
        yield from chain.from_iterable(field.sources for field in spec.fields)
    for order in metadata.sort_orders:
        yield from chain.from_iterable(field.sources for field in order.fields)
    for file in metadata.statistics:
        for blob in file.blob_metadata:
            yield from blob.fields
    yield from mapped_ids(metadata.properties.get(NAME_MAPPING, ""))
