"""What a purge job knows: enough to find every file again, and no credentials."""

from __future__ import annotations

import uuid_utils.compat as uuids

from floecat.identifiers.namespace import TableIdentifier
from floecat.store.purge_jobs import PurgeJobRow
from floecat.store.tables import EntryRow

__all__ = ["purge_job_for"]


def purge_job_for(
    row: EntryRow, identifier: TableIdentifier, now_ms: int, document: bytes | None
) -> PurgeJobRow:
    """The job for a table that is dropped in this very transaction.

    The files are not listed: whoever works on the job finds them from the metadata file, however many there
    are, or from the document if the file is lost.

    Args:
        row: the table, as it is when it goes.
        identifier: its name.
        now_ms: the time; the job is due at once.
        document: its current metadata document, compressed.
    """
    return PurgeJobRow(
        id=uuids.uuid7(),
        catalog_id=row.catalog_id,
        entry_id=row.id,
        object_uuid=row.object_uuid,
        identifier=str(identifier),
        location=row.location,
        metadata_location=row.metadata_location,
        next_attempt_at_ms=now_ms,
        created_at_ms=now_ms,
        format=row.format,
        document=document,
    )
