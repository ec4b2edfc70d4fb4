"""`/`: for a person with a browser, and for programs."""

from __future__ import annotations

import html
import re

import msgspec
import pytest
from joserfc.jwk import RSAKey

import floecat
from floecat.settings import OidcSettings

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
KEY = RSAKey.generate_key(2048)


@pytest.fixture
def changed(start, settings):
    def run(**changes):
        gateway = msgspec.structs.replace(settings.gateway, **changes)
        oidc = OidcSettings(public_key=KEY.as_pem(private=False).decode())
        return start(msgspec.structs.replace(settings, gateway=gateway, oidc=oidc))

    return run


def page(client, host="127.0.0.1:9200"):
    answer = client.get("/", headers={**BROWSER, "host": host})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:9200", "localhost", "[::1]:9200"])
def test_clients_are_shown_with_the_uri_of_this_server(client, host):
    text = page(client, host)
    assert floecat.__version__ in text
    for client_name, line in {
        "PyIceberg": f"uri=&quot;http://{host}&quot;, warehouse=&quot;floecat&quot;",
        "Spark": f"spark.sql.catalog.floecat.uri=http://{host} \\",
        "DuckDB": f"ENDPOINT &#x27;http://{host}&#x27;, AUTHORIZATION_TYPE &#x27;none&#x27;",
        "Trino": f"iceberg.rest-catalog.uri=http://{host}\n",
    }.items():
        assert f"<h2>{client_name}</h2>" in text
        assert line in text


def test_links_lead_somewhere_and_nothing_else_is_loaded(client):
    text = page(client)
    links = re.findall(r'href="([^"]+)"', text)
    for link in links:
        assert link.startswith("https://") or client.get(f"/{link}").status_code == 200, link
    assert {"schema", "health/ready", "metrics"} <= set(links)
    assert not re.search(r"<script|\bsrc=|<link|@import|url\(", text)
    headers = client.get("/", headers=BROWSER).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("accept", ["*/*", "application/json", None])
def test_programs_get_json(client, accept):
    answer = client.get("/", headers={"accept": accept} if accept else {})
    assert answer.json() == {
        "name": "Floecat",
        "version": floecat.__version__,
        "uri": "http://127.0.0.1",
        "warehouse": "floecat",
        "api": "http://127.0.0.1/schema",
        "health": "http://127.0.0.1/health/ready",
        "metrics": "http://127.0.0.1/metrics",
    }


def test_dagster_is_linked_where_it_is_known(client, changed):
    assert "Dagster" not in page(client)
    linked = changed(dagster_url='http://127.0.0.1:3000/?a=1&b="2"')
    assert 'href="http://127.0.0.1:3000/?a=1&amp;b=&quot;2&quot;">Dagster<' in page(linked)
    assert linked.get("/").json()["dagster"] == 'http://127.0.0.1:3000/?a=1&b="2"'


def test_other_hosts_are_refused_without_logins(client):
    assert client.get("/", headers={**BROWSER, "host": "evil.example"}).status_code == 403


def test_other_hosts_are_not_repeated_with_logins(changed):
    secured = changed(auth_mode="oidc", allowed_hosts=("lake.example",))
    text = page(secured, "evil.example")
    assert "evil" not in text
    assert "YOUR-SERVER" in text
    assert "http://lake.example:443" in page(secured, "lake.example:443")
    assert "AUTHORIZATION_TYPE" not in text
    assert "needs a login" in text


@pytest.mark.parametrize("host", ["a'b", "a;b", "-${IFS}", "a<b>", 'a"b'])
def test_a_host_that_is_no_name_is_not_repeated(changed, host):
    answer = changed(allowed_hosts=("*",)).get("/", headers={**BROWSER, "host": host})
    assert "YOUR-SERVER" in answer.text or answer.status_code == 400
    assert f"http://{host}" not in html.unescape(answer.text)
