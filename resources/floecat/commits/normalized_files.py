"""Metadata files of registered tables whose document had to be normalised.

Most clients take the metadata of an answer. Some open the file at `metadata-location` instead (ClickHouse,
and DuckDB's `iceberg_snapshots`), and would read what the other writer left. So the normalised document is
written as the next metadata file of the table, and the registered file ends its `metadata-log`.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from uuid import UUID, uuid5

from floecat.entries.calls import Call
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import ForbiddenError, LocationNotAllowedError, StorageUnavailableError
from floecat.iceberg.metadata.properties import previous_versions_max
from floecat.iceberg.metadata.refs_and_logs import append_metadata_log
from floecat.iceberg.metadata.table_metadata import TableMetadata

__all__ = ["write_normalized"]

_log = logging.getLogger(__name__)

_CONTENT = UUID("c1e6a0d4-0c1c-5a57-8b1e-5e0d7d3a2f94")


def write_normalized(
    files: MetadataFiles, call: Call, metadata: TableMetadata, registered: str
) -> tuple[TableMetadata, str]:
    """Writes the normalised document of a registered file to a file of its own.

    Its name follows from its content: the same file registered again, or by two requests at once, leads to
    the same one. It is not deleted if the registration fails.

    Args:
        call: who registers.
        metadata: the normalised document.
        registered: location of the registered file.

    Returns:
        What is registered: the written document and its location; the given ones if storage lets the catalog
        write no file there, as in another team's bucket.
    """
    log, _ = append_metadata_log(
        metadata.array("metadata-log"),
        registered,
        metadata.last_updated_ms,
        previous_versions_max(metadata.properties),
    )
    made = TableMetadata.of({**metadata.fields, "metadata-log": log})
    location = files.next_location(made, registered, uuid5(_CONTENT, sha256(made.to_bytes()).hexdigest()))
    try:
        files.write_once(call.catalog.storage, location, made)
    except (ForbiddenError, LocationNotAllowedError, StorageUnavailableError) as error:
        _log.warning("the normalised form of %s was not written: %s", registered, error.message)
        return metadata, registered
    return made, location
