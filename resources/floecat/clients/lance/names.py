"""Identifiers of Lance Namespace, and what they are in URLs and in locations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from lance_namespace.errors import InvalidInputError

from floecat.errors import BadRequestError
from floecat.identifiers.encoding import UNIT_SEPARATOR, encode_segment
from floecat.identifiers.namespace import check_name

__all__ = ["NamespaceName", "TableName", "namespace_name", "table_location", "table_name"]

_LONGEST_SEGMENT: Final = 255


class NamespaceName(NamedTuple):
    """A warehouse, and the levels of a namespace in it; none for its root."""

    warehouse: str
    levels: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path below the prefix of the warehouse."""
        joined = encode_segment(UNIT_SEPARATOR).join(encode_segment(level) for level in self.levels)
        return f"namespaces/{joined}"

    @property
    def parameter(self) -> str:
        """Value of the query parameter `parent`, not encoded."""
        return UNIT_SEPARATOR.join(self.levels)


class TableName(NamedTuple):
    """A table in a namespace."""

    namespace: NamespaceName
    name: str

    @property
    def path(self) -> str:
        """Path below the prefix of the warehouse."""
        return f"{self.namespace.path}/tables/{encode_segment(self.name)}"

    def __str__(self) -> str:
        """Warehouse, levels and name, joined by dots."""
        return ".".join((self.namespace.warehouse, *self.namespace.levels, self.name))


def namespace_name(id: Sequence[str] | None, warehouse: str | None, least_levels: int) -> NamespaceName:
    """Checks and splits ``[warehouse, level, ...]``.

    Args:
        id: the identifier.
        warehouse: the only warehouse of the connection; None for any.
        least_levels: how many levels must follow the warehouse.

    Raises:
        InvalidInputError: it is too short, names another warehouse, or a name is not usable.
    """
    found, *levels = id or ("",)
    if len(levels) < least_levels or not found:
        wanted = ["warehouse", "namespace", "table"][: least_levels + 1]
        raise InvalidInputError(f"The identifier must have at least: {', '.join(wanted)}")
    if warehouse is not None and found != warehouse:
        raise InvalidInputError(f"This connection is for the warehouse {warehouse!r}, not {found!r}")
    for name in (found, *levels):
        _check(name)
    return NamespaceName(found, tuple(levels))


def table_name(id: Sequence[str] | None, warehouse: str | None) -> TableName:
    """Checks and splits ``[warehouse, level, ..., table]``, with at least one level.

    Raises:
        InvalidInputError: as `namespace_name`.
    """
    whole = namespace_name(id, warehouse, 2)
    return TableName(NamespaceName(whole.warehouse, whole.levels[:-1]), whole.levels[-1])


def table_location(root: str, table: TableName) -> str:
    """``{root}/{warehouse}/{level}/.../{table}``, where names are escaped that are not plain file names."""
    names = (table.namespace.warehouse, *table.namespace.levels, table.name)
    return "/".join((root.rstrip("/"), *map(_location_segment, names)))


def _check(name: str) -> None:
    try:
        check_name(name, "name in the identifier", reserved=UNIT_SEPARATOR)
    except BadRequestError as error:
        raise InvalidInputError(error.message) from None


def _location_segment(name: str) -> str:
    """The name as one folder, reversibly: ``~XX`` for bytes other than letters, digits and ``._-``.

    Percent signs would not do: Lance decodes them in file URLs, the catalog keeps them.
    """
    segment = encode_segment(name.replace("~", "\0")).replace("%00", "~7E").replace("%", "~")
    if segment in (".", ".."):
        return segment.replace(".", "~2E")
    if len(segment) > _LONGEST_SEGMENT:
        return f"{segment[:180]}~~{hashlib.sha256(name.encode()).hexdigest()}"
    return segment
