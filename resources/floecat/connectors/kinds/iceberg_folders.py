"""The connector `iceberg`: Iceberg tables below a folder or the prefix of a bucket, or a single one.

A search costs one listing for each folder above and at the tables, and one of the metadata of each table.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import ClassVar, Final

from floecat.connectors.folder_walk import FolderWalk
from floecat.connectors.spi import DiscoveredTable, UpstreamDocument
from floecat.errors import FileMissingError, InvalidMetadataError, NoSuchTableError, PayloadTooLargeError
from floecat.fileio.base import FileEntry

__all__ = ["IcebergFoldersConnector"]

_FOLDER: Final = "metadata"
_HINT: Final = "version-hint.text"
_LONGEST_HINT: Final = 1_000
_MOST_FILES: Final = 100_000
"""Metadata files of a table."""

_END: Final = r"(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)"
_VERSION: Final = re.compile(rf"v([0-9]{{1,18}}){_END}")
"""Names of a Hadoop catalog."""
_NUMBERED: Final = re.compile(rf"([0-9]{{1,18}})-.+{_END}")
"""Names of every other catalog."""


class IcebergFoldersConnector(FolderWalk):
    """Finds Iceberg tables: folders with a folder `metadata` that has metadata files.

    The newest metadata file is the one with the highest number. Where numbers of a Hadoop catalog have a gap,
    or names are of another catalog, `version-hint.text` names it if there is one. Of two files with one
    number, and of the newest files of both forms, the one that was written last is taken.

    Folders with a Delta log are left out, also those whose tables have Iceberg metadata beside it.
    """

    _ends: ClassVar[frozenset[str]] = frozenset({"_delta_log"})

    def load(self, table: DiscoveredTable, known_state: str | None) -> UpstreamDocument | None:
        """See `LoadsTables.load`."""
        newest = table.state or self._newest(table.location)
        if newest is None:
            raise NoSuchTableError(f"Table has no metadata files any more: {table.location}")
        return None if newest == known_state else UpstreamDocument(newest, newest)

    def _table(self, location: str, children: Set[str]) -> DiscoveredTable | None:
        if _FOLDER not in children or not self._ends.isdisjoint(children):
            return None
        newest = self._newest(location)
        return None if newest is None else DiscoveredTable("", location, format="iceberg", state=newest)

    def _newest(self, table: str) -> str | None:
        """The location of the newest metadata file; `None` if there is none."""
        folder = f"{table}/{_FOLDER}"
        self._source.allowed.check(folder)
        versions: dict[int, FileEntry] = {}
        numbered: dict[int, FileEntry] = {}
        has_hint = False
        for file in self._source.files.list(folder):
            above, _, name = file.location.rpartition("/")
            if above != folder:
                continue
            has_hint = has_hint or name == _HINT
            for form, found in ((_VERSION, versions), (_NUMBERED, numbered)):
                if match := form.fullmatch(name):
                    before = found.setdefault(int(match[1]), file)
                    found[int(match[1])] = max(before, file, key=_written)
            if len(versions) + len(numbered) > _MOST_FILES:
                raise PayloadTooLargeError(f"More than {_MOST_FILES} metadata files in {folder}")
        if not versions and not numbered:
            return None
        is_told = not numbered and max(versions) - min(versions) < len(versions)
        if has_hint and not is_told:
            return self._hinted(folder, versions, numbered)
        return _last(versions, numbered)

    def _hinted(self, folder: str, versions: dict[int, FileEntry], numbered: dict[int, FileEntry]) -> str:
        hint = f"{folder}/{_HINT}"
        try:
            named = self._source.files.read(hint, max_bytes=_LONGEST_HINT).decode().strip()
        except (PayloadTooLargeError, UnicodeDecodeError):
            raise InvalidMetadataError(f"Not a version hint: {hint}") from None
        if re.fullmatch("[0-9]{1,18}", named):
            if not versions:
                return _last(numbered)  # the hint is left of a Hadoop catalog that had the table before
            version = int(named)
            if version not in versions:
                raise FileMissingError(f"{hint} names version {version}, which is not there")
            # the hint is written after the file, and may be behind
            while version + 1 in versions:
                version += 1
            return _last({version: versions[version]}, numbered)
        names = {file.location.rpartition("/")[2]: file for file in numbered.values()}
        found = names.get(named) or names.get(f"{named}.metadata.json")
        if found is None:
            raise FileMissingError(f"{hint} names a metadata file that is not there: {named[:200]!r}")
        return found.location


def _last(*forms: dict[int, FileEntry]) -> str:
    return max((found[max(found)] for found in forms if found), key=_written).location


def _written(file: FileEntry) -> tuple[int, str]:
    return file.modified_at_ms, file.location
