"""Schemas of a catalog for programs in Python: namespaces by names of all their levels, as `A:B:C`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    FloecatError,
    ForbiddenError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchWarehouseError,
    NotAuthorizedError,
    NotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from floecat.identifiers.schema_names import SCHEMA_SEPARATOR

__all__ = ["SchemaInfo", "Schemas"]

T = TypeVar("T")

_BY_CODE: Final[Mapping[int, type[FloecatError]]] = {
    1001: BadRequestError,
    1003: NotFoundError,
    1004: AlreadyExistsError,
    1005: NamespaceNotEmptyError,
    1006: UnsupportedOperationError,
    1008: ForbiddenError,
    1010: ConflictError,
    1011: NotAuthorizedError,
}
_MISSING: Final[Mapping[str, type[NotFoundError]]] = {
    "NoSuchSchemaException": NoSuchNamespaceError,
    "NoSuchCatalogException": NoSuchWarehouseError,
}
_MOST_BYTES: Final = 256 << 20
_LONGEST_MESSAGE: Final = 1_000


class SchemaInfo(msgspec.Struct, frozen=True):
    """A schema."""

    name: str
    """With all its levels."""

    properties: Mapping[str, str]
    comment: str | None = None


class _Name(msgspec.Struct, frozen=True):
    name: str


class _Names(msgspec.Struct, frozen=True):
    identifiers: list[_Name]


class _Metalakes(msgspec.Struct, frozen=True):
    metalakes: list[_Name]


class _Schema(msgspec.Struct, frozen=True):
    schema: SchemaInfo


class _Dropped(msgspec.Struct, frozen=True):
    dropped: bool


class _Refusal(msgspec.Struct, frozen=True):
    code: int
    type: str
    message: str


class Schemas:
    """The schemas of a catalog. Safe to share between threads; an error is one of `floecat.errors`."""

    def __init__(
        self,
        endpoint: str,
        catalog: str,
        *,
        account: str | None = None,
        token: str | None = None,
        timeout_s: float = 30,
    ) -> None:
        """Asks for the separator, and for the account if it is not given.

        Args:
            endpoint: URL of the service.
            catalog: name of the catalog.
            account: its name or id; by default that of the token.
            token: bearer token.
            timeout_s: of a connection, and of each part of an answer.

        Raises:
            BadRequestError: the URL is malformed.
            FloecatError: the service refused, or did not answer.
        """
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise BadRequestError(
                "Invalid endpoint: expected http:// or https:// and a host, without a password"
            )
        if token is not None and not (token.isascii() and token.isprintable()):
            raise BadRequestError("Invalid token: it holds characters that no header may hold")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host = parts.netloc
        self._base = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self.separator: Final[str] = self._send("GET", "/configs", dict[str, Any])[SCHEMA_SEPARATOR]
        """Between the levels of a name."""
        account = account or self._send("GET", "/api/metalakes", _Metalakes).metalakes[0].name
        self._path = f"/api/metalakes/{quote(account, safe='')}/catalogs/{quote(catalog, safe='')}/schemas"

    def list_schemas(self, parent_schema: str | None = None) -> list[str]:
        """The names of the direct children of a schema, or of the top level."""
        query = f"?{urlencode({'parentSchema': parent_schema})}" if parent_schema else ""
        return [each.name for each in self._send("GET", self._path + query, _Names).identifiers]

    def create_schema(
        self, name: str, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> SchemaInfo:
        """Creates a schema, together with parents that are missing, in one transaction."""
        body = {"name": name, "comment": comment, "properties": properties or {}}
        return self._send("POST", self._path, _Schema, body).schema

    def load_schema(self, name: str) -> SchemaInfo:
        """A schema."""
        return self._send("GET", self._of(name), _Schema).schema

    def alter_schema(
        self,
        name: str,
        set_properties: Mapping[str, str] | None = None,
        remove_properties: Iterable[str] = (),
    ) -> SchemaInfo:
        """Sets and removes properties of this schema alone."""
        updates = [
            {"@type": "setProperty", "property": key, "value": value}
            for key, value in (set_properties or {}).items()
        ]
        updates += [{"@type": "removeProperty", "property": key} for key in remove_properties]
        return self._send("PUT", self._of(name), _Schema, {"updates": updates}).schema

    def drop_schema(self, name: str) -> bool:
        """Removes a schema that is empty. Returns whether there was one."""
        return self._send("DELETE", self._of(name), _Dropped).dropped

    def _of(self, name: str) -> str:
        return f"{self._path}/{quote(name, safe='')}"

    def _send(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """The answer to a request, which is sent once; a redirect is none, as the token would go along."""
        try:
            connection = self._kind(self._host, timeout=self._timeout_s)
        except HTTPException:
            raise BadRequestError(f"Invalid endpoint: {self._host} has no port") from None
        try:
            content = None if body is None else msgspec.json.encode(body)
            connection.request(method, self._base + path, content, self._headers)
            response = connection.getresponse()
            answer = response.read(_MOST_BYTES)
        except (OSError, HTTPException) as error:
            raise UnavailableError(f"No answer from {self._host}: {type(error).__name__}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise _error(response.status, answer)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError:
            raise UnavailableError(f"Not the answer of a catalog: {self._host}{self._base}{path}") from None


def _error(status: int, answer: bytes) -> FloecatError:
    try:
        refusal = msgspec.json.decode(answer, type=_Refusal)
    except msgspec.MsgspecError:
        return UnavailableError(f"The service answered {status}")
    kind = _MISSING.get(refusal.type) or _BY_CODE.get(refusal.code, UnavailableError)
    return kind(refusal.message[:_LONGEST_MESSAGE])
