"""Folders that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from floecat.errors import SettingsError

__all__ = ["lock_folder"]


@contextmanager
def lock_folder(folder: Path, name: str, option: str) -> Iterator[None]:
    """Keep a folder for this process while the block runs. The lock ends with the process, however it ends.

    Args:
        folder: created where it is missing.
        name: of the lock, as `up`; those of one folder are independent.
        option: chooses another folder, for the message.

    Raises:
        SettingsError: another process has the lock; the message names the folder and the process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.read(file, 20).decode("ascii", "replace")
            raise SettingsError(
                f"{folder} is in use by another floecat process ({process}): stop it, "
                f"or choose another folder with {option}"
            ) from None
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        yield
    finally:
        os.close(file)
