from __future__ import annotations

import pytest

from floecat.auth.browser_requests import BrowserRules

HERE = "127.0.0.1:9200"


def judge(
    method: str = "GET", rules: BrowserRules | None = None, links: bool = True, **headers: str
) -> str | None:
    given = {"host": HERE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    rules = rules or BrowserRules("127.0.0.1", setting="allowed-hosts")
    headers_sent = [(name.encode(), value.encode()) for name, value in given.items()]
    refusal = rules.refusal(method, headers_sent, links=links)
    return refusal and refusal.message


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9200", "localhost:9200", "LOCALHOST", "[::1]:9200", "127.8.9.1", "app.localhost:1"]
)
def test_names_of_loopback_are_allowed(host: str) -> None:
    assert judge(host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example.com:9200",
        "",
        "10.0.0.7:9200",
        "localhost.example.com",
        "[::2]:9200",
        "127.0.0.1.nip.io",
    ],
)
def test_other_names_are_refused_by_the_setting_that_allows_them(host: str) -> None:
    assert "allowed-hosts" in (judge(host=host) or "")


def test_names_of_the_setting_are_allowed() -> None:
    rules = BrowserRules("lake", ["Catalog.example.com"], setting="allowed-hosts")
    assert judge(rules=rules, host="catalog.example.COM:9200") is None
    assert judge(rules=rules, host="lake:9200") is None
    assert judge(rules=rules, host="example.com") is not None
    assert judge(rules=BrowserRules("lake", ["*"], setting="x"), host="anything") is None


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_a_service_on_every_address_allows_addresses_and_no_names(bound: str) -> None:
    rules = BrowserRules(bound, setting="allowed-hosts")
    assert judge(rules=rules, host="10.0.0.7:9200") is None
    assert judge(rules=rules, host="[2001:db8::1]:9200") is None
    assert judge(rules=rules, host="rebound.example.com:9200") is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "origin", ["https://example.com", "null", "http://127.0.0.1:3000", "http://localhost:9200"]
)
def test_pages_of_other_origins_are_refused(method: str, origin: str) -> None:
    assert judge(method, origin=origin, content_type="application/json") is not None


def test_a_header_that_is_sent_twice_has_no_value_that_is_allowed() -> None:
    rules = BrowserRules("127.0.0.1", setting="allowed-hosts")
    own = [
        (b"host", HERE.encode()),
        (b"origin", f"http://{HERE}".encode()),
        (b"sec-fetch-site", b"same-origin"),
    ]
    foreign = [(b"host", b"example.com"), (b"origin", b"https://example.com"), (b"sec-fetch-site", b"none")]
    assert rules.refusal("GET", own) is None
    for header in foreign:
        assert rules.refusal("GET", [*own, header]) is not None
        assert rules.refusal("GET", [header, *own]) is not None


def test_a_page_of_the_service_itself_is_allowed() -> None:
    own = {"origin": "http://127.0.0.1:9200", "sec_fetch_site": "same-origin"}
    assert judge("POST", content_type="application/json", **own) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_only_links_to_what_is_read_come_from_other_sites(site: str) -> None:
    assert judge(sec_fetch_site=site, sec_fetch_dest="document") is None
    assert judge(sec_fetch_site=site, sec_fetch_dest="document", links=False) is not None
    assert judge(sec_fetch_site=site, sec_fetch_dest="image") is not None
    assert judge(sec_fetch_site=site, sec_fetch_dest="iframe") is not None
    assert judge("DELETE", sec_fetch_site=site, sec_fetch_dest="document") is not None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_length": "0"},
        {"content_type": "application/json"},
        {"content_type": "Application/JSON; charset=utf-8"},
        {"x_client_version": "1"},
        {"idempotency_key": "k"},
        {"authorization": "bearer None"},
    ],
)
def test_a_post_that_a_page_cannot_send_is_allowed(headers: dict[str, str]) -> None:
    assert judge("POST", **headers) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"content_length": "2"},
        {"transfer_encoding": "chunked"},
        {"content_type": ""},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "text/plain; application/json"},
        {"authorization": "Basic Zm9vOmJhcg==", "content_length": "2"},
    ],
)
def test_a_post_that_a_page_can_send_is_refused(headers: dict[str, str]) -> None:
    assert "Content-Type: application/json" in (judge("POST", **headers) or "")
