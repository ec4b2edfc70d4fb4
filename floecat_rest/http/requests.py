"""Requests, as handlers see them.

A request is read lazily and in the thread of the handler, so that looking up a catalog or an
ambiguous name never holds up the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec
from litestar import Request
from litestar.params import QueryParameter

from floecat.auth.actors import Actor
from floecat.auth.principals import Principal
from floecat.entries.calls import (
    IDEMPOTENCY_KEY,
    Call,
    Delegation,
    EntryKind,
    LoadedTable,
    LoadedView,
    with_request_key,
)
from floecat.errors import BadRequestError, FloecatError, IllegalArgumentError, UnavailableError
from floecat.iceberg.values.json_checks import check_elements, check_json
from floecat.identifiers.encoding import decode_segment
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.runtime import Kernel
from floecat_rest.http.documents import DocumentResponse, Documents, client_config
from floecat_rest.http.errors import UnsupportedMediaTypeError
from floecat_rest.process.admission import AdmittedRequest
from floecat_rest.process.services import Services

if TYPE_CHECKING:
    from litestar.types import Scope

__all__ = [
    "CatalogRequest",
    "HttpServices",
    "PageSize",
    "PageToken",
    "TableType",
    "Warehouse",
    "check_media_type",
    "decode_body",
    "header_of",
    "list_of",
    "path_name",
]

T = TypeVar("T")

PageToken = Annotated[
    str | None, QueryParameter(name="pageToken", description="Absent: everything in one answer.")
]
PageSize = Annotated[int | None, QueryParameter(name="pageSize", ge=1)]
TableType = Annotated[
    str | None,
    QueryParameter(
        name="tableType",
        description="Only tables whose property `table_type` has this value, whatever its case. The answer "
        "repeats it as `table-type`. Not in the specification.",
    ),
]
Warehouse = Annotated[
    str | None, QueryParameter(name="warehouse", description="Name of a catalog, or a location in it.")
]

_LARGEST_ANSWER_PART = 4
_DELEGATION: Final = b"x-iceberg-access-delegation"
_DELEGATIONS: Final[Mapping[str, Delegation]] = {"vended-credentials": "keys", "remote-signing": "signing"}


class ApiDescriptions(Protocol):
    """Descriptions of the API: a page, and documents by the names of files."""

    @property
    def page(self) -> bytes:
        """HTML."""
        ...

    @property
    def files(self) -> Mapping[str, bytes]:
        """JSON and YAML."""
        ...


@dataclass
class HttpServices(Services):
    """Services that the HTTP requests of a process share."""

    endpoints: list[str] = field(default_factory=list)
    """Endpoints that are served, as `/v1/config` lists them."""

    descriptions: ApiDescriptions | None = None
    """Descriptions of the API that `/schema` serves. Set by the application."""

    def __post_init__(self) -> None:
        """Makes what needs only settings."""
        super().__post_init__()
        # one answer must not evict more than a quarter of the others
        self.documents = Documents(self.memory.cache("answers", largest_part=_LARGEST_ANSWER_PART))

    async def remembered_call(self, headers: Iterable[tuple[bytes, bytes]], prefix: str) -> Call | None:
        """The call of a request, if principal and catalog are known without asking the store.

        Args:
            headers: of the request.
            prefix: of its path.

        Raises:
            UnavailableError: nobody can be verified now.
        """
        try:
            principal = await self.authenticator.authenticate(headers)
            call = None if self.kernel is None else self.kernel.catalog.calls.remembered(principal, prefix)
            return None if call is None else _with_delegation(call, headers)
        except UnavailableError:
            raise
        except FloecatError:
            return None  # the application meets the same error and renders it


class CatalogRequest(Request[Principal, None, Any]):
    """A request, as handlers see it: who asks, what the path names, what the body says.

    Attributes:
        services: what the process shares.
        admitted: what the request holds; runs its work in threads.
    """

    def __init__(
        self,
        scope: Scope,
        services: HttpServices,
        admitted: AdmittedRequest,
        principal: Principal | None,
        operation_id: str,
    ) -> None:
        super().__init__(scope)
        self.services = services
        self.admitted = admitted
        self._principal = principal
        self._operation_id = operation_id

    @property
    def kernel(self) -> Kernel:
        """The services of the catalog."""
        return cast("Kernel", self.services.kernel)

    @property
    def principal(self) -> Principal:
        """The principal that asks; a public route has none."""
        return cast("Principal", self._principal)

    @property
    def actor(self) -> Actor:
        """The principal that asks, outside of any catalog."""
        return Actor(self.principal, self.kernel.access.authorizer)

    def header(self, name: bytes) -> str | None:
        """The first value of a header, named in lower case."""
        return header_of(self.scope["headers"], name)

    def header_list(self, name: bytes) -> str | None:
        """All values of a header that is a list, as one list."""
        return list_of(self.scope["headers"], name)

    def call(self) -> Call:
        """The principal and the catalog: by the prefix, on management routes by name.

        Raises:
            ForbiddenError: the principal may not use the catalog.
            NoSuchWarehouseError: the catalog does not exist.
        """
        call = self.kernel.catalog.calls.open(self.principal, self._catalog())
        return _with_delegation(call, self.scope["headers"])

    def mutation(self, body: bytes = b"") -> Call:
        """The call of `call`, with the idempotency key of a request that changes something.

        Raises:
            BadRequestError: the key is malformed.
            FloecatError: as `call`.
        """
        scope = self.scope
        return with_request_key(
            self.call(),
            self.header(IDEMPOTENCY_KEY.encode()),
            self._operation_id,
            (scope["path"].encode(), scope["query_string"]),
            body,
        )

    def namespace(self, call: Call) -> Namespace:
        """The namespace that the path names."""
        return self.kernel.catalog.resolver.namespace(call, self.path_params["namespace"])

    def entry(self, call: Call, parameter: str = "table") -> TableIdentifier:
        """The table or view that the path names."""
        params = self.path_params
        return self.kernel.catalog.resolver.entry(call, params["namespace"], params[parameter])

    def parent(self, call: Call) -> Namespace | None:
        """The namespace of the query parameter `parent`; None if it is absent or empty."""
        value = self._sent("parent")
        return None if value is None else self.kernel.catalog.resolver.parent(call, value)

    def through_views(self, call: Call, kind: EntryKind, read: TableIdentifier) -> Call:
        """The call that reads something by the views of the query parameter `referenced-by`.

        From who is not trusted with it, the parameter changes nothing.

        Raises:
            BadRequestError: it is malformed.
        """
        catalog = self.kernel.catalog
        value = self._sent("referenced-by") if catalog.view_chains.trusts(call.principal) else None
        if not value:
            return call
        return catalog.view_chains.through(call, catalog.resolver.chain(value), kind, read)

    def _sent(self, parameter: str) -> str | None:
        """The value of a parameter of the query, as it came over the wire."""
        for part in self.scope["query_string"].decode("latin-1").split("&"):
            name, _, value = part.partition("=")
            if name == parameter:
                return value
        return None

    def read(self, body: bytes, kind: type[T]) -> T:
        """The body of the request.

        Raises:
            BadRequestError: it is not JSON of this form.
        """
        check_media_type(self.header(b"content-type"))
        return decode_body(body, kind)

    def stage_id(self) -> str | None:
        """The id that ties a staged table to its commit: the transaction id, else the idempotency key."""
        return self.header(b"iceberg-transaction-id") or self.header(IDEMPOTENCY_KEY.encode())

    def table_answer(
        self, table: LoadedTable, *, mode: str = "all", with_config: bool = True, name: str | None = None
    ) -> DocumentResponse:
        """Renders a table: `LoadTableResult`, or `CommitTableResponse` without the config.

        Args:
            name: of the table, where the path of the request does not end with it.
        """
        path = self.scope["path"]
        if name is not None:
            path = f"{path.rpartition('/')[0]}/tables/{quote(name, safe='')}"
        credentials = table.storage_credentials if with_config else ()
        documents = self.services.documents
        if table.not_modified:
            return documents.not_modified(table.etag)
        return documents.answer(
            table.pieces,
            table.metadata_location,
            self.header(b"accept-encoding"),
            config=client_config(table, path) if with_config else None,
            labels=table.labels,
            etag=table.etag,
            kept_as=table.etag,
            mode=mode,
            credentials=credentials,
        )

    def view_answer(self, view: LoadedView) -> DocumentResponse:
        """Renders a view: `LoadViewResult`."""
        return self.services.documents.answer(
            (view.metadata,),
            view.metadata_location,
            self.header(b"accept-encoding"),
            config=view.config,
            labels=view.labels,
            kept_as=view.etag,
        )

    def _catalog(self) -> str:
        return decode_segment(self.path_params.get("prefix") or self.path_params["catalog"]).literal


def _with_delegation(call: Call, headers: Iterable[tuple[bytes, bytes]]) -> Call:
    """The call with the delegations that a request accepts; unknown ones are ignored."""
    value = list_of(headers, _DELEGATION)
    if value is None:
        return call
    sent = (_DELEGATIONS.get(each.strip().lower()) for each in value.split(","))
    return msgspec.structs.replace(call, delegation=frozenset(each for each in sent if each is not None))


def path_name(request: CatalogRequest, parameter: str) -> str:
    """The name in a parameter of the path, decoded.

    Raises:
        BadRequestError: it is not valid percent-encoded UTF-8.
    """
    return decode_segment(request.path_params[parameter]).literal


def header_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of a header.

    Args:
        headers: of an ASGI scope, names in lower case.
        name: in lower case.
    """
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def list_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """All values of a header that is a list, joined by commas (RFC 9110 section 5.3).

    Args:
        headers: of an ASGI scope, names in lower case.
        name: in lower case.
    """
    values = [value for key, value in headers if key == name]
    return b", ".join(values).decode("latin-1") if values else None


def decode_body(body: bytes, kind: type[T]) -> T:
    """Reads a body. Unknown fields are ignored, as the specification grows, unless the struct forbids them.

    Raises:
        BadRequestError: it is not valid JSON in UTF-8, nested too deeply, not of this form, has too many
            elements, or an object in it has a key twice. The message names the JSON path, never what the body
            holds there.
    """
    if not body:
        raise BadRequestError("Invalid body: expected JSON")
    try:
        # Parts that stay encoded would otherwise carry invalid text into metadata files.
        str(body, "utf-8")
        check_elements(body)
        decoded = cast("T", _decoder(cast("Any", kind)).decode(body))
        check_json(body)
    except IllegalArgumentError as error:
        raise BadRequestError(f"Invalid body: {error.message}") from None
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"Invalid body: {error}") from None
    except UnicodeDecodeError:
        raise BadRequestError("Invalid body: not UTF-8") from None
    except RecursionError:
        raise BadRequestError("Invalid body: nested too deeply") from None
    return decoded


def check_media_type(content_type: str | None) -> None:
    """Refuses a body that is declared to be something other than JSON. Some clients declare nothing.

    Raises:
        UnsupportedMediaTypeError: the declared type is not JSON.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaTypeError("Unsupported media type: send application/json")


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
