"""Progress of a reader of the commit log: one position per catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from floecat.errors import BadRequestError

__all__ = ["CommitCursor"]

_LAYOUT = 1


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    catalogs: dict[UUID, int]


class CommitCursor(msgspec.Struct, frozen=True):
    """Position in the commit log.

    Commits are numbered per catalog in the order in which they were committed, without gaps, so "up to n"
    says exactly what was read. A catalog that is not named stands at its start.
    """

    positions: Mapping[UUID, int] = {}
    """Catalog id → version of the last commit that was read."""

    @classmethod
    def parse(cls, text: str | None) -> CommitCursor:
        """Reads a cursor as `to_text` wrote it; nothing or an empty text is the start of every catalog.

        Raises:
            BadRequestError: the text is no cursor, or a later release wrote it.
        """
        if not text:
            return cls()
        try:
            document = msgspec.json.decode(text, type=_Document)
        except (msgspec.MsgspecError, UnicodeError):
            raise BadRequestError(
                "The cursor is not a position in the commit log, which looks like "
                '{"version":1,"catalogs":{"<catalog id>":<commit version>}}'
            ) from None
        if document.version != _LAYOUT:
            raise BadRequestError(f"The cursor has version {document.version}, this release reads {_LAYOUT}")
        if any(position < 0 for position in document.catalogs.values()):
            raise BadRequestError("The cursor names a commit version below 0")
        return cls(document.catalogs)

    def to_text(self) -> str:
        """The cursor as JSON, the same text for the same position."""
        catalogs = {catalog_id: self.positions[catalog_id] for catalog_id in sorted(self.positions)}
        return msgspec.json.encode(_Document(_LAYOUT, catalogs)).decode()

    def position(self, catalog_id: UUID) -> int:
        """Version of the last commit of a catalog that was read, 0 if none was."""
        return self.positions.get(catalog_id, 0)

    def advanced(self, commits: Iterable[tuple[UUID, int]]) -> CommitCursor:
        """The cursor after reading these commits: pairs of catalog id and commit version, in order."""
        return CommitCursor({**self.positions, **dict(commits)})
