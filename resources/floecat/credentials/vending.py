"""Keys for the files of a table: which authority, which locations, which access.

Nothing is written: what is stored and replayed has no keys, and gets them when it is answered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from floecat.clock import Clock
from floecat.credentials.authorities import AdlsMethod, S3Method, StorageAuthority, authority_of
from floecat.credentials.client_config import config_of
from floecat.credentials.key_cache import CurrentKeys, KeyCache
from floecat.credentials.keys import KeyScope
from floecat.credentials.known_authorities import KnownAuthorities
from floecat.entries.calls import Call, VendedCredential
from floecat.entries.entry_locations import PATH_PROPERTIES
from floecat.entries.formats import is_derived
from floecat.entries.lookup import Entry
from floecat.entries.overlaps import NO_ENTRY, Overlaps, metadata_root
from floecat.errors import BadRequestError, LocationNotAllowedError
from floecat.fileio.locations import Location
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.memory_budget import LruCache
from floecat.storage.client_config import config_tag
from floecat.store.database.engine import Connection, Store
from floecat.store.entries.tables import EntryState

__all__ = ["NO_CREDENTIALS", "PendingKeys", "ScopedAuthority", "TablePlaces", "Vended", "Vending"]

NO_CREDENTIALS: Final = "floecat.no-storage-credentials"
"""Configuration for clients: why they get no keys that they asked for."""

_OVERLAPS: Final = (
    "another table or view lies in the locations of this table, so its keys would open the files of both"
    " (floecat.storage.overlapping-locations)"
)

_TOLD_BYTES: Final = 2 << 10
"""About what an answer takes in memory beside its keys."""


class TablePlaces(NamedTuple):
    """Where the files of a table are, and what the caller may do with them."""

    location: str
    property: Callable[[str], str | None]
    may_write: bool
    access_version: int
    """Of the account."""
    entry_id: UUID = NO_ENTRY
    metadata_location: str | None = None
    version: int = 0
    """Of the entry."""

    @classmethod
    def of_entry(cls, entry: Entry[Any]) -> TablePlaces:
        """The places of a table that was looked up for the call."""
        row = entry.row
        # the log and the data of other formats are never ours to write
        may_write = entry.may_write and not is_derived(row.format)
        return cls(
            row.location,
            entry.document.property,
            may_write,
            entry.access_version,
            row.id,
            row.metadata_location,
            row.version,
        )


class ScopedAuthority(NamedTuple):
    """What one authority opens of a table."""

    authority: StorageAuthority
    scope: KeyScope
    prefixes: tuple[str, ...]
    """The locations of the scope as the table spells them."""


class PendingKeys(NamedTuple):
    """What has to be asked for before a client can be told; at least one scope."""

    scopes: Sequence[ScopedAuthority]

    @property
    def waits_for(self) -> str:
        """The id of an authority that is asked."""
        return str(self.scopes[0].authority.id)


class Vended(NamedTuple):
    """What a client is told about the storage of a table."""

    config: Mapping[str, str]
    """Settings, with the keys to the location of the table, if there are some."""
    credentials: tuple[VendedCredential, ...] = ()
    tag: str = ""
    """Tells this from anything else that is told at another time or to others; empty for nothing at all."""
    signs: bool = False
    """Whether the client has its requests signed (`Signing`)."""
    renew_at_ms: int = 0
    """Until when it may be kept; 0 if it may not, or nothing of it changes with time."""

    def __repr__(self) -> str:
        """Without keys."""
        return f"Vended({self.credentials!r}, tag={self.tag!r})"


class Vending:
    """Adds keys to answers. Thread-safe."""

    def __init__(
        self,
        store: Store,
        overlaps: Overlaps,
        known: KnownAuthorities,
        keys: KeyCache,
        told: LruCache[Vended],
        clock: Clock,
    ) -> None:
        """Wires the service.

        Args:
            told: where what was told is kept until its keys are renewed, for any principal.
        """
        self._told = told
        self._clock = clock
        self._store = store
        self._overlaps = overlaps
        self._known = known
        self._keys = keys

    def at_once(self, call: Call, table: TablePlaces, conn: Connection | None = None) -> Vended | PendingKeys:
        """The result of `of`, without waiting for an authority; else what has to be asked for.

        Args:
            conn: reads the authorities where they are not in memory; by default a connection of the store.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        known = self._known.of(call.account_id, table.access_version, conn)
        if not known or "keys" not in call.delegation:
            return cast("Vended", _vended(call, table, known, self._keys.in_memory, ()))
        key = _told_key(call, table)
        told = self._told.get(key)
        if told is None or self._clock.now_ms() >= told.renew_at_ms:
            scopes = _scopes(call, table, known)
            told = self._made(call, table, scopes, self._keys.in_memory)
            if told is None:
                return PendingKeys(scopes)
        return _for_principal(call, told)

    def of(self, call: Call, table: TablePlaces, pending: PendingKeys | None = None) -> Vended:
        """What a client is told about the storage of a table.

        Args:
            pending: what `at_once` has answered for the same.

        Raises:
            AuthorityError: an authority that is responsible makes no keys now.
            BadRequestError: keys for the locations of the table cannot be expressed.
            StoreUnavailableError: the store does not answer.
        """
        found = pending or self.at_once(call, table)
        if isinstance(found, Vended):
            return found
        scopes = found.scopes
        # another request may have made them meanwhile
        told = None if pending is None else self._made(call, table, scopes, self._keys.in_memory)
        if told is None and self.holds_others(call, table, scopes):
            known = self._known.of(call.account_id, table.access_version)
            plain = cast("Vended", _vended(call, table, known, self._keys.in_memory, ()))
            return Vended({**plain.config, NO_CREDENTIALS: _OVERLAPS}, tag=f"{plain.tag}-0")
        return _for_principal(call, told or cast("Vended", self._made(call, table, scopes, self._keys.get)))

    def _made(
        self,
        call: Call,
        table: TablePlaces,
        scopes: Sequence[ScopedAuthority],
        keys_of: Callable[[StorageAuthority, KeyScope], CurrentKeys | None],
    ) -> Vended | None:
        """What anybody with these rights is told, to be told again until keys are renewed."""
        known = self._known.of(call.account_id, table.access_version)
        told = _vended(call, table, known, keys_of, scopes)
        if told is not None and told.renew_at_ms and table.entry_id != NO_ENTRY:
            self._told.put(_told_key(call, table), told, _TOLD_BYTES)
        return told

    def of_new(self, call: Call, metadata: TableMetadata, state: EntryState | None = None) -> Vended:
        """What the creator of a table is told, which it may write; errors are those of `of`.

        Args:
            state: that the entry will have; None if the table is only staged.
        """
        places = self.places_of_new(call, metadata)
        if state is not None:
            places = places._replace(entry_id=state.id, metadata_location=state.metadata_location)
        return self.of(call, places)

    def places_of_new(self, call: Call, metadata: TableMetadata) -> TablePlaces:
        """The places of a table for its creator, before it is there."""
        access_version = self._known.read_version(call.account_id)
        return TablePlaces(metadata.location, metadata.properties.get, True, access_version)

    def config(self, call: Call, location: str, access_version: int) -> Mapping[str, str]:
        """What every client may know about the storage of a location."""
        return _client_config(call, location, self._known.of(call.account_id, access_version))[0]

    def signing_methods(self, account_id: UUID) -> Collection[S3Method]:
        """Where the services are that requests of an account may be signed for."""
        known = self._known.of(account_id, self._known.read_version(account_id))
        methods = (each.method for each in known if each.enabled and isinstance(each.method, S3Method))
        return {
            S3Method(region=each.region, endpoint=each.endpoint, path_style_access=each.path_style_access)
            for each in methods
        }

    def signed_scopes(self, call: Call, table: TablePlaces) -> list[ScopedAuthority]:
        """What the authorities that sign requests open of a table, for a caller who may read it."""
        return _scopes(call, table, self._known.of(call.account_id, table.access_version), _signs)

    def holds_others(self, call: Call, table: TablePlaces, scopes: Sequence[ScopedAuthority]) -> bool:
        """Whether another table or view lies in the locations of a table that authorities open."""
        locations = [str(location) for each in scopes for location in each.scope.locations]
        with self._store.read() as conn:
            return self._overlaps.others_inside(conn, call.catalog, table.entry_id, locations)


