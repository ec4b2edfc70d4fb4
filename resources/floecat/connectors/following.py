"""One scan of a connector that follows another catalog: what it finds against what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from floecat.connectors.followed_tables import (
    AnyDocument,
    FetchedDocument,
    Followed,
    FollowedTables,
    FollowingChange,
    uuid_of,
)
from floecat.connectors.scan_reports import FailedTable
from floecat.connectors.selection import Selection
from floecat.connectors.spi import DiscoveredTable, LoadsTables
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, ConflictError, FloecatError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.entries import followed_entries
from floecat.store.entries.followed_entries import FollowedEntry

__all__ = ["Difference", "Following"]


class Difference(NamedTuple):
    """A table or view that differs from what is in the other catalog."""

    identifier: TableIdentifier
    """Its name here, or the one that it would get."""
    address: str
    reason: str
    """What differs, in a few words."""
    since_ms: int | None
    """Time since which it differs, where that is known."""

    @classmethod
    def new(cls, identifier: TableIdentifier, found: DiscoveredTable) -> Difference:
        """A table or view that is not here."""
        return cls(identifier, found.location, "not here", None)


class _Moved(NamedTuple):
    """What was found by a name that was not there, or was another's."""

    found: DiscoveredTable
    identifier: TableIdentifier
    known: FollowedEntry | None
    """The entry that follows it, if there is one."""


