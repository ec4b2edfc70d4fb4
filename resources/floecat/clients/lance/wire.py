"""Answers of an Iceberg REST catalog (REST specification), as far as they are read here."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from lance_namespace.errors import InternalError

__all__ = [
    "ErrorResponse",
    "LoadTableResult",
    "NamespaceResponse",
    "NamespacesPage",
    "Nothing",
    "RestConfig",
    "StorageCredential",
    "TablesPage",
    "Token",
    "decode",
]

T = TypeVar("T")


class RestConfig(msgspec.Struct, rename="kebab"):
    """`RestConfig`."""

    defaults: dict[str, Any] | None = None
    overrides: dict[str, Any] | None = None
    idempotency_key_lifetime: str | None = None


class NamespacesPage(msgspec.Struct, rename="kebab"):
    """`ListNamespacesResponse`."""

    namespaces: list[list[str]] = []
    next_page_token: str | None = None


class NamespaceResponse(msgspec.Struct):
    """`CreateNamespaceResponse` and `GetNamespaceResponse`."""

    properties: dict[str, str] | None = None


class _Identifier(msgspec.Struct):
    name: str


class TablesPage(msgspec.Struct, rename="kebab"):
    """`ListTablesResponse`."""

    identifiers: list[_Identifier] = []
    next_page_token: str | None = None
    table_type: str | None = None
    """The `tableType` that the catalog filtered by; None if it does not know that parameter."""


class StorageCredential(msgspec.Struct):
    """Credentials for locations with a prefix."""

    prefix: str
    config: dict[str, str]


class _TableMetadata(msgspec.Struct):
    location: str
    properties: dict[str, str] | None = None


class LoadTableResult(msgspec.Struct, rename="kebab"):
    """`LoadTableResult`."""

    metadata: _TableMetadata
    config: dict[str, str] | None = None
    storage_credentials: list[StorageCredential] | None = None


class Nothing(msgspec.Struct):
    """An answer whose content is ignored."""


class Token(msgspec.Struct):
    """An answer of a token endpoint (RFC 6749, section 5.1)."""

    access_token: str
    expires_in: float | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class ErrorResponse(msgspec.Struct):
    """`IcebergErrorResponse`."""

    error: _Error


def decode(body: bytes, kind: type[T]) -> T:
    """Decodes an answer; an empty one has no fields.

    Raises:
        InternalError: it is not JSON of this form.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InternalError(f"The answer of the catalog cannot be read: {error}") from None
