"""Bodies of requests and answers, as the REST specification spells them.

Some bodies are structs of the kernel: `CreateTable`, `CreateView`, `PlanTableScan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from floecat.entries.calls import Page
from floecat.iceberg.requirements import TableRequirement
from floecat.iceberg.updates import TableUpdate
from floecat.iceberg.views.view_updates import ViewRequirement, ViewUpdate
from floecat.identifiers.namespace import TableIdentifier

__all__ = [
    "CatalogConfig",
    "CommitTableRequest",
    "CommitTransactionRequest",
    "CommitViewRequest",
    "CreateNamespaceRequest",
    "FetchScanTasksRequest",
    "ListFunctionsResponse",
    "ListNamespacesResponse",
    "ListTablesResponse",
    "OAuthError",
    "RegisterTableRequest",
    "RegisterViewRequest",
    "RenameTableRequest",
    "SignRequest",
    "SignedRequestResponse",
    "TableChangeRequest",
    "UpdateNamespacePropertiesRequest",
    "WireIdentifier",
    "list_tables",
]


class CatalogConfig(msgspec.Struct, rename="kebab"):
    """The configuration that a client reads first."""

    defaults: dict[str, str]
    """Applied below the client's own properties."""

    overrides: dict[str, str]
    """Applied above them."""

    endpoints: list[str]
    """Endpoints that are served, as `<verb> <path template>`."""

    idempotency_key_lifetime: str
    """ISO-8601. Its presence tells clients that `Idempotency-Key` works."""


class CreateNamespaceRequest(msgspec.Struct):
    """A namespace to create. Missing parents are created with it."""

    namespace: tuple[str, ...]
    properties: dict[str, str] | None = None


class ListNamespacesResponse(msgspec.Struct, rename="kebab"):
    """Namespaces, each with all its levels."""

    namespaces: Sequence[tuple[str, ...]]
    next_page_token: str | None = None


class UpdateNamespacePropertiesRequest(msgspec.Struct):
    """Properties to set and keys to remove."""

    removals: list[str] | None = None
    updates: dict[str, str] | None = None


class WireIdentifier(msgspec.Struct):
    """A table or view by namespace and name (`TableIdentifier`)."""

    namespace: tuple[str, ...]
    name: str

    def to_identifier(self) -> TableIdentifier:
        """The kernel's form."""
        return TableIdentifier(self.namespace, self.name)


class ListTablesResponse(msgspec.Struct, rename="kebab"):
    """Tables or views of a namespace."""

    identifiers: Sequence[WireIdentifier]
    next_page_token: str | None = None
    table_type: str | msgspec.UnsetType = msgspec.UNSET
    """The type that was listed, in answer to `tableType`: catalogs that do not know it list everything."""


class RenameTableRequest(msgspec.Struct):
    """Rename or move of a table or a view."""

    source: WireIdentifier
    destination: WireIdentifier


class CommitTableRequest(msgspec.Struct):
    """Requirements and updates for the table that the path names.

    An `identifier` in the body is ignored: some clients put the name of their catalog into it. The
    specification requires both lists. The reference parser does not, ClickHouse omits the requirements of
    its first snapshot, and Go writes an empty list as null.
    """

    requirements: list[TableRequirement] | None = None
    updates: list[TableUpdate] | None = None


class TableChangeRequest(msgspec.Struct):
    """A table's part of a transaction."""

    identifier: WireIdentifier
    requirements: list[TableRequirement] | None = None
    updates: list[TableUpdate] | None = None


class CommitTransactionRequest(msgspec.Struct, rename="kebab"):
    """Changes of several tables, applied all or none."""

    table_changes: list[TableChangeRequest]


class RegisterTableRequest(msgspec.Struct, rename="kebab"):
    """A metadata file that becomes a table."""

    name: str
    metadata_location: str
    overwrite: bool | None = None
    properties: dict[str, str] | None = None
    """Access to the storage of the metadata file, for this one read. Not in the specification."""


class SignRequest(msgspec.Struct):
    """A request to object storage that is to be signed (`RemoteSignRequest`)."""

    uri: str
    method: str
    region: str
    headers: dict[str, list[str]]
    body: str | None = None
    provider: str = "s3"


class SignedRequestResponse(msgspec.Struct):
    """What a client changes in its request (`RemoteSignResult`)."""

    uri: str
    headers: Mapping[str, Sequence[str]]


class CommitViewRequest(msgspec.Struct):
    """Requirements and updates for the view that the path names."""

    updates: list[ViewUpdate] | None = None
    requirements: list[ViewRequirement] | None = None


class RegisterViewRequest(msgspec.Struct, rename="kebab"):
    """A metadata file that becomes a view."""

    name: str
    metadata_location: str


class FetchScanTasksRequest(msgspec.Struct, rename="kebab"):
    """A task of a scan plan."""

    plan_task: str


class ListFunctionsResponse(msgspec.Struct, rename="kebab"):
    """Functions of a namespace, each as the levels of its full name."""

    identifiers: Sequence[tuple[str, ...]] = ()
    next_page_token: str | None = None


class OAuthError(msgspec.Struct):
    """The reason why no token is issued, in the words of OAuth (RFC 6749 section 5.2)."""

    error: str
    error_description: str


def list_tables(page: Page[TableIdentifier], table_type: str | None = None) -> ListTablesResponse:
    """Render a page of a listing, by a type if there is one."""
    listed = [WireIdentifier(*identifier) for identifier in page.items]
    return ListTablesResponse(listed, page.next_token, msgspec.UNSET if table_type is None else table_type)
