"""Names as paths and queries spell them, encoded; the spelling may be ambiguous.

A raw `+` in a path is a plus to clients that follow RFC 3986 and a space to those that form-encode. The
literal reading is tried first, then the other; a path without one costs nothing here. A reading that the
principal may not know of counts as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call
from floecat.errors import BadRequestError
from floecat.identifiers.encoding import decode_segment
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.identifiers.separator import NamespaceSeparator
from floecat.store import namespaces, tables
from floecat.store.database.engine import Store

__all__ = ["Resolver"]


class Resolver:
    """Chooses among the readings of a name the one that exists."""

    def __init__(self, store: Store, separator: NamespaceSeparator) -> None:
        self._store = store
        self._separator = separator

    def namespace(self, call: Call, segment: str) -> Namespace:
        """The namespace of a segment of a path: the first reading that exists, else the first one.

        Raises:
            BadRequestError: a level is empty or is not valid percent-encoded UTF-8.
        """
        return self._existing(call, self._separator.split_path(segment))

    def entry(self, call: Call, namespace: str, name: str) -> TableIdentifier:
        """The table or view of two segments of a path: the first reading that exists, else the first one.

        Raises:
            BadRequestError: a segment is not valid percent-encoded UTF-8, or a level is empty.
        """
        spelled = decode_segment(name)
        names = (spelled.literal,) if spelled.form is None else (spelled.literal, spelled.form)
        candidates = self._separator.split_path(namespace)
        readings = [TableIdentifier(levels, each) for levels in candidates for each in names]
        if len(readings) > 1:
            allowed = call.allowed(
                [
                    check
                    for reading in readings
                    for check in (
                        (Privilege.LIST_TABLE, call.on_entry("table", reading)),
                        (Privilege.LIST_VIEW, call.on_entry("view", reading)),
                    )
                ]
            )
            with self._store.read() as conn:
                for reading, *kinds in zip(readings, allowed[::2], allowed[1::2], strict=True):
                    row = tables.find(conn, call.catalog.id, reading) if any(kinds) else None
                    if row is not None and kinds[row.kind == "view"]:
                        return reading
        return readings[0]

    def parent(self, call: Call, value: str) -> Namespace | None:
        """The namespace of the query parameter `parent`; `None` if it is empty.

        PyIceberg encodes each level once more than the specification says. Its reading counts where no
        namespace has the literal name.

        Raises:
            BadRequestError: the value is not valid percent-encoded UTF-8.
        """
        levels = self._separator.split_parameter(value)
        return self._existing(call, _encoded_once_or_twice(levels)) if levels else None

    def _existing(self, call: Call, candidates: Sequence[Namespace]) -> Namespace:
        if len(candidates) > 1:
            allowed = call.allowed(
                [(Privilege.LIST_SCHEMA, call.on_namespace(candidate)) for candidate in candidates]
            )
            with self._store.read() as conn:
                for candidate in compress(candidates, allowed):
                    if namespaces.get(conn, call.catalog.id, candidate) is not None:
                        return candidate
        return candidates[0]


def _encoded_once_or_twice(levels: Namespace) -> list[Namespace]:
    if not any("%" in level for level in levels):
        return [levels]
    try:
        return [levels, tuple(decode_segment(level).literal for level in levels)]
    except BadRequestError:
        return [levels]
