"""The connector `iceberg-rest`: tables and views of another Iceberg REST catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Final, Literal, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlencode

import msgspec

from floecat.connectors.logins import open_login
from floecat.connectors.patience import Patience
from floecat.connectors.spi import (
    CATALOG_ID,
    ConnectorSource,
    DiscoveredTable,
    Discovery,
    UnreadablePlace,
    UpstreamDocument,
)
from floecat.connectors.upstream_http import LONGEST_ANSWER_BYTES, UpstreamAnswer, UpstreamHttp
from floecat.errors import (
    BadRequestError,
    ForbiddenError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    UnavailableError,
    UnprocessableError,
    UpstreamRefusedError,
)
from floecat.identifiers.namespace import Namespace
from floecat.identifiers.written_names import written

__all__ = ["IcebergRestConnector"]

_HEADER: Final = "header."
_OPTIONS: Final = ("warehouse",)
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_OWN_HEADERS: Final = frozenset(
    {
        "authorization",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "cookie",
        "accept-encoding",
    }
)
_PREFIX: Final = re.compile(r"[A-Za-z0-9%._~@:$!()*+,;=-]+(/[A-Za-z0-9%._~@:$!()*+,;=-]+)*")
_UNIT_SEPARATOR: Final = "%1F"
_LIST_BYTES: Final = 16 << 20
_MOST_PAGES: Final = 10_000
_MOST_LEVELS: Final = 32
_NAME_BYTES: Final = 200
"""Of memory for a name, beside its characters."""
_TYPE: Final = re.compile(r"[A-Za-z]{1,64}")
_ETAG: Final = re.compile(r'(W/)?"[!#-~]{0,1000}"')
_PAGE_SIZE: Final = "1000"

_T = TypeVar("_T")


class _Config(msgspec.Struct):
    defaults: dict[str, str | None] = {}
    overrides: dict[str, str | None] = {}
    endpoints: list[str] | None = None


class _Identifier(msgspec.Struct):
    namespace: tuple[str, ...]
    name: str


class _Page(msgspec.Struct, rename="kebab"):
    """Of namespaces, or of tables or views. Another answer than that must not look like an empty one."""

    namespaces: list[tuple[str, ...]] | None = None
    identifiers: list[_Identifier] | None = None
    next_page_token: str | None = None


class _Loaded(msgspec.Struct, rename="kebab"):
    metadata: msgspec.Raw
    metadata_location: str | None = None


class _Problem(msgspec.Struct):
    type: str = ""


class _Refusal(msgspec.Struct):
    error: _Problem = msgspec.field(default_factory=_Problem)


class _Names(NamedTuple):
    """How names become addresses."""

    base: str
    separator: str
    """Percent-encoded."""
    lists_views: bool

    def namespace(self, levels: Namespace) -> str:
        return f"{self.base}/namespaces/{self.separator.join(quote(level, safe='') for level in levels)}"

    def parent(self, levels: Namespace) -> str:
        return unquote(self.separator).join(levels)


class IcebergRestConnector:
    """Finds and loads tables and views of another Iceberg REST catalog.

    Its location is the URI of the catalog, as clients have it: without `/v1`.

    Options:

    - ``warehouse``: which catalog of the service, if it has several.
    - ``header.NAME``: a header that is sent with each request to the catalog.
    """

    location_is_storage: ClassVar[bool] = False

    def __init__(self, source: ConnectorSource) -> None:
        """Reads the options.

        Raises:
            BadRequestError: an option is unknown or has a value of the wrong kind.
            LocationNotAllowedError: the host of the catalog is not allowed.
        """
        self._source = source
        self._root = source.location.rstrip("/")
        self._options, self._headers = _checked(source.options)
        self._http = UpstreamHttp(source.allowed_hosts, ca_file=source.ca_file)
        self._http.hosts.check_url(self._root)
        if "?" in self._root:
            raise BadRequestError("Invalid address of another catalog: must hold no query")
        self._login = open_login(source.credentials, self._http, source.token_commands)

    def check_root(self) -> None:
        """See `ChecksRoot.check_root`."""
        names = self._names
        next(self._pages(f"{names.base}/namespaces", {}), None)

    def discover(self) -> Iterator[Discovery]:
        """See `Connector.discover`."""
        names = self._names
        waiting: list[Namespace] = [()]
        patience = Patience()
        while waiting:
            levels = waiting.pop()
            try:
                waiting += reversed(list(self._below(names, levels)))
                if levels and self._source.selection.takes_namespace(levels):
                    yield from self._tables_of(names, levels, "table")
                    if names.lists_views:
                        yield from self._tables_of(names, levels, "view")
                patience.succeeded()
            except UpstreamRefusedError:
                raise
            except (NotFoundError, ForbiddenError, UnavailableError, UnprocessableError) as error:
                if not levels:
                    raise
                patience.failed(error)
                yield UnreadablePlace(names.namespace(levels), error)

    def load(self, table: DiscoveredTable, known_state: str | None) -> UpstreamDocument | None:
        """See `LoadsTables.load`."""
        url = self._address(self._names, table.namespace, table.name, table.kind)
        headers = {}
        if known_state is not None and _ETAG.fullmatch(known_state):
            headers["If-None-Match"] = known_state
        answer = self._get(url, headers)
        if answer.status == 304:
            return None
        if answer.status == 404:
            what = written((*table.namespace, table.name))
            missing = NoSuchTableError if table.kind == "table" else NoSuchViewError
            raise missing(f"The other catalog has no {table.kind} {what}")
        self._check(url, answer)
        loaded = self._decoded(url, answer, _Loaded)
        if not loaded.metadata_location:
            raise UnprocessableError(
                f"The catalog at {self._host} does not say where the metadata of the {table.kind} is"
            )
        etag = answer.headers.get("etag")
        state = etag if etag and _ETAG.fullmatch(etag) else loaded.metadata_location
        if state == known_state:
            return None
        return UpstreamDocument(loaded.metadata_location, state, bytes(loaded.metadata))

    @cached_property
    def _names(self) -> _Names:
        """What the catalog says about itself.

        Raises:
            UnprocessableError: it is this very catalog, sends clients elsewhere, or says nonsense.
        """
        warehouse = self._options.get("warehouse")
        query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
        url = f"{self._root}/v1/config{query}"
        answer = self._get(url)
        self._check(url, answer)
        config = self._decoded(url, answer, _Config)
        told = {name: value for name, value in {**config.defaults, **config.overrides}.items() if value}
        if told.get(CATALOG_ID) == self._source.catalog_id and self._source.catalog_id:
            raise UnprocessableError(
                f"The catalog at {self._host} is this one: a connector cannot follow itself"
            )
        if told.get("uri", self._root).rstrip("/") != self._root:
            raise UnprocessableError(
                f"The catalog at {self._host} sends clients to another address: give that to the connector"
            )
        prefix, separator = told.get("prefix", ""), told.get("namespace-separator", _UNIT_SEPARATOR)
        if (prefix and not _PREFIX.fullmatch(prefix)) or ".." in prefix.split("/"):
            raise UnprocessableError(f"The catalog at {self._host} names a prefix that is none")
        if not separator or len(separator) > 20 or not re.fullmatch("[!-~]+", separator) or "/" in separator:
            raise UnprocessableError(f"The catalog at {self._host} names a separator that is none")
        endpoints = config.endpoints or ()
        base = f"{self._root}/v1/{prefix}" if prefix else f"{self._root}/v1"
        lists_views = any(
            each.startswith("GET ") and each.endswith("/namespaces/{namespace}/views") for each in endpoints
        )
        return _Names(base, separator, lists_views)

    def _below(self, names: _Names, levels: Namespace) -> Iterator[Namespace]:
        """The namespaces in one that are to be looked into."""
        if len(levels) >= _MOST_LEVELS:
            return
        seen, size_bytes = set(), 0
        query = {"parent": names.parent(levels)} if levels else {}
        for page in self._pages(f"{names.base}/namespaces", query):
            for found in page.namespaces or ():
                # some catalogs know no nested namespaces, and answer the top level whatever is asked for
                if len(found) == len(levels) + 1 and found[:-1] == levels and found not in seen:
                    seen.add(found)
                    size_bytes += _NAME_BYTES + len(found[-1])
                    if size_bytes > LONGEST_ANSWER_BYTES:
                        raise UnprocessableError(f"The catalog at {self._host} lists too many namespaces")
                    if self._source.selection.looks_into(found):
                        yield found

    def _tables_of(
        self, names: _Names, levels: Namespace, kind: Literal["table", "view"]
    ) -> Iterator[DiscoveredTable]:
        seen = set()
        for page in self._pages(f"{names.namespace(levels)}/{kind}s", {}):
            for found in page.identifiers or ():
                if found.name not in seen:
                    seen.add(found.name)
                    address = self._address(names, levels, found.name, kind)
                    yield DiscoveredTable(found.name, address, levels, "iceberg", kind)

    def _address(self, names: _Names, levels: Namespace, name: str, kind: str) -> str:
        return f"{names.namespace(levels)}/{kind}s/{quote(name, safe='')}"

    def _pages(self, url: str, query: Mapping[str, str]) -> Iterator[_Page]:
        """The pages of a listing.

        Raises:
            UnprocessableError: they do not end.
        """
        token, tokens = "", set[str]()
        for _ in range(_MOST_PAGES):
            self._source.looks_into(url)
            asked = (
                f"{url}?{urlencode({**query, 'pageToken': token, 'pageSize': _PAGE_SIZE}, quote_via=quote)}"
            )
            answer = self._get(asked, most_bytes=_LIST_BYTES)
            self._check(url, answer)
            page = self._decoded(url, answer, _Page)
            if page.namespaces is None and page.identifiers is None:
                raise UnprocessableError(f"The answer at {_shown(url)} is no listing")
            yield page
            if not page.next_page_token:
                return
            token = page.next_page_token
            if token in tokens:
                raise UnprocessableError(f"The pages of {_shown(url)} do not end: a page token comes again")
            tokens.add(token)
        raise UnprocessableError(f"The pages of {_shown(url)} do not end: there are more than {_MOST_PAGES}")

    @property
    def _host(self) -> str:
        return self._root.partition("://")[2].partition("/")[0]

    def _get(
        self, url: str, headers: Mapping[str, str] | None = None, most_bytes: int = LONGEST_ANSWER_BYTES
    ) -> UpstreamAnswer:
        sent = {"Accept": "application/json", **self._headers, **(headers or {})}
        return self._login.get(self._http, url, sent, most_bytes=most_bytes)

    def _check(self, url: str, answer: UpstreamAnswer) -> None:
        """Refuses an answer that is none."""
        status = answer.status
        if status == 200:
            return
        type = (answer.decoded(_Refusal) or _Refusal()).error.type
        said = f"status {status}" + (f", {type}" if _TYPE.fullmatch(type) else "")
        place = _shown(url)
        if status == 401:
            raise UpstreamRefusedError(
                f"The catalog at {self._host} refuses the credentials of the connector"
            )
        if status == 403:
            raise ForbiddenError(f"The catalog does not allow the connector to read {place}")
        if status == 404:
            raise NotFoundError(f"The catalog has no {place}: {said}")
        if status == 429 or status >= 500:
            raise UnavailableError(f"The catalog at {self._host} fails at {place}: {said}")
        raise UnprocessableError(f"The catalog does not answer {place}: {said}")

    def _decoded(self, url: str, answer: UpstreamAnswer, type: type[_T]) -> _T:
        found = answer.decoded(type)
        if found is None:
            raise UnprocessableError(f"The answer at {_shown(url)} is not that of an Iceberg REST catalog")
        return found


def _checked(given: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The options, and the headers among them."""
    headers = {name[len(_HEADER) :]: value for name, value in given.items() if name.startswith(_HEADER)}
    unknown = sorted(name for name in given if name not in _OPTIONS and not name.startswith(_HEADER))
    if unknown:
        known = ", ".join((*_OPTIONS, f"{_HEADER}NAME"))
        raise BadRequestError(f"Unknown option: {unknown[0][:80]!r} (known: {known})")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise BadRequestError(f"Invalid option {_HEADER}{name[:80]}: credentials are no option")
        if not (value.isascii() and value.isprintable()):
            raise BadRequestError(f"Invalid option {_HEADER}{name}: holds a control character")
    return given, headers


def _shown(url: str) -> str:
    return url.partition("?")[0][:300]
