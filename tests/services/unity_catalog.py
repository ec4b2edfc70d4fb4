"""A server of our own that answers as the published REST API 2.1 of Unity Catalog says; not Unity Catalog.

It knows catalogs, schemas and tables, pages of listings, one bearer token, and nothing that writes. The field
`delta_uniform_iceberg` is that of Databricks, which a single table has and a listing need not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.services.http_server import QuietHandler, serving

__all__ = ["UnityCatalog", "unity_catalog"]

_API = "/api/2.1/unity-catalog"


class UnityCatalog:
    """Tables by catalog and schema.

    Attributes:
        url: where it is.
        schemas: tables of each catalog and schema, as `TableInfo`.
        token: bearer token that it takes; any if None.
        page_size: longest page.
        endless: whether each page names the same next one.
        failing: schemas that are answered with status 500.
        asked: path and query of each request.
    """

    def __init__(self, url: str) -> None:
        """Takes where it is."""
        self.url = url
        self.schemas: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.token: str | None = None
        self.page_size = 2
        self.endless = False
        self.failing: set[str] = set()
        self.asked: list[str] = []

    def add(self, catalog: str, schema: str, name: str, **fields: Any) -> None:
        """Adds a table, by default a managed Delta table."""
        info = {
            "name": name,
            "catalog_name": catalog,
            "schema_name": schema,
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "table_id": f"{catalog}-{schema}-{name}",
            "columns": [],
            "properties": {},
        }
        self.schemas.setdefault((catalog, schema), []).append({**info, **fields})

    def answer(self, path: str, query: dict[str, str], authorization: str) -> tuple[int, Any]:
        """Status and body."""
        if self.token is not None and authorization != f"Bearer {self.token}":
            return 401, {"error_code": "UNAUTHENTICATED", "message": "no such token: " + authorization}
        if not path.startswith(f"{_API}/"):
            return 404, {"error_code": "NOT_FOUND", "message": path}
        what, _, name = path.removeprefix(f"{_API}/").partition("/")
        if name:
            catalog, schema, table = unquote(name).split(".")
            for info in self.schemas.get((catalog, schema), []):
                if info["name"] == table:
                    return 200, info
            return 404, {"error_code": "TABLE_NOT_FOUND", "message": name}
        if query.get("schema_name") in self.failing:
            return 500, {"error_code": "INTERNAL", "message": "out of order"}
        return 200, self._page(what, self._listed(what, query), query)

    def _listed(self, what: str, query: dict[str, str]) -> list[dict[str, Any]]:
        if what == "catalogs":
            return [{"name": name} for name in sorted({catalog for catalog, _ in self.schemas})]
        catalog = query["catalog_name"]
        if what == "schemas":
            return [{"name": schema} for each, schema in sorted(self.schemas) if each == catalog]
        found = self.schemas[catalog, query["schema_name"]]
        return [{key: info[key] for key in info if key != "delta_uniform_iceberg"} for info in found]

    def _page(self, what: str, found: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        start = int(query.get("page_token") or 0)
        end = start + self.page_size
        page: dict[str, Any] = {what: found[start:end]}
        if end < len(found) or self.endless:
            page["next_page_token"] = "0" if self.endless else str(end)
        return page


@contextmanager
def unity_catalog() -> Iterator[UnityCatalog]:
    """The server, within the block."""
    found: list[UnityCatalog] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            found[0].asked.append(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status, body = found[0].answer(parts.path, query, self.headers.get("Authorization", ""))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with serving(Handler) as url:
        found.append(UnityCatalog(url))
        yield found[0]
