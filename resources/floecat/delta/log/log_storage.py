"""What tells a Delta table from any other folder: the files of its log (Delta protocol, "File Types")."""

from __future__ import annotations

import re

from floecat.fileio.base import FileIO

__all__ = ["LOG_FOLDER", "has_delta_log"]

LOG_FOLDER = "_delta_log"
"""Name of the folder of the log, directly below the root of a table."""

_LOG_FILE = re.compile(r"\d{20}\..+")


def has_delta_log(files: FileIO, location: str) -> bool:
    """Whether a folder is the root of a Delta table: its log holds a commit or a checkpoint.

    Args:
        files: storage.
        location: the folder, without a slash at the end.

    Raises:
        StorageUnavailableError: storage fails.
    """
    folder = f"{location}/{LOG_FOLDER}"
    return any(
        _LOG_FILE.fullmatch(entry.location.rpartition("/")[2]) is not None
        and entry.location.rpartition("/")[0] == folder
        for entry in files.list(folder)
    )
