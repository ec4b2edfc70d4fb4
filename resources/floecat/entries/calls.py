"""Calls of front ends to services, and the pages and labels that they get back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Securable
from floecat.auth.principals import Principal
from floecat.compression.pieces import Piece
from floecat.errors import BadRequestError
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.catalogs.audits import Audit
from floecat.store.entries.tables import EntryState
from floecat.store.record_pages import Page

__all__ = [
    "IDEMPOTENCY_KEY",
    "Audit",
    "Call",
    "Catalog",
    "Delegation",
    "EntryKind",
    "FieldLabels",
    "Labels",
    "LoadedTable",
    "LoadedView",
    "Page",
    "PageRequest",
    "RequestKey",
    "VendedCredential",
    "canonical_json",
    "with_request_key",
]

IDEMPOTENCY_KEY = "idempotency-key"
"""Name of the header or metadata entry that carries the key (Iceberg REST specification)."""

_LONGEST_KEY = 255

EntryKind: TypeAlias = Literal["table", "view"]
"""The kind of a name in a namespace."""

Delegation: TypeAlias = Literal["keys", "signing"]
"""How a client lets its access to storage be delegated: it takes keys, or has its requests signed."""


class Catalog(msgspec.Struct, frozen=True):
    """A catalog: the thing that a prefix or a warehouse names."""

    id: UUID
    account_id: UUID
    name: str
    storage_location: str
    """Root of default locations, without a trailing slash."""
    storage: CatalogStorage
    """Storage of its files, the locations it may use and what clients are told; holds `storage_location`."""
    properties: Mapping[str, str] = {}
    allowed_locations: tuple[str, ...] = ()
    """Further roots of this catalog alone; `allowed` has those that catalogs share, too."""
    protected: bool = False
    """Whether it may not be removed; a removal looks in the store."""
    clients_choose: bool = True
    """Whether clients may choose locations in it."""
    schema_separator: str | None = None
    """Between the levels of its namespaces, where they are written as one text; None in a flat catalog."""
    audit: Audit = Audit()

    @property
    def allowed(self) -> AllowedLocations:
        """The locations where tables and views of this catalog may live."""
        return self.storage.allowed


class RequestKey(msgspec.Struct, frozen=True):
    """An idempotency key together with what it was sent for.

    Keys are scoped by principal and operation; `request_hash` tells a retry from a reuse.
    """

    key: str
    operation: str
    request_hash: str


class Call(Actor, frozen=True):
    """A call: the principal, its catalog and rights, the idempotency key, and what the client takes."""

    catalog: Catalog
    request: RequestKey | None = None
    delegation: frozenset[Delegation] = frozenset()

    @classmethod
    def of_service(cls, name: str, catalog: Catalog) -> Call:
        """A call of Floecat's own work or of an operator, who may do everything in the catalog.

        Args:
            name: what the commit log calls the principal.
        """
        return cls(Principal(name, catalog.account_id), AllowAll(), catalog)

    def on_catalog(self) -> Securable:
        """The catalog, as privileges are asked for it."""
        return Securable("catalog", self.catalog.name)

    def on_namespace(self, namespace: Namespace) -> Securable:
        """A namespace of the catalog, as privileges are asked for it."""
        return Securable("namespace", self.catalog.name, namespace)

    def on_entry(self, kind: EntryKind, identifier: TableIdentifier) -> Securable:
        """A table or view of the catalog, as privileges are asked for it."""
        return Securable(kind, self.catalog.name, identifier.namespace, identifier.name)


class PageRequest(msgspec.Struct, frozen=True):
    """The part of a listing that is wanted.

    A `token` of `None` asks for everything in one answer, an empty one for the first page
    (Iceberg REST specification, `PageToken`).
    """

    token: str | None = None
    size: int | None = None


class FieldLabels(msgspec.Struct, frozen=True, rename="kebab"):
    """Labels of a column, which the current schema need not have."""

    field_id: int
    labels: Mapping[str, str]


class Labels(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The labels of a table or view beside its metadata (Iceberg REST specification, `Labels`)."""

    object_labels: Mapping[str, str] = {}
    fields: Sequence[FieldLabels] = ()


class VendedCredential(msgspec.Struct, frozen=True):
    """Keys for the files below a prefix (Iceberg REST specification, `StorageCredential`)."""

    prefix: str
    config: Mapping[str, str]

    def __repr__(self) -> str:
        """Without the keys."""
        return f"VendedCredential({self.prefix!r})"


class LoadedTable(msgspec.Struct, frozen=True):
    """A table as a front end renders it."""

    pieces: Sequence[Piece]
    """The metadata document, JSON, in pieces that need not be joined; empty when `not_modified`."""
    metadata_location: str | None
    """`None` for a staged table: no file exists yet."""
    etag: str | None = None
    config: Mapping[str, str] = {}
    """Client-safe settings of the storage that the table lives in."""
    not_modified: bool = False
    """The caller's copy is current."""
    state: EntryState | None = None
    """The state of the entry that has this metadata; `None` where it is unknown."""
    is_derived: bool = False
    """The metadata file is derived from another format's log: it can be deleted and rebuilt."""
    table_uuid: str | None = None
    """UUID of the table, where it is known without reading the document."""
    labels: Labels | None = None
    storage_credentials: Sequence[VendedCredential] = ()
    """Keys, which `config` has too then; never kept or logged."""
    signs: bool = False
    """Whether the client has its requests to the storage signed."""

    def __repr__(self) -> str:
        """Without document and keys."""
        return f"LoadedTable({self.metadata_location!r}, etag={self.etag!r})"

    @property
    def metadata(self) -> bytes:
        """The metadata document in one piece."""
        return b"".join(self.pieces)

    @property
    def size_bytes(self) -> int:
        """Length of the metadata document."""
        return sum(map(len, self.pieces))


class LoadedView(msgspec.Struct, frozen=True):
    """A view as a front end renders it."""

    metadata: bytes
    metadata_location: str
    config: Mapping[str, str] = {}
    etag: str | None = None
    """Names this state; the REST specification defines no entity tags of views."""
    labels: Labels | None = None


def with_request_key(
    call: Call, key: str | None, operation: str, target: Sequence[bytes], body: bytes
) -> Call:
    """The call under an idempotency key, if there is one.

    Args:
        key: value of `IDEMPOTENCY_KEY`.
        operation: name of the operation, which has keys of its own.
        target: what the request is about beside its body, as path and query: part of its hash.
        body: JSON, or another encoding in which equal requests are equal bytes.

    Raises:
        BadRequestError: the key is malformed.
    """
    if key is None:
        return call
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise BadRequestError(
            f"Invalid Idempotency-Key: send a UUID (at most {_LONGEST_KEY} printable characters)"
        )
    digest = sha256()
    for part in (operation.encode(), *target, canonical_json(body)):
        digest.update(b"%d:%b" % (len(part), part))
    return msgspec.structs.replace(call, request=RequestKey(key, operation, digest.hexdigest()))


def canonical_json(body: bytes) -> bytes:
    """The body with sorted keys and no insignificant white space, so that equal requests are equal bytes.

    A body that is not JSON is returned as it is; its decoder refuses it.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="sorted") if body else b""
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return body