def _vended(
    call: Call,
    table: TablePlaces,
    known: tuple[StorageAuthority, ...],
    keys_of: Callable[[StorageAuthority, KeyScope], CurrentKeys | None],
    scopes: Sequence[ScopedAuthority],
) -> Vended | None:
    """None where there are no keys yet."""
    config, main = _client_config(call, table.location, known)
    if not scopes:
        signs = "signing" in call.delegation and main is not None and _signs(main)
        return Vended(config, tag=f"{config_tag(config)}{'-signed' * signs}", signs=signs)
    credentials: list[VendedCredential] = []
    tag, renew_at_ms = f"{table.may_write}|{config_tag(config)}", sys.maxsize
    for authority, scope, prefixes in scopes:
        kept = keys_of(authority, scope)
        if kept is None:
            return None
        told = {**config_of(authority, prefixes[0]), **kept.keys.config}
        credentials += [VendedCredential(prefix, told) for prefix in _prefixes(prefixes, len(scopes))]
        tag += f"|{authority.id}|{authority.version}|{kept.made_at_ms}"
        renew_at_ms = 0 if scope.principal is not None else min(renew_at_ms, kept.renew_at_ms)
        if authority is main:
            config = told
    return Vended(config, tuple(credentials), tag, renew_at_ms=renew_at_ms)


