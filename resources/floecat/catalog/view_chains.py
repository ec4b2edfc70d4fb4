"""Tables that are read through views: with the rights of a view's owner, if the owner has set that.

An engine says by which views it came to a table (`referenced-by` of the Iceberg REST specification). It can
say what it likes, so only those that the settings trust are believed, and only as far as the SQL of the
views goes: it has to have the name of what it is said to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Authorizer, Check, FoundSecurable, Privilege
from floecat.auth.principals import Principal
from floecat.entries.calls import Call, EntryKind
from floecat.entries.lookup import Entries, Entry
from floecat.errors import FloecatError, ForbiddenError, NotFoundError
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection, Store

__all__ = ["ViewChains"]

_READS: dict[EntryKind, Privilege] = {"table": Privilege.READ_TABLE, "view": Privilege.READ_VIEW}
_NOBODY = UUID(int=0)


class ViewChains:
    """Finds with whose rights something is read."""

    def __init__(self, store: Store, entries: Entries, trusted: Sequence[str]) -> None:
        """Takes the names of principals, and of clients of tokens, whose word is taken."""
        self._store = store
        self._entries = entries
        self._trusted = frozenset(trusted)

    def trusts(self, principal: Principal) -> bool:
        """Whether a principal is, or comes by, an engine that is trusted."""
        return bool(self._trusted) and not self._trusted.isdisjoint({principal.name, *principal.clients})

    def through(
        self, call: Call, chain: Sequence[TableIdentifier], kind: EntryKind, read: TableIdentifier
    ) -> Call:
        """The call that reads a table or view through others; the same call where that changes nothing.

        Args:
            call: of an engine that is trusted.
            chain: views, each of which reads the next one, and the last one what is read. The first is read
                by the principal of the call, and each other by the owner of the one before, if that is set
                there, else by the same as that one.
            kind: of what is read.
            read: its name.
        """
        checks = [(Privilege.USE_CATALOG, call.on_catalog()), (_READS[kind], call.on_entry(kind, read))]

        def reading(reader: Principal, why: str) -> Call:
            return msgspec.structs.replace(
                call, authorizer=_ReadThrough(call.authorizer, reader, checks, why)
            )

        reader, view = call, None
        for each, following in zip(chain, (*chain[1:], read), strict=True):
            found = self._find(reader, each)
            if found is None:
                why = f"view {each}, by which it is said to be read, is missing or may not be read"
                return reading(call.principal, why)
            if found.row.definer:
                reader, view = self._owner(call, found), each
            if view is not None and not _mentions(found, following):
                return reading(call.principal, f"view {each} does not mention {following}")
        if view is None:
            return call
        return reading(reader.principal, f"it is read with the rights of the owner of view {view}")

    def _find(self, reader: Call, view: TableIdentifier) -> Entry[ViewMetadata] | None:
        try:
            return self._entries.find_view(reader, view, Privilege.READ_VIEW)
        except (ForbiddenError, NotFoundError):
            return None

    def _owner(self, call: Call, view: Entry[ViewMetadata]) -> Call:
        with self._store.read() as conn:
            owner = call.authorizer.as_owner(conn, call.account_id, view.row.owner_id or _NOBODY)
        return msgspec.structs.replace(call, principal=owner)


class _ReadThrough(Authorizer):
    """Asks about somebody else where one thing is read, and about the principal otherwise."""

    def __init__(self, decides: Authorizer, reader: Principal, checks: Sequence[Check], why: str) -> None:
        """Takes whom to ask about, all that the reader needs, the last one of them being to read."""
        self._decides = decides
        self._reader = reader
        self._checks = checks
        self._why = why

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        answers = list(self._decides.allowed(principal, checks, found))
        if self._checks[-1] in checks and self._reader is not principal:
            may = all(self._decides.allowed(self._reader, self._checks, found))
            answers = [
                may if check == self._checks[-1] else answer
                for check, answer in zip(checks, answers, strict=True)
            ]
        return answers

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        return self._decides.owner(conn, principal)

    def refusal(self, principal: Principal, check: Check, /) -> FloecatError:
        if check != self._checks[-1]:
            return self._decides.refusal(principal, check)
        answers = self._decides.allowed(self._reader, self._checks)
        lacks = next((each for each, may in zip(self._checks, answers, strict=True) if not may), check)
        error = self._decides.refusal(self._reader, lacks)
        return ForbiddenError(f"{error.message}: {self._why}") if isinstance(error, ForbiddenError) else error


def _mentions(view: Entry[ViewMetadata], name: TableIdentifier) -> bool:
    """Whether the SQL of a view, in any dialect, has the name of a table or view, however it is quoted."""
    wanted = name.name.casefold()
    forms = {wanted, *(wanted.replace(quote, quote * 2) for quote in "\"`'")}
    texts = [
        each.sql.casefold() for each in view.document.parsed().current_version.representations if each.sql
    ]
    return any(form in text for form in forms for text in texts)
