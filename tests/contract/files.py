"""The files of a warehouse on local disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["files_below", "path_of", "write_metadata"]


def path_of(location: str) -> Path:
    """The path that a `file:` location names."""
    parts = urlsplit(location)
    assert parts.scheme in ("file", ""), location
    return Path(unquote(parts.path))


def files_below(location: str) -> list[str]:
    """Paths of the files below a location, relative to it, sorted; without folders, which are no objects."""
    folder = path_of(location)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write_metadata(folder: Path, document: Any, name: str = "00000-made.metadata.json") -> str:
    """Writes a document where a client would write a metadata file, and returns its location."""
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    path = folder / "metadata" / name
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(data)
    return path.as_uri()
