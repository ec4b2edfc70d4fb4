"""The connector `unity`: tables of a Unity Catalog, by its REST API 2.1.

A listing names the tables of a schema with their storage, so the second search costs no call a table. Only
UniForm tables whose Iceberg metadata the listing leaves out cost one each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

import msgspec

from floecat.connectors.logins import open_login
from floecat.connectors.patience import Patience
from floecat.connectors.spi import (
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
    NotFoundError,
    UnavailableError,
    UnprocessableError,
    UpstreamRefusedError,
)
from floecat.fileio.locations import normalize_location
from floecat.identifiers.namespace import Namespace
from floecat.identifiers.written_names import written

__all__ = ["UnityConnector"]

_API: Final = "/api/2.1/unity-catalog"
_CATALOG: Final = "catalog"
_PAGE_BYTES: Final = 32 << 20
_MOST_PAGES: Final = 10_000
_NAME_BYTES: Final = 200
"""Of memory for a name, beside its characters."""
_VIEWS_OF_THE_SCHEMA: Final = "information_schema"
_UNIFORM: Final = "delta.universalFormat.enabledFormats"
_CODE: Final = re.compile("[A-Za-z0-9_.]{1,64}")


class _Uniform(msgspec.Struct):
    metadata_location: str | None = None


class _Table(msgspec.Struct):
    name: str
    table_type: str | None = None
    data_source_format: str | None = None
    storage_location: str | None = None
    properties: dict[str, str] | None = None
    delta_uniform_iceberg: _Uniform | None = None

    @property
    def metadata_location(self) -> str | None:
        """Of the Iceberg metadata that UniForm made, if the answer says it."""
        return self.delta_uniform_iceberg.metadata_location if self.delta_uniform_iceberg else None

    @property
    def is_uniform(self) -> bool:
        """Whether there is Iceberg metadata, or will be."""
        formats = (self.properties or {}).get(_UNIFORM, "")
        return self.metadata_location is not None or "iceberg" in formats.split(",")


class _Named(msgspec.Struct):
    name: str


class _Page(msgspec.Struct):
    catalogs: list[_Named] = []
    schemas: list[_Named] = []
    tables: list[_Table] = []
    next_page_token: str | None = None


class _Refusal(msgspec.Struct):
    error_code: str = ""


class UnityConnector:
    """Finds the Delta tables of a Unity Catalog, and those with Iceberg metadata of UniForm.

    Its location is the address of the service, without `/api`. A Delta table is registered by its storage;
    one of UniForm is followed by its Iceberg metadata. Tables of other formats, and views, fail by name.

    Option ``catalog``: the only one to look into; its name is then no level of the namespaces. Default: all.
    """

    location_is_storage: ClassVar[bool] = False

    def __init__(self, source: ConnectorSource) -> None:
        """Reads the options.

        Raises:
            BadRequestError: an option is unknown, or the location is no URL of a service.
            LocationNotAllowedError: its host is not allowed.
        """
        unknown = sorted(source.options.keys() - {_CATALOG})
        if unknown:
            raise BadRequestError(f"Unknown option: {unknown[0][:80]!r} (known: {_CATALOG})")
        self._catalog = source.options.get(_CATALOG)
        self._source = source
        self._root = source.location.rstrip("/")
        self._http = UpstreamHttp(source.allowed_hosts, ca_file=source.ca_file)
        parts = self._http.hosts.check_url(self._root)
        if parts.query or _API in parts.path:
            raise BadRequestError(f"Invalid address of a Unity Catalog: must hold no query and no {_API}")
        self._host = parts.netloc
        self._refused: dict[str, str] = {}
        """What cannot be had, by address: `load` says so, as a table is to fail by its name."""
        self._login = open_login(source.credentials, self._http, source.token_commands)

    def check_root(self) -> None:
        """See `ChecksRoot.check_root`."""
        next(self._catalogs(), None)

    def discover(self) -> Iterator[Discovery]:
        """See `Connector.discover`."""
        patience = Patience()
        for catalog in self._catalogs():
            if not self._source.selection.looks_into(self._namespace((catalog,))):
                continue
            waiting: list[Namespace] = [(catalog,)]
            while waiting:
                levels = waiting.pop()
                try:
                    if len(levels) == 1:
                        size_bytes = 0
                        for schema in self._schemas(catalog):
                            size_bytes += _NAME_BYTES + len(schema)
                            if size_bytes > LONGEST_ANSWER_BYTES:
                                raise UnprocessableError(
                                    f"Unity Catalog at {self._host} has too many schemas"
                                )
                            if self._source.selection.takes_namespace(self._namespace((catalog, schema))):
                                waiting.append((catalog, schema))
                    else:
                        for table in self._tables(*levels):
                            yield self._found(levels, table)
                    patience.succeeded()
                except UpstreamRefusedError:
                    raise
                except (ForbiddenError, NotFoundError, UnavailableError, UnprocessableError) as error:
                    patience.failed(error)
                    yield UnreadablePlace(self._address(*levels), error)

    def load(self, table: DiscoveredTable, known_state: str | None) -> UpstreamDocument | None:
        """See `LoadsTables.load`."""
        if refused := self._refused.get(table.location):
            raise UnprocessableError(
                f"{written((*table.namespace, table.name))} is a {refused}: only Delta tables, and those"
                " with Iceberg metadata of UniForm, can be had"
            )
        location = table.state or self._decoded(self._get(table.location), _Table).metadata_location
        if not location:
            raise UnprocessableError(f"Unity Catalog names no Iceberg metadata at {table.location}")
        return None if location == known_state else UpstreamDocument(location, location)

    def _found(self, levels: Namespace, table: _Table) -> Discovery:
        namespace = self._namespace(levels)
        address = f"{self._root}{_API}/tables/{quote('.'.join((*levels, table.name)), safe='')}"
        is_table = table.table_type in ("MANAGED", "EXTERNAL", None)
        if is_table and table.is_uniform:
            return DiscoveredTable(
                table.name, address, namespace, format="iceberg", state=table.metadata_location
            )
        if is_table and table.data_source_format == "DELTA" and table.storage_location:
            with suppress(BadRequestError):
                location = str(normalize_location(table.storage_location))
                return DiscoveredTable(table.name, location, namespace)
            what = "table in storage of an unknown kind"
        elif is_table:
            what = f"table of format {table.data_source_format}"
        else:
            what = str(table.table_type).lower()
        self._refused[address] = what.replace("_", " ")[:80]
        return DiscoveredTable(table.name, address, namespace, format="iceberg")

    def _namespace(self, levels: Namespace) -> Namespace:
        return levels[1:] if self._catalog else levels

    def _catalogs(self) -> Iterator[str]:
        if self._catalog:
            yield self._catalog
            return
        for page in self._pages("catalogs", {}):
            for found in page.catalogs:
                yield found.name

    def _schemas(self, catalog: str) -> Iterator[str]:
        for page in self._pages("schemas", {"catalog_name": catalog}):
            for found in page.schemas:
                if found.name != _VIEWS_OF_THE_SCHEMA:
                    yield found.name

    def _tables(self, catalog: str, schema: str) -> Iterator[_Table]:
        for page in self._pages("tables", {"catalog_name": catalog, "schema_name": schema}):
            yield from page.tables

    def _pages(self, what: str, query: Mapping[str, str]) -> Iterator[_Page]:
        """The pages of a listing. An empty one may stand before further ones.

        Raises:
            UnprocessableError: they do not end.
        """
        tokens = [""]
        for _ in range(_MOST_PAGES):
            asked = {**query, "max_results": "0"}  # pages as long as the service makes them
            if tokens[-1]:
                asked["page_token"] = tokens[-1]
            url = f"{self._root}{_API}/{what}?{urlencode(asked, quote_via=quote)}"
            self._source.looks_into(self._address(*query.values()))
            page = self._decoded(self._get(url), _Page)
            yield page
            if not page.next_page_token:
                return
            if page.next_page_token in tokens:
                break
            tokens.append(page.next_page_token)
        raise UnprocessableError(f"The pages of {what} at {self._host} do not end")

    def _address(self, *levels: str) -> str:
        return "/".join([self._root, *(quote(level, safe="") for level in levels)])

    def _get(self, url: str) -> UpstreamAnswer:
        sent = {"Accept": "application/json"}
        answer = self._login.get(self._http, url, sent, most_bytes=_PAGE_BYTES)
        status = answer.status
        if status == 200:
            return answer
        code = (answer.decoded(_Refusal) or _Refusal()).error_code
        said = f"status {status}" + (f", {code}" if _CODE.fullmatch(code) else "")
        if status == 401:
            raise UpstreamRefusedError(f"Unity Catalog at {self._host} refuses the credentials: {said}")
        if status == 403:
            raise ForbiddenError(f"Unity Catalog at {self._host} does not allow that: {said}")
        if status == 404:
            is_table = f"{_API}/tables/" in url
            raise (NoSuchTableError if is_table else NotFoundError)(f"It is not at {self._host}: {said}")
        if status == 429 or status >= 500:
            raise UnavailableError(f"Unity Catalog at {self._host} fails: {said}")
        raise UnprocessableError(f"Unity Catalog at {self._host} does not answer that: {said}")

    def _decoded(self, answer: UpstreamAnswer, kind: type[Any]) -> Any:
        found = answer.decoded(kind)
        if found is None:
            raise UnprocessableError(f"The answer of {self._host} is not that of a Unity Catalog")
        return found
