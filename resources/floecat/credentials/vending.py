"""Keys for the files of a table: which authority, which locations, which access.

Nothing is written: what is stored and replayed has no keys, and gets them when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from floecat.credentials.authorities import S3Method, StorageAuthority, authority_of
from floecat.credentials.client_config import config_of
from floecat.credentials.key_cache import KeptKeys, KeyCache
from floecat.credentials.keys import KeyScope
from floecat.credentials.known_authorities import KnownAuthorities
from floecat.entries.calls import Call, StorageCredential
from floecat.entries.lookup import Entry
from floecat.errors import BadRequestError, LocationNotAllowedError
from floecat.fileio.locations import Location
from floecat.iceberg.metadata.table_metadata import TableMetadata

__all__ = ["Grant", "TablePlaces", "Vended", "Vending"]

_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties of tables that say where files go (Apache Iceberg, "Write properties")."""


class TablePlaces(NamedTuple):
    """Where the files of a table are, and what the caller may do with them."""

    location: str
    property: Callable[[str], str | None]
    may_write: bool
    access_version: int
    """Of the account."""
    entry_id: UUID | None = None
    """None for a table that is only staged."""

    @classmethod
    def of_entry(cls, entry: Entry[Any]) -> TablePlaces:
        """The places of a table that was looked up for the call."""
        row = entry.row
        # the log and the data of other formats are never ours to write
        may_write = entry.may_write and row.format == "iceberg"
        return cls(row.location, entry.document.property, may_write, entry.access_version, row.id)

    @classmethod
    def of_staged(cls, metadata: TableMetadata, access_version: int) -> TablePlaces:
        """The places of a table that its creator is about to write."""
        return cls(metadata.location, metadata.properties.get, True, access_version)


class Grant(NamedTuple):
    """What one authority opens of a table."""

    authority: StorageAuthority
    scope: KeyScope
    prefixes: tuple[str, ...]
    """The locations of the scope as the table spells them."""


class Vended(NamedTuple):
    """What a client is told about the storage of a table."""

    config: Mapping[str, str] | None
    """Settings, with the keys to the location of the table; None if no authority makes keys for it."""
    credentials: tuple[StorageCredential, ...] = ()
    tag: str = ""
    """Names the keys and whom they are for; empty without keys."""


_NOTHING = Vended(None)


class Vending:
    """Adds keys to answers. Thread-safe."""

    def __init__(self, known: KnownAuthorities, keys: KeyCache) -> None:
        self._known = known
        self._keys = keys

    def at_once(self, call: Call, table: TablePlaces) -> Vended | None:
        """The result of `of` from memory; None if something has to be read or made."""
        known = self._known.in_memory(call.account_id, table.access_version)
        return None if known is None else self._vended(call, table, known, self._keys.in_memory)

    def of(self, call: Call, table: TablePlaces) -> Vended:
        """What a client is told about the storage of a table.

        Raises:
            AuthorityError: an authority that is responsible makes no keys now.
            BadRequestError: keys for the locations of the table cannot be expressed.
            StoreUnavailableError: the store does not answer.
        """
        known = self._known.of(call.account_id, table.access_version)
        vended = self._vended(call, table, known, self._keys.get)
        return vended or _NOTHING

    def grants(self, call: Call, table: TablePlaces) -> list[Grant]:
        """What the authorities open of a table, for a caller who may read it."""
        return _grants(call, table, self._known.of(call.account_id, table.access_version))

    def _vended(
        self,
        call: Call,
        table: TablePlaces,
        known: tuple[StorageAuthority, ...],
        keys_of: Callable[[StorageAuthority, KeyScope], KeptKeys | None],
    ) -> Vended | None:
        root = _usable(call, table.location) if known else None
        main = None if root is None else authority_of(known, root)
        config = None if main is None else config_of(main, table.location)
        if not known or "keys" not in call.delegation:
            return _NOTHING if config is None else Vended(config)
        grants = _grants(call, table, known)
        if not grants:
            return Vended(config)
        credentials = []
        digest = blake2b(f"{call.principal.name}|{table.may_write}".encode(), digest_size=16)
        for authority, scope, prefixes in grants:
            kept = keys_of(authority, scope)
            if kept is None:
                return None
            told = {**config_of(authority, prefixes[0]), **kept.keys.config}
            credentials += [StorageCredential(f"{prefix.rstrip('/')}/", told) for prefix in prefixes]
            digest.update(f"|{authority.id}|{authority.version}|{kept.made_at_ms}".encode())
            if authority is main:
                config = told
        return Vended(config, tuple(credentials), digest.hexdigest())


def _grants(call: Call, table: TablePlaces, known: tuple[StorageAuthority, ...]) -> list[Grant]:
    found: dict[UUID, tuple[StorageAuthority, dict[Location, str]]] = {}
    for spelled, location in _locations(call, table).items():
        authority = authority_of(known, location)
        if authority is None or not _makes_keys(authority):
            continue
        _, spellings = found.setdefault(authority.id, (authority, {}))
        spellings.setdefault(location, spelled)
    grants = []
    for authority, spellings in found.values():
        outer = [
            location
            for location in sorted(spellings)
            if not any(other.contains(location) for other in spellings if other != location)
        ]
        names = isinstance(authority.method, S3Method) and authority.method.names_principals
        scope = KeyScope(tuple(outer), table.may_write, call.principal.name if names else None)
        grants.append(Grant(authority, scope, tuple(spellings[location] for location in outer)))
    return grants


def _makes_keys(authority: StorageAuthority) -> bool:
    return not isinstance(authority.method, S3Method) or authority.method.role_arn is not None


def _locations(call: Call, table: TablePlaces) -> dict[str, Location]:
    """The locations of a table that lie where its catalog may use files, by their spelling."""
    spelled = [table.location, *(path for name in _PATHS if (path := table.property(name)))]
    usable = {each: _usable(call, each) for each in spelled}
    return {each: location for each, location in usable.items() if location is not None}


def _usable(call: Call, location: str) -> Location | None:
    """A location in its one spelling; None if it is malformed, or outside of what the catalog may use."""
    try:
        return call.catalog.allowed.check_text(location)
    except (BadRequestError, LocationNotAllowedError):
        return None
