"""Files of an entry that the catalog writes for itself: statistics of data files, and their page indexes.

They lie outside the location of the table, in a folder of the warehouse with the id of the entry: engines
delete what is below the location of a table and not in its metadata as orphans. The folder above begins with
an underscore, since engines leave such folders alone if a table has the whole warehouse as its location.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from floecat.fileio.base import DeleteOutcome
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["delete_entry_files", "entry_folder", "is_entry_file"]

_FOLDER: Final = "_floecat"
_NAME: Final = re.compile(r"[^/]+\.(stats|page-index\.parquet)")


def entry_folder(warehouse: str, entry_id: UUID) -> str:
    """The folder of one entry below the storage location of its catalog; no other entry has files there."""
    return f"{warehouse.rstrip('/')}/{_FOLDER}/{entry_id}"


def is_entry_file(location: str, entry_id: UUID) -> bool:
    """Whether a file of a table is one that the catalog wrote for itself."""
    folder, _, name = location.rpartition("/")
    return folder.endswith(entry_folder("", entry_id)) and _NAME.fullmatch(name) is not None


def delete_entry_files(storage: CatalogStorage, warehouse: str, entry_id: UUID) -> DeleteOutcome:
    """Deletes the files of an entry that was removed. Can be repeated.

    Args:
        warehouse: storage location of the catalog.

    Raises:
        LocationNotAllowedError: links lead outside the allowed locations.
        UnavailableError: storage fails.
    """
    folder = entry_folder(warehouse, entry_id)
    storage.allowed.check(folder)
    found = (entry.location for entry in storage.files(folder).list(folder))
    return storage.delete_many([file for file in found if is_entry_file(file, entry_id)])