def _told_key(call: Call, table: TablePlaces) -> Hashable:
    """All that what is told with keys hangs on, but for the times of the keys."""
    return (
        table.entry_id.int,
        table.version,
        table.metadata_location,
        table.access_version,
        table.may_write,
        call.catalog.storage,
    )


def _for_principal(call: Call, told: Vended) -> Vended:
    """The same with a tag that no other principal gets, where there are keys."""
    if not told.credentials:
        return told
    digest = blake2b(f"{told.tag}|{call.principal.name}".encode(), digest_size=16)
    return told._replace(tag=digest.hexdigest())


def _client_config(
    call: Call, location: str, known: tuple[StorageAuthority, ...]
) -> tuple[Mapping[str, str], StorageAuthority | None]:
    """What every client may know, and the authority that says it, if one does."""
    root = _usable(call, location) if known else None
    main = None if root is None else authority_of(known, root)
    if main is None:
        return call.catalog.storage.client_config(location), None
    return config_of(main, location), main


def _prefixes(locations: tuple[str, ...], authorities: int) -> list[str]:
    """Prefixes of the files that keys are for, with a slash: the prefix of t1 must not mean t10.

    Of a single authority there is one that holds all locations: Java refuses several when it gets new keys
    (`VendedCredentialsProvider`). It opens no more than the keys do.
    """
    folders = [f"{each.rstrip('/')}/" for each in locations]
    if authorities > 1:
        return folders
    common = os.path.commonprefix(folders)  # noqa: RUF071 - paths are not URIs
    # one that spells its scheme in two ways has none in common
    return [common[: common.rfind("/") + 1]] if "://" in common else folders


def _scopes(
    call: Call,
    table: TablePlaces,
    known: tuple[StorageAuthority, ...],
    serves: Callable[[StorageAuthority], bool] | None = None,
) -> list[ScopedAuthority]:
    found: dict[UUID, tuple[StorageAuthority, dict[Location, str]]] = {}
    for spelled, location in _locations(call, table).items():
        authority = authority_of(known, location)
        if authority is None or not (serves or _makes_keys)(authority):
            continue
        _, spellings = found.setdefault(authority.id, (authority, {}))
        spellings.setdefault(location, spelled)
    scopes = []
    for authority, spellings in found.values():
        outer = [
            location
            for location in sorted(spellings)
            if not any(other.contains(location) for other in spellings if other != location)
        ]
        names = isinstance(authority.method, S3Method) and authority.method.names_principals
        principal = call.principal.name if names else None
        together: list[tuple[Location, ...]] = [tuple(outer)]
        if isinstance(authority.method, AdlsMethod) and authority.method.hierarchical:
            # a key opens one directory; that of the table's own is the last, which is in `config`, too
            own = next(iter(spellings))
            together = sorted(zip(outer, strict=True), key=lambda each: each[0].contains(own))
        for locations in together:
            scope = KeyScope(locations, table.may_write, principal, table.entry_id)
            scopes.append(ScopedAuthority(authority, scope, tuple(spellings[each] for each in locations)))
    return scopes


def _makes_keys(authority: StorageAuthority) -> bool:
    return not isinstance(authority.method, S3Method) or authority.method.role_arn is not None


def _signs(authority: StorageAuthority) -> bool:
    return isinstance(authority.method, S3Method)


def _locations(call: Call, table: TablePlaces) -> dict[str, Location]:
    """The locations of a table that lie where its catalog may use files, by their spelling."""
    paths = (path for name in PATH_PROPERTIES if (path := table.property(name)))
    usable = {each: _usable(call, each) for each in (table.location, *paths)}
    found = {each: location for each, location in usable.items() if location is not None}
    if table.metadata_location is not None:
        spelled = metadata_root(table.metadata_location)
        root = _usable(call, spelled)
        # a file may have been registered from anywhere: it opens no folder that the table lies in
        if root is not None and not any(root.contains(each) for each in found.values()):
            found[spelled] = root
    return found


def _usable(call: Call, location: str) -> Location | None:
    """A location in its one spelling; None if it is malformed, or outside of what the catalog may use."""
    try:
        return call.catalog.storage.with_artifacts.allowed.check_text(location)
    except (BadRequestError, LocationNotAllowedError):
        return None