class Following:
    """One scan of a connector that finds tables and views of another catalog."""

    def __init__(
        self, followed: FollowedTables, call: Call, row: ConnectorRow, connector: LoadsTables
    ) -> None:
        """Reads what the connector follows already.

        Args:
            call: who scans; asked whether it may make entries.
            row: the connector.
            connector: loads what is found.
        """
        self._followed = followed
        self._call = call
        self._service = Call.of_service(call.principal.name, call.catalog)
        self._row = row
        self._is_full = row.policy.full
        self._connector = connector
        self._selection = Selection(row.policy)
        with followed.store.read() as conn:
            known = followed_entries.of_connector(conn, row.id)
            left = followed_entries.of_no_connector(conn, call.catalog.id)
        self._known = {each.upstream: each for each in known}
        self._left = {(each.kind, each.address): each for each in left}
        """What connectors followed that were deleted: one that finds it at its address follows it on."""
        self._by_uuid = {each.object_uuid.lower(): each for each in known}
        self._seen: set[UUID] = set()
        self._moved: list[_Moved] = []

    def needs(self, found: DiscoveredTable) -> bool:
        """Whether `take` needs what `load` gives."""
        known = self._known_as(found)
        return known is None or not self._is_as_before(found, known)

    def differs(self, found: DiscoveredTable) -> bool:
        """Whether `compare` needs what `load` gives."""
        known = self._known.get(TableIdentifier(found.namespace, found.name))
        return known is not None and found.state != known.state

    def load(self, found: DiscoveredTable) -> FetchedDocument | None:
        """The document of a table or view that was found. Thread-safe.

        Returns:
            `None` if it is still the one that was taken last.

        Raises:
            FloecatError: it cannot be loaded.
        """
        known = self._known.get(TableIdentifier(found.namespace, found.name))
        return self._fetched(found, None if known is None else self._taken(known))

    def take(
        self,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        loaded: Callable[[], FetchedDocument | None],
    ) -> Followed | None:
        """Follows a table or view that was found.

        Args:
            identifier: its name here, if it is new.
            loaded: gives what `load` gives.

        Returns:
            What became of it; `None` if names changed upstream, which `finish` knows.

        Raises:
            FloecatError: it cannot be followed. An entry that there is stays as it was.
        """
        known = self._known_as(found)
        if known is None:
            return self._take_new(found, identifier, loaded)
        if known.entry_id in self._seen:
            raise BadRequestError(f"The other catalog has two tables or views of the name {identifier}")
        self._seen.add(known.entry_id)
        if self._is_as_before(found, known):
            return self._unchanged(known)
        try:
            document = loaded()
            if document is None:
                return self._unchanged(known)
            metadata = document.read(self._call, found.kind)
            object_uuid = uuid_of(metadata)
            if object_uuid.lower() == known.object_uuid.lower() and found.kind == known.kind:
                return self._put(found, known.identifier, document, metadata, known)
        except FloecatError as error:
            self._note_problem(known, error.message)
            raise
        # the table that had the name may be found by another one
        self._seen.discard(known.entry_id)
        self._moved.append(_Moved(found, identifier, self._of_uuid(object_uuid, found)))
        return None

    def compare(
        self,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        loaded: Callable[[], FetchedDocument | None],
    ) -> Difference | None:
        """The difference between what was found and what is here; changes nothing.

        Args:
            identifier: its name here, if it is new.
            loaded: gives what `load` gives.
        """
        known = self._known.get(TableIdentifier(found.namespace, found.name))
        if known is None:
            return Difference.new(identifier, found)
        self._seen.add(known.entry_id)
        try:
            document = None if found.state == known.state else loaded()
            if document is None or document.state == known.state:
                return None
            theirs = document.read(self._call, found.kind)
        except FloecatError as error:
            return Difference(known.identifier, known.address, error.message, known.differs_at_ms)
        if uuid_of(theirs).lower() != known.object_uuid.lower():
            return Difference(known.identifier, known.address, "another table has its name", None)
        _, ours = self._followed.current(known.entry_id)
        if ours is None or isinstance(theirs, ViewMetadata):
            return Difference(known.identifier, known.address, "another version", None)
        return Difference(known.identifier, known.address, *_behind(ours, theirs))

    def missing(self) -> Iterator[Difference]:
        """What is here and was not found, once everything was compared."""
        for each in self._known.values():
            if each.entry_id not in self._seen:
                is_taken = self._selection.takes(each.upstream.namespace, each.upstream.name)
                reason = "gone there" if is_taken else "left out by the policy"
                yield Difference(each.identifier, each.address, reason, each.gone_at_ms)

    def finish(self, *, is_complete: bool) -> Iterator[Followed | FailedTable]:
        """Renames what was renamed upstream, and marks or removes what is gone.

        Args:
            is_complete: whether everything upstream was found; otherwise nothing is gone.

        Yields:
            What became of each, or why that failed.
        """
        yield from self._settle()
        if not is_complete:
            return
        now_ms = self._followed.clock.now_ms()
        missing = [each for each in self._known.values() if each.entry_id not in self._seen]
        newly = [each.entry_id for each in missing if each.gone_at_ms is None]
        if newly:
            self._followed.store.run(lambda conn: followed_entries.set_gone(conn, newly, now_ms))
        for each in missing:
            if now_ms - (each.gone_at_ms or now_ms) < self._followed.grace_ms:
                yield _followed("gone", each)
                continue
            try:
                self._followed.remove(self._service, each)
                yield _followed("removed", each)
            except FloecatError as error:
                yield FailedTable(each.address, error, each.identifier)

    def _taken(self, known: FollowedEntry) -> str | None:
        """The state that was taken last; `None` for what is to be read in any case."""
        return None if self._is_full or known.problem is not None else known.state

    def _is_as_before(self, found: DiscoveredTable, known: FollowedEntry) -> bool:
        return found.state is not None and found.state == self._taken(known)

    def _take_new(
        self,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        loaded: Callable[[], FetchedDocument | None],
    ) -> Followed | None:
        document, metadata = self._read_new(found, identifier, loaded())
        moved = self._of_uuid(uuid_of(metadata), found)
        if moved is not None and moved.entry_id not in self._seen:
            self._moved.append(_Moved(found, identifier, moved))
            return None
        return self._put(found, identifier, document, metadata, None)

    def _fetched(self, found: DiscoveredTable, known_state: str | None) -> FetchedDocument | None:
        document = self._connector.load(found, known_state)
        return None if document is None else self._followed.fetch(self._call, document)

    def _read_new(
        self, found: DiscoveredTable, identifier: TableIdentifier, document: FetchedDocument | None
    ) -> tuple[FetchedDocument, AnyDocument]:
        """What was found by a name that nothing had, with its document."""
        if document is None:
            raise BadRequestError(f"The connector has no metadata of {identifier}, which is new")
        return document, document.read(self._call, found.kind)

    def _put(
        self,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        document: FetchedDocument,
        metadata: AnyDocument,
        known: FollowedEntry | None,
    ) -> Followed:
        return self._followed.put(self._call, self._row.id, found, identifier, document, metadata, known)

    def _known_as(self, found: DiscoveredTable) -> FollowedEntry | None:
        """The entry that follows what has a name upstream."""
        upstream = TableIdentifier(found.namespace, found.name)
        left = self._left.get((found.kind, found.location))
        if left is not None and upstream not in self._known:
            # no state is its own, so that it is read, and written as one of this connector
            self._known[upstream] = left._replace(state="")
        return self._known.get(upstream)

    def _of_uuid(self, object_uuid: str, found: DiscoveredTable) -> FollowedEntry | None:
        known = self._by_uuid.get(object_uuid.lower())
        return known if known is not None and known.kind == found.kind else None

    def _settle(self) -> Iterator[Followed | FailedTable]:
        """Takes what has another name upstream by now, or the name of another one: those make room first."""
        moving: set[UUID] = set()
        waiting = []
        for each in self._moved:
            known = each.known
            if known is not None and (known.entry_id in self._seen or known.entry_id in moving):
                known = None  # another one has its UUID, too: that is refused
            if known is not None:
                moving.add(known.entry_id)
            waiting.append(each._replace(known=known))
        # none of them is gone, whatever becomes of it
        self._seen |= moving
        while waiting:
            blocked = []
            for each in waiting:
                before = self._known.get(TableIdentifier(each.found.namespace, each.found.name))
                needs_name = each.known is None or self._has_its_name(each.known)
                if before is not None and before.entry_id in moving and needs_name:
                    blocked.append(each)
                    continue
                try:
                    if before is not None and before.entry_id not in self._seen:
                        self._followed.remove(self._service, before)
                        self._seen.add(before.entry_id)
                    yield self._take_moved(*each)
                except FloecatError as error:
                    yield self._not_moved(each, error)
                moving -= {each.known.entry_id} if each.known else set()
            if len(blocked) == len(waiting):
                for each in blocked:
                    told = "The other catalog exchanged names of tables: rename them here as they are there"
                    yield self._not_moved(each, ConflictError(told))
                return
            waiting = blocked

    def _not_moved(self, moved: _Moved, error: FloecatError) -> FailedTable:
        if moved.known is not None:
            self._note_problem(moved.known, error.message)
        return FailedTable(moved.found.location, error, moved.identifier)

    def _take_moved(
        self, found: DiscoveredTable, identifier: TableIdentifier, known: FollowedEntry | None
    ) -> Followed:
        document, metadata = self._read_new(found, identifier, self._fetched(found, None))
        # who renamed it here keeps that name
        if known is not None and self._has_its_name(known):
            self._followed.rename(self._service, known, identifier)
            known = known._replace(identifier=identifier)
        put = self._put(found, identifier, document, metadata, known)
        return put if known is None else put._replace(change="renamed")

    def _has_its_name(self, known: FollowedEntry) -> bool:
        """Whether an entry has the name here that it has upstream."""
        namespace = (*self._row.namespace, *known.upstream.namespace)
        return known.identifier == TableIdentifier(namespace, known.upstream.name)

    def _unchanged(self, known: FollowedEntry) -> Followed:
        if known.gone_at_ms is not None:
            self._followed.store.run(lambda conn: followed_entries.set_gone(conn, [known.entry_id], None))
        return _followed("unchanged", known)

    def _note_problem(self, known: FollowedEntry, problem: str) -> None:
        since = known.differs_at_ms or self._followed.clock.now_ms()
        if problem != known.problem:
            self._followed.store.run(
                lambda conn: followed_entries.note_problem(conn, known.entry_id, problem[:1000], since)
            )


def _behind(ours: TableMetadata, theirs: TableMetadata) -> tuple[str, int | None]:
    """How a table here is behind the one upstream, and since when."""
    known = {each.snapshot_id for each in ours.snapshots}
    newer = [each.timestamp_ms for each in theirs.snapshots if each.snapshot_id not in known]
    reasons = []
    if newer:
        reasons.append(f"behind by {len(newer)} snapshot{'s' * (len(newer) > 1)}")
    if ours.current_schema.struct != theirs.current_schema.struct:
        reasons.append("another schema")
    return ", ".join(reasons) or "other metadata", min(newer, default=theirs.last_updated_ms)


def _followed(change: FollowingChange, known: FollowedEntry) -> Followed:
    return Followed(change, known.identifier, known.entry_id, known.address, known.object_uuid)
