"""The search of connectors for tables that are folders, whatever a table is told by.

A folder that is a table is not searched any further. So a search costs one listing for each folder above and
at the tables, however many files these have.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from fnmatch import translate
from typing import ClassVar, NamedTuple, TypeAlias

from msgspec.structs import replace

from floecat.connectors.patience import Patience
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, Discovery, UnreadablePlace
from floecat.errors import BadRequestError, FileMissingError, FloecatError
from floecat.identifiers.namespace import Namespace, check_name

__all__ = ["Exclusions", "FolderWalk"]

_NAMESPACES = "namespaces"
_NAME = "name"
_MAX_DEPTH = "max-depth"
_EXCLUDE = "exclude"
_DEFAULTS: Mapping[str, str] = {_NAMESPACES: "nested", _NAME: "", _MAX_DEPTH: "8", _EXCLUDE: ""}

_NUMBER = re.compile("[0-9]{1,9}")

_DEEPEST = 32

_MOST_PATTERNS = 100

_ANY_FOLDERS = "**"

_CONTROL = re.compile("[\x00-\x1f\x7f]")

_Level: TypeAlias = re.Pattern[str] | None
"""Pattern that the name of a folder must match; `None` for any number of folders."""


class _Folder(NamedTuple):
    location: str
    levels: Namespace
    """Names of the folders from the root to this one, itself included."""


class FolderWalk(ABC):
    """Finds tables below a folder or the prefix of a bucket, or a single one.

    Options:

    - ``namespaces``: `nested` (default) makes a namespace level of each folder between the root and a table;
      `flat` puts all tables into one namespace, named by their folders joined with ``_``.
    - ``name``: what the table is called if the root itself is one. Default: the name of its folder.
    - ``max-depth``: how many folders deep to look below the root, 1 to 32. Default: 8.
    - ``exclude``: patterns of folders that are not looked into, separated by commas; see `Exclusions`.

    Hidden folders (``_`` or ``.`` first) and folders of partitions (``key=value``) are not looked into, and
    symbolic links are not followed.
    """

    _ends: ClassVar[frozenset[str]] = frozenset()
    """Names of folders: what holds one of them is not searched, whether or not it is a table."""

    def __init__(self, source: ConnectorSource) -> None:
        """Reads the options.

        Raises:
            BadRequestError: an option is unknown or has a value of the wrong kind.
        """
        options = _checked(source.options)
        self._source = source
        self._flat = options[_NAMESPACES] == "flat"
        self._name = options[_NAME]
        self._max_depth = int(options[_MAX_DEPTH])
        self._excluded = Exclusions(options[_EXCLUDE])

    def check_root(self) -> None:
        """See `ChecksRoot.check_root`."""
        self._look(_Folder(self._source.location, ()))

    def discover(self) -> Iterator[Discovery]:
        """See `Connector.discover`."""
        waiting = [_Folder(self._source.location, ())]
        patience = Patience()
        while waiting:
            folder = waiting.pop()
            self._source.looks_into(folder.location)
            try:
                below = self._look(folder)
            except FloecatError as error:
                patience.failed(error)
                yield UnreadablePlace(folder.location, error)
                continue
            patience.succeeded()
            if isinstance(below, DiscoveredTable):
                yield below
            else:
                # in the order of their names, depth first
                waiting += reversed(below)

    def _look(self, folder: _Folder) -> DiscoveredTable | list[_Folder]:
        """The table that a folder is, or the folders in it."""
        self._source.allowed.check(folder.location)
        children = {
            location.rpartition("/")[2]: location
            for location in self._source.files.list_folders(folder.location)
        }
        found = self._table(folder.location, children.keys())
        if found is not None:
            return self._named(found, folder.levels)
        if not children and not folder.levels:
            self._check_not_empty(folder.location)
        if len(folder.levels) >= self._max_depth or not self._ends.isdisjoint(children):
            return []
        return [
            _Folder(location, levels)
            for name, location in children.items()
            if not name.startswith(("_", "."))
            and "=" not in name
            and not self._excluded.hold(levels := (*folder.levels, name))
            and self._may_hold(levels)
        ]

    def _may_hold(self, levels: Namespace) -> bool:
        """Whether a folder may be a table that is taken, or hold one."""
        selection = self._source.selection
        # the name of a table in one namespace is that of all folders up to it
        return self._flat or selection.looks_into(levels) or selection.takes(levels[:-1], levels[-1])

    @abstractmethod
    def _table(self, location: str, children: Set[str]) -> DiscoveredTable | None:
        """The table that a folder is, by the names of the folders in it; its own name is given to it later.

        Raises:
            FloecatError: the folder cannot be read.
        """

    def _check_not_empty(self, root: str) -> None:
        # object storage has no empty folders: a misspelt root and an empty one look the same
        if not any(True for _ in self._source.files.list(root)):
            raise FileMissingError(f"There is nothing to search: {root} is not a folder, or is empty")

    def _named(self, table: DiscoveredTable, levels: Namespace) -> DiscoveredTable:
        if not levels:
            return replace(table, name=self._name or table.location.rpartition("/")[2])
        if self._flat:
            return replace(table, name="_".join(levels))
        return replace(table, name=levels[-1], namespace=levels[:-1])


class Exclusions:
    """Folders that a search leaves out, by patterns of their paths below its root.

    `*`, `?` and `[…]` match within the name of one folder, `**` any number of folders. Case-sensitive.
    """

    def __init__(self, text: str) -> None:
        """Patterns are separated by commas; an empty text excludes nothing.

        Raises:
            BadRequestError: a pattern could never match a folder below the root, or there are too many.
        """
        parts = text.split(",") if text.strip() else []
        if len(parts) > _MOST_PATTERNS:
            raise BadRequestError(f"Invalid option exclude: more than {_MOST_PATTERNS} patterns")
        self._patterns = [_levels(part.strip()) for part in parts]

    def hold(self, path: Sequence[str]) -> bool:
        """Whether a folder is left out.

        Args:
            path: names of the folders from the root to this one, itself included.
        """
        return any(_matches(pattern, path) for pattern in self._patterns)


def _checked(given: Mapping[str, str]) -> Mapping[str, str]:
    unknown = sorted(given.keys() - _DEFAULTS.keys())
    if unknown:
        raise BadRequestError(f"Unknown option: {unknown[0][:80]!r} (known: {', '.join(_DEFAULTS)})")
    options = {**_DEFAULTS, **given}
    if options[_NAMESPACES] not in ("nested", "flat"):
        raise BadRequestError(f"Invalid option {_NAMESPACES}: must be nested or flat")
    if options[_NAME]:
        check_name(options[_NAME], f"option {_NAME}")
    depth = options[_MAX_DEPTH]
    if not (_NUMBER.fullmatch(depth) and 1 <= int(depth) <= _DEEPEST):
        raise BadRequestError(f"Invalid option {_MAX_DEPTH}: must be a number from 1 to {_DEEPEST}")
    return options


def _levels(pattern: str) -> list[_Level]:
    names = pattern.removesuffix("/").split("/")
    if not all(names):
        raise _invalid(pattern, "must be a path below the root, as staging/* or **/tmp")
    if any(name in (".", "..") for name in names):
        raise _invalid(pattern, "must not hold '.' or '..' as a folder")
    if any(_ANY_FOLDERS in name and name != _ANY_FOLDERS for name in names):
        raise _invalid(pattern, "'**' must stand between slashes")
    if _CONTROL.search(pattern):
        raise BadRequestError("Invalid option exclude: holds a control character")
    return [None if name == _ANY_FOLDERS else re.compile(translate(name)) for name in names]


def _matches(pattern: Sequence[_Level], path: Sequence[str]) -> bool:
    # how many folders of the path the levels so far may match
    taken = {0}
    for level in pattern:
        if level is None:
            taken = set(range(min(taken), len(path) + 1))
        else:
            taken = {count + 1 for count in taken if count < len(path) and level.match(path[count])}
        if not taken:
            return False
    return len(path) in taken


def _invalid(pattern: str, reason: str) -> BadRequestError:
    return BadRequestError(f"Invalid option exclude: {pattern[:80]!r} {reason}")
