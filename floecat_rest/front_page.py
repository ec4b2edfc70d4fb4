"""`/`: what this server is, and how clients connect to it."""

from __future__ import annotations

import re
from html import escape
from typing import Final

import msgspec
from litestar import Controller, get

import floecat
from floecat.auth.browser_requests import BrowserRules
from floecat.settings import GatewaySettings
from floecat_rest.http.html_pages import html_answer, html_page
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.options import PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest

__all__ = ["FrontPageController"]

_SPECIFICATION: Final = "https://iceberg.apache.org/rest-catalog-spec/"
_UNKNOWN_HOST: Final = "YOUR-SERVER"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_VARIES: Final = [(b"vary", b"Accept, Host"), (b"cache-control", b"no-store")]

_CLIENTS: Final = {
    "PyIceberg": """from pyiceberg.catalog import load_catalog

catalog = load_catalog("floecat", type="rest", uri="{uri}", warehouse="{warehouse}")
print(catalog.list_namespaces())""",
    "Spark": """spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.2 \\
  --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\
  --conf spark.sql.catalog.floecat=org.apache.iceberg.spark.SparkCatalog \\
  --conf spark.sql.catalog.floecat.type=rest \\
  --conf spark.sql.catalog.floecat.uri={uri} \\
  --conf spark.sql.catalog.floecat.warehouse={warehouse}""",
    "DuckDB": """INSTALL iceberg; LOAD iceberg;
ATTACH '{warehouse}' AS floecat (TYPE iceberg, ENDPOINT '{uri}'{login});
SHOW ALL TABLES;""",
    "Trino": """connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={uri}
iceberg.rest-catalog.warehouse={warehouse}
iceberg.rest-catalog.nested-namespace-enabled=true""",
}


class FrontPageController(Controller):
    """The first page that a person sees."""

    path = "/"
    tags = ["Description"]
    opt = {PUBLIC: True, WITHOUT_STORAGE: True}

    @get(operation_id="frontPage", sync_to_thread=False)
    def front_page(self, request: CatalogRequest) -> Answer:
        """The front page of this server: HTML for browsers, JSON for others."""
        gateway = request.services.settings.gateway
        uri = f"{request.scope['scheme']}://{_host(request, gateway)}{request.scope.get('root_path', '')}"
        if "text/html" not in (request.header_list(b"accept") or "").lower():
            return Answer(200, msgspec.json.encode(_summary(uri, gateway)), _VARIES)
        return html_answer(_page(uri, gateway).encode(), _VARIES)


def _host(request: CatalogRequest, gateway: GatewaySettings) -> str:
    """The name by which the client reached the service, if it is one that is allowed."""
    sent = request.header(b"host") or ""
    rules = BrowserRules(gateway.host, gateway.allowed_hosts, setting="floecat.gateway.allowed-hosts")
    return sent if _HOST.fullmatch(sent) and rules.allows(sent.encode()) else _UNKNOWN_HOST


def _links(gateway: GatewaySettings) -> dict[str, str]:
    links = {"api": "schema", "health": "health/ready", "metrics": "metrics"}
    return links | ({"dagster": gateway.dagster_url} if gateway.dagster_url else {})


def _summary(uri: str, gateway: GatewaySettings) -> dict[str, str]:
    """The page for programs: links are whole."""
    about = {
        "name": "Floecat",
        "version": floecat.__version__,
        "uri": uri,
        "warehouse": gateway.default_prefix,
    }
    return about | {
        name: link if "://" in link else f"{uri}/{link}" for name, link in _links(gateway).items()
    }


def _page(uri: str, gateway: GatewaySettings) -> str:
    login = ", AUTHORIZATION_TYPE 'none'" if gateway.auth_mode == "dev" else ""
    titles = {"api": "API description", "health": "Health", "metrics": "Metrics", "dagster": "Dagster"}
    links = [f'<a href="{escape(link)}">{titles[name]}</a>' for name, link in _links(gateway).items()]
    links.append(f'<a href="{_SPECIFICATION}">Iceberg REST specification</a>')
    parts = [
        "<h1>Floecat</h1>",
        f"<p>An Iceberg REST catalog, version {escape(floecat.__version__)}. Engines connect to ",
        f"<code>{escape(uri)}</code> and find the tables of the warehouse ",
        f"<code>{escape(gateway.default_prefix)}</code>.</p><p>{' · '.join(links)}</p>",
    ]
    if _UNKNOWN_HOST in uri:
        parts.append(
            f"<p>Replace <code>{_UNKNOWN_HOST}</code> by the name of this server. The setting "
            "<code>floecat.gateway.allowed-hosts</code> lists the names that this page repeats.</p>"
        )
    if gateway.auth_mode != "dev":
        parts.append("<p>This server needs a login: add your client's credentials to the examples.</p>")
    for client, text in _CLIENTS.items():
        shown = text.format(uri=uri, warehouse=gateway.default_prefix, login=login)
        parts.append(f"<h2>{client}</h2><pre>{escape(shown)}</pre>")
    return html_page("Floecat", "".join(parts))
