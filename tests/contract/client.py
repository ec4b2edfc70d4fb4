"""A thin client of the catalog under test: paths, verbs, and the few steps that most tests begin with."""

from __future__ import annotations

import http.client
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from tests.contract.documents import ID_AND_DATA, sql_version

__all__ = [
    "Catalog", "Namespace", "Table", "View", "as_sent", "namespace_segment", "raw", "segment", "unique",
]  # fmt: skip

Namespace = tuple[str, ...]
Json = Any

UNIT_SEPARATOR = "%1F"


def unique(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}_{uuid.uuid4().hex[:12]}"


def segment(name: str) -> str:
    """A name as a segment of a path, as clients that follow RFC 3986 write it."""
    return quote(name, safe="")


def namespace_segment(namespace: Sequence[str]) -> str:
    """The levels as one segment of a path."""
    return UNIT_SEPARATOR.join(segment(level) for level in namespace)


def as_sent(answer: httpx.Response) -> Json:
    """The body of an answer about a namespace, without the default location that it must tell."""
    body = answer.json()
    folders = [re.escape(re.sub(r"[^A-Za-z0-9._-]+", "_", level)) + "[^/]*" for level in body["namespace"]]
    location = body["properties"].pop("location")
    assert re.fullmatch(rf"[a-z0-9]+://.+/{'/'.join(folders)}", location), location
    return body


class Catalog:
    """The routes of one catalog, reached by the prefix that `/v1/config` gives."""

    def __init__(self, url: str, warehouse: str | None, token: str | None = None) -> None:
        """Asks the server at a base URL for its configuration."""
        # without this header a POST without a body could be of a web page
        headers = {"x-client-version": "contract"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self.url = url.rstrip("/")
        self.warehouse = warehouse
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=60, limits=limits)
        self.config = self.load_config()
        prefix = self.config["overrides"].get("prefix") or self.config["defaults"].get("prefix", "")
        self.prefix: str = prefix
        self.root = f"/v1/{prefix}" if prefix else "/v1"

    def load_config(self) -> Json:
        """The body of `/v1/config`."""
        answer = self.http.get("/v1/config", params={"warehouse": self.warehouse} if self.warehouse else None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        """Closes the connections."""
        self.http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request below the prefix."""
        return self.http.request(method, self.root + path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def head(self, path: str, **options: Any) -> httpx.Response:
        return self.request("HEAD", path, **options)

    def post(self, path: str, body: Json = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return self.request("POST", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.request("DELETE", path, **options)

    @staticmethod
    def namespace_path(namespace: Sequence[str]) -> str:
        return f"/namespaces/{namespace_segment(namespace)}"

    def tables_path(self, namespace: Sequence[str]) -> str:
        return f"{self.namespace_path(namespace)}/tables"

    def views_path(self, namespace: Sequence[str]) -> str:
        return f"{self.namespace_path(namespace)}/views"

    def create_namespace(
        self, namespace: Sequence[str], properties: Mapping[str, str] | None = None
    ) -> Namespace:
        """Creates a namespace and returns its levels."""
        body = {"namespace": list(namespace), "properties": dict(properties or {})}
        answer = self.post("/namespaces", body)
        assert answer.status_code == 200, answer.text
        return tuple(namespace)

    def create_table(self, namespace: Sequence[str], name: str | None = None, **request: Any) -> Table:
        """Creates a table; `request` are further fields of the body, with `_` for `-`."""
        name = name or unique("table")
        body = {"name": name, "schema": ID_AND_DATA} | _kebab(request)
        answer = self.post(self.tables_path(namespace), body)
        assert answer.status_code == 200, answer.text
        return Table(self, tuple(namespace), name, answer)

    def create_view(self, namespace: Sequence[str], name: str | None = None, **request: Any) -> View:
        """Creates a view; `request` are further fields of the body, with `_` for `-`."""
        name = name or unique("view")
        body = {"name": name, "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
        answer = self.post(self.views_path(namespace), body | _kebab(request))
        assert answer.status_code == 200, answer.text
        return View(self, tuple(namespace), name, answer)

    def names(self, path: str) -> list[str]:
        """The names of a listing of tables or views."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return [identifier["name"] for identifier in answer.json()["identifiers"]]

    def children(self, namespace: Sequence[str]) -> list[Namespace]:
        """The child namespaces, full names."""
        answer = self.get("/namespaces", params={"parent": "\x1f".join(namespace)})
        return [tuple(levels) for levels in answer.json()["namespaces"]] if answer.status_code == 200 else []

    def clear(self, namespace: Sequence[str]) -> None:
        """Removes a namespace with everything in it; one that is gone is fine."""
        if self.head(self.namespace_path(namespace)).status_code == 404:
            return
        for child in self.children(namespace):
            self.clear(child)
        for path in (self.tables_path(namespace), self.views_path(namespace)):
            for name in self.names(path):
                self.delete(f"{path}/{segment(name)}")
        self.delete(self.namespace_path(namespace))


def raw(catalog: Catalog, method: str, path: str, *, root: str | None = None) -> tuple[int, bytes]:
    """Status and body of a request whose path goes over the wire exactly as given, below a root."""
    parts = urlsplit(catalog.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.putrequest(method, (root or catalog.root) + path, skip_accept_encoding=True)
        connection.putheader("Content-Type", "application/json")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class _Entry:
    """A table or a view by name."""

    collection: str

    def __init__(self, catalog: Catalog, namespace: Namespace, name: str, created: httpx.Response) -> None:
        self.catalog = catalog
        self.namespace = namespace
        self.name = name
        self.created = created

    @property
    def path(self) -> str:
        return f"{self.catalog.namespace_path(self.namespace)}/{self.collection}/{segment(self.name)}"

    @property
    def identifier(self) -> dict[str, Json]:
        return {"namespace": list(self.namespace), "name": self.name}

    @property
    def text(self) -> str:
        """The identifier as messages write it."""
        return ".".join((*self.namespace, self.name))

    def get(self, **params: Any) -> Json:
        """The whole answer of a load."""
        answer = self.catalog.get(self.path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def metadata(self, **params: Any) -> Json:
        """The metadata document."""
        return self.get(**params)["metadata"]

    def commit(
        self, updates: Sequence[Json], requirements: Sequence[Json] = (), **options: Any
    ) -> httpx.Response:
        body = {"requirements": list(requirements), "updates": list(updates)}
        return self.catalog.post(self.path, body, **options)

    def committed(self, updates: Sequence[Json], requirements: Sequence[Json] = ()) -> Json:
        """The metadata after a commit that must succeed."""
        answer = self.commit(updates, requirements)
        assert answer.status_code == 200, answer.text
        return answer.json()["metadata"]

    def drop(self, **params: Any) -> None:
        answer = self.catalog.delete(self.path, params=params)
        assert answer.status_code == 204, answer.text

    def exists(self) -> bool:
        answer = self.catalog.head(self.path)
        assert answer.status_code in (204, 404)
        return answer.status_code == 204


class Table(_Entry):
    """A table that a test created."""

    collection = "tables"


class View(_Entry):
    """A view that a test created."""

    collection = "views"


def _kebab(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in fields.items()}
