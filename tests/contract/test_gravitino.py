"""The API in Gravitino's shape, over the same namespaces as the Iceberg side."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uuid_utils

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, unique

ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
PYTHON_CLIENT = {"user-agent": "Python-urllib/3.11", "x-client-version": "1.3.1"}


class Schemas:
    """The schemas of a catalog, by requests of the shapes that clients were seen to send."""

    def __init__(self, catalog: Catalog, top: str) -> None:
        self.catalog = catalog
        self.top = top
        self.path = f"/api/metalakes/{ACCOUNT}/catalogs/{catalog.warehouse}/schemas"

    def send(self, method: str, name: str = "", body: Any = None, **options: Any) -> httpx.Response:
        path = f"{self.path}/{quote(name, safe='')}" if name else self.path
        return self.catalog.http.request(method, path, json=body, **options)

    def create(self, name: str, **body: Any) -> dict[str, Any]:
        answer = self.send("POST", body={"name": name, "comment": None, "properties": {}, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()["schema"]

    def names(self, parent: str | None = None) -> list[str]:
        answer = self.send("GET", params={"parentSchema": parent} if parent else None)
        assert answer.status_code == 200, answer.text
        found = answer.json()["identifiers"]
        assert all(each["namespace"] == [ACCOUNT, self.catalog.warehouse] for each in found)
        return [each["name"] for each in found]


@pytest.fixture
def schemas(local_catalog: Catalog) -> Schemas:
    return Schemas(local_catalog, unique("top"))


@pytest.fixture
def flat(local_catalog: Catalog) -> Iterator[Schemas]:
    """The catalog while it is flat; afterwards it is nested again."""
    management = f"/management/v1/catalogs/{local_catalog.warehouse}"
    assert local_catalog.http.post(management, json={"nested": False}).json()["schema-separator"] is None
    yield Schemas(local_catalog, unique("flat"))
    assert local_catalog.http.post(management, json={"nested": True}).json()["schema-separator"] == ":"


def refused(answer: httpx.Response, status: int, code: int, kind: str) -> str:
    """Checks an error, and returns its message."""
    body = answer.json()
    assert (answer.status_code, body["code"], body["type"]) == (status, code, kind), answer.text
    assert body["stack"] == []
    assert "%" not in body["message"]
    return body["message"]


def test_a_chain_is_made_at_once_and_is_the_same_tree_on_both_sides(schemas: Schemas):
    name = f"{schemas.top}:B:C"
    made = schemas.create(name, comment="nested", properties={"k": "v", "n": 1, "b": True})
    assert (made["name"], made["comment"]) == (name, "nested")
    assert {key: made["properties"][key] for key in "knb"} == {"k": "v", "n": "1", "b": "true"}
    assert made["audit"]["createTime"].endswith("Z")
    assert schemas.top in schemas.names()
    assert schemas.names(schemas.top) == [f"{schemas.top}:B"]
    assert schemas.names(f"{schemas.top}:B") == [name]
    assert schemas.names(name) == []
    catalog = schemas.catalog
    assert catalog.children((schemas.top, "B")) == [(schemas.top, "B", "C")]
    loaded = catalog.get(catalog.namespace_path((schemas.top, "B", "C"))).json()
    assert loaded["properties"]["comment"] == "nested"
    catalog.create_namespace((schemas.top, "B", "from.iceberg 100%"), {"comment": "other"})
    assert schemas.names(f"{schemas.top}:B")[-1] == f"{schemas.top}:B:from.iceberg 100%"
    shown = schemas.send("GET", f"{schemas.top}:B:from.iceberg 100%").json()["schema"]
    assert (shown["comment"], "comment" in shown["properties"]) == ("other", False)


def test_an_alteration_changes_the_schema_alone_and_the_last_change_of_a_key_counts(schemas: Schemas):
    name = f"{schemas.top}:B"
    schemas.create(name, properties={"kept": "1", "gone": "2"})
    updates = [
        {"@type": "setProperty", "property": "p", "value": "1"},
        {"@type": "removeProperty", "property": "p"},
        {"@type": "removeProperty", "property": "gone"},
        {"@type": "removeProperty", "property": "never there"},
        {"@type": "removeProperty", "property": "q"},
        {"@type": "setProperty", "property": "q", "value": 2},
    ]
    answer = schemas.send("PUT", name, {"updates": updates})
    changed = answer.json()["schema"]
    changed["properties"].pop("location")
    assert (answer.status_code, changed["properties"]) == (200, {"kept": "1", "q": "2"})
    assert changed["audit"]["lastModifiedTime"] >= changed["audit"]["createTime"]
    parent = schemas.send("GET", schemas.top).json()["schema"]
    assert parent["properties"].keys() == {"location"}
    assert "lastModifiedTime" not in parent["audit"]
    assert schemas.send("PUT", name, {"updates": []}).status_code == 200


def test_a_drop_says_what_is_in_the_way_and_is_never_one_of_more(schemas: Schemas):
    name = f"{schemas.top}:B"
    schemas.create(f"{name}:C")
    schemas.catalog.create_table((schemas.top, "B"))
    schemas.catalog.create_table((schemas.top, "B"))
    schemas.catalog.create_view((schemas.top, "B"))
    answer = schemas.send("DELETE", name, params={"cascade": "False"})
    message = refused(answer, 409, 1005, "NonEmptySchemaException")
    assert message == f"Namespace {name} is not empty: it holds 1 namespace, 2 tables, 1 view"
    for empty in (name, f"{name}:C"):
        answer = schemas.send("DELETE", empty, params={"cascade": "True"})
        assert refused(answer, 400, 1001, "IllegalArgumentException") == (
            "Unsupported parameter cascade: drop what is in the schema first, then the schema"
        )
    answers = [schemas.send("DELETE", f"{name}:C", params={"cascade": word}) for word in ("yes", "false")]
    assert [each.json() for each in answers] == [{"dropped": True, "code": 0}, {"dropped": False, "code": 0}]


ILLEGAL = (400, 1001, "IllegalArgumentException")
MISSING = (404, 1003, "NoSuchSchemaException")


@pytest.mark.parametrize(
    ("method", "name", "body", "error", "text"),
    [
        ("GET", "{}:nope", None, MISSING, "Namespace does not exist: {}:nope"),
        ("PUT", "{}:nope", {"updates": []}, MISSING, "Namespace does not exist: {}:nope"),
        ("POST", "", {"name": "{}"}, (409, 1004, "SchemaAlreadyExistsException"),
         "Namespace already exists: {}"),
        ("POST", "", {"name": "{}:"}, ILLEGAL, "Invalid schema name '{}:': a level is empty"),
        ("POST", "", {"name": ":{}"}, ILLEGAL, "Invalid schema name ':{}': a level is empty"),
        ("POST", "", {"name": "{}::B"}, ILLEGAL, "Invalid schema name '{}::B': a level is empty"),
        ("POST", "", {"name": "{}:a\u0001b"}, ILLEGAL, "Invalid namespace level: holds a control character"),
        ("POST", "", {"name": "{}:..:b"}, ILLEGAL, "Invalid namespace level: must not be '.' or '..'"),
        ("POST", "", {"name": "{}:" + "x" * 1000}, ILLEGAL, "Invalid namespace level: longer than 255 bytes"),
        ("POST", "", {"name": "{}" + ":x" * 32}, ILLEGAL, "Invalid namespace: more than 32 levels"),
        ("POST", "", {"name": "{}:" + ":".join(["x" * 250] * 8)}, ILLEGAL,
         "Invalid namespace: the name with all its levels is too long"),
        ("POST", "", {"name": "{}:x", "properties": {"location": "%"}}, ILLEGAL,
         "Invalid location '\uff05': must be an absolute URI or path"),
        ("POST", "", {"name": "{}:x", "bogus": 1}, ILLEGAL,
         "Invalid body: Object contains unknown field `bogus`"),
        ("POST", "", {"comment": "c"}, ILLEGAL, "Invalid body: Object missing required field `name`"),
        ("PUT", "{}", {"updates": [{"@type": "rename"}]}, ILLEGAL,
         "Invalid body: Invalid value 'rename' - at `$.updates[0].@type`"),
        ("PATCH", "{}", None, (405, 1006, "UnsupportedOperationException"), "Method Not Allowed"),
    ],
)  # fmt: skip
def test_refusals(
    schemas: Schemas, method: str, name: str, body: Any, error: tuple[int, int, str], text: str
):
    schemas.create(schemas.top)
    if isinstance(body, dict) and "name" in body:
        body = {**body, "name": body["name"].replace("{}", schemas.top)}
    message = refused(schemas.send(method, name.replace("{}", schemas.top), body), *error)
    assert message == text.replace("{}", schemas.top)
    assert schemas.names(schemas.top) == []


def test_names_of_a_thousand_characters(schemas: Schemas):
    name = ":".join([schemas.top, *("\u00fc" * 120 for _ in range(4)), "x" * 250, "y" * 250])
    assert len(name) > 1_000
    schemas.create(name, properties={"k": "v"})
    parent = name.rpartition(":")[0]
    assert schemas.names(parent) == [name]
    updates = [{"@type": "removeProperty", "property": "k"}]
    assert "k" not in schemas.send("PUT", name, {"updates": updates}).json()["schema"]["properties"]
    assert schemas.catalog.children(tuple(parent.split(":"))) == [tuple(name.split(":"))]
    assert schemas.send("DELETE", name).json()["dropped"]
    unknown = f"{schemas.top}:{'x' * 1000}"
    for answer in (
        schemas.send("GET", unknown),
        schemas.send("PUT", unknown, {"updates": []}),
        schemas.send("GET", params={"parentSchema": unknown}),
    ):
        refused(answer, *MISSING)
    assert not schemas.send("DELETE", unknown).json()["dropped"]


def test_requests_of_other_sites_and_of_no_json_are_refused_in_the_same_form(schemas: Schemas):
    url = schemas.catalog.http.base_url.join(schemas.path)
    answer = httpx.post(url, data={"name": "A"}, timeout=60)
    message = refused(answer, 415, 1001, "IllegalArgumentException")
    assert message == "A POST needs the header Content-Type: application/json"
    answer = httpx.get(url, headers={"origin": "https://elsewhere.example"}, timeout=60)
    refused(answer, 403, 1008, "ForbiddenException")


def test_a_missing_parent_and_catalog(schemas: Schemas):
    answer = schemas.send("GET", params={"parentSchema": f"{schemas.top}:none"})
    refused(answer, 404, 1003, "NoSuchSchemaException")
    schemas.path = schemas.path.replace(f"/{schemas.catalog.warehouse}/", "/none/")
    refused(schemas.send("GET"), 404, 1003, "NoSuchCatalogException")


def test_a_metalake_is_the_account_and_others_are_refused_the_same(local_catalog: Catalog):
    http = local_catalog.http
    shown = http.get(f"/api/metalakes/{ACCOUNT}").json()["metalake"]
    assert shown == http.get("/api/metalakes").json()["metalakes"][0] | {"name": ACCOUNT}
    for other in ("none", "018f3b1e-7b7a-7000-8000-000000000000", ""):
        for path in ("", "/catalogs", f"/catalogs/{local_catalog.warehouse}/schemas"):
            if other:
                answer = http.get(f"/api/metalakes/{other}{path}")
                assert other in refused(answer, 403, 1008, "ForbiddenException")
    refused(http.post("/api/metalakes", json={"name": "new"}), 405, 1006, "UnsupportedOperationException")


def test_catalogs_are_listed_and_loaded(local_catalog: Catalog):
    path = f"/api/metalakes/{ACCOUNT}/catalogs"
    listed = local_catalog.http.get(path).json()["identifiers"]
    assert {"namespace": [ACCOUNT], "name": local_catalog.warehouse} in listed
    detailed = local_catalog.http.get(path, params={"details": "true"}).json()["catalogs"]
    loaded = local_catalog.http.get(f"{path}/{local_catalog.warehouse}").json()["catalog"]
    assert loaded in detailed
    assert (loaded["type"], loaded["provider"]) == ("relational", "lakehouse-iceberg")
    answer = local_catalog.http.get(f"{path}/none")
    refused(answer, 404, 1003, "NoSuchCatalogException")


def test_clients_learn_the_separator_and_the_version(local_catalog: Catalog):
    configs = local_catalog.http.get("/configs").json()
    assert configs["gravitino.schema.separator"] == ":"
    assert local_catalog.load_config()["defaults"]["gravitino.schema.separator"] == ":"
    version = local_catalog.http.get("/api/version").json()["version"]["version"]
    assert tuple(map(int, version.split("."))) >= (1, 3)


def test_only_the_name_of_the_python_client_is_decoded(schemas: Schemas):
    schemas.create(f"{schemas.top}:a%3Ab")
    body = {"name": quote(f"{schemas.top}:50%25 + x", safe="")}
    made = schemas.send("POST", body=body, headers=PYTHON_CLIENT).json()["schema"]
    assert made["name"] == f"{schemas.top}:50%25 + x"
    assert sorted(schemas.names(schemas.top)) == [f"{schemas.top}:50%25 + x", f"{schemas.top}:a%3Ab"]
    answer = schemas.send("POST", body={"name": f"{schemas.top}:50%2"}, headers=PYTHON_CLIENT)
    refused(answer, 400, 1001, "IllegalArgumentException")


def test_a_plus_in_a_path_is_a_plus_or_the_blank_of_the_java_client(schemas: Schemas):
    schemas.create(f"{schemas.top}:a b")
    http, path = schemas.catalog.http, f"{schemas.path}/{schemas.top}%3Aa+b"
    assert http.get(path).json()["schema"]["name"] == f"{schemas.top}:a b"
    schemas.create(f"{schemas.top}:a+b")
    assert http.get(path).json()["schema"]["name"] == f"{schemas.top}:a+b"
    assert http.delete(path).json()["dropped"]
    assert schemas.names(schemas.top) == [f"{schemas.top}:a b"]


def test_a_create_that_is_sent_again_is_answered_the_same(schemas: Schemas):
    key = {"idempotency-key": str(uuid_utils.uuid7())}
    first = schemas.send("POST", body={"name": f"{schemas.top}:B"}, headers=key)
    again = schemas.send("POST", body={"name": f"{schemas.top}:B"}, headers=key)
    assert (first.status_code, again.json()) == (200, first.json())
    loaded = schemas.send("GET", f"{schemas.top}:B").json()
    assert loaded == first.json()
    assert schemas.send("DELETE", f"{schemas.top}:B").json()["dropped"]
    assert schemas.send("POST", body={"name": f"{schemas.top}:B"}, headers=key).status_code == 200
    assert schemas.names(schemas.top) == []


def test_the_java_client_sends_these_requests(schemas: Schemas):
    """Paths by URLEncoder and bodies as they are, as `BaseSchemaCatalog` of its sources makes them."""
    java = {"accept": "application/vnd.gravitino.v1+json", "content-type": "application/json"}
    java["user-agent"] = "Apache-HttpClient/5.4.4 (Java/17.0.15)"
    http = schemas.catalog.http

    def send(method: str, path: str = "", body: object = None) -> Any:
        answer = http.request(method, f"{schemas.path}{path}", json=body, headers=java)
        assert answer.headers["content-type"].startswith("application/json")
        return answer.json()

    body = {"name": f"{schemas.top}:50% a+b", "comment": "c", "properties": {"k": "v"}}
    made = send("POST", "", body)
    assert (made["code"], made["schema"]["name"]) == (0, body["name"])
    assert made["schema"].keys() >= {"name", "comment", "properties", "audit"}
    encoded = f"/{schemas.top}%3A50%25+a%2Bb"
    assert send("GET", encoded)["schema"] == made["schema"]
    listed = send("GET", f"?parentSchema={schemas.top}")["identifiers"]
    assert listed == [{"namespace": [ACCOUNT, schemas.catalog.warehouse], "name": body["name"]}]
    updates = [
        {"@type": "setProperty", "property": "p", "value": "1"},
        {"@type": "removeProperty", "property": "k"},
    ]
    properties = send("PUT", encoded, {"updates": updates})["schema"]["properties"]
    assert {key: properties[key] for key in properties if key != "location"} == {"p": "1"}
    assert send("DELETE", f"{encoded}?cascade=false") == {"code": 0, "dropped": True}
    assert send("DELETE", f"{encoded}?cascade=true")["code"] == 1001


def test_close_is_answered(local_catalog: Catalog):
    host, port = local_catalog.http.base_url.host, local_catalog.http.base_url.port
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(b"CLOSE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b'{"code":0}')


def test_a_level_with_the_separator_is_refused_on_the_iceberg_side(schemas: Schemas):
    for levels in ([f"{schemas.top}:b"], [schemas.top, "b:c", "d"]):
        answer = schemas.catalog.post("/namespaces", {"namespace": levels})
        assert "separator ':'" in assert_error(answer, 400, "BadRequestException")
    assert schemas.top not in schemas.names()


def test_a_flat_catalog_takes_names_as_they_are(flat: Schemas):
    name = f"{flat.top}:b"
    assert flat.create(name)["name"] == name
    assert flat.catalog.get(flat.catalog.namespace_path((name,))).status_code == 200
    assert name in flat.names()
    answer = flat.send("GET", params={"parentSchema": flat.top})
    message = refused(answer, 405, 1006, "UnsupportedOperationException")
    assert message == f"Catalog {flat.catalog.warehouse} is flat: its schemas have no children"
    management = f"/management/v1/catalogs/{flat.catalog.warehouse}"
    answer = flat.catalog.http.post(management, json={"nested": True})
    assert repr(name) in assert_error(answer, 409, "ConflictException")
    assert flat.send("DELETE", name).json()["dropped"]


def test_of_chains_that_are_made_at_once_none_is_half(schemas: Schemas):
    names = [f"{schemas.top}:{a}:{b}" for a in "xy" for b in "pq"] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: schemas.send("POST", body={"name": name}), names))
    assert {each.status_code for each in answers} <= {200, 409}
    assert sum(each.status_code == 200 for each in answers) == len(set(names))
    assert [schemas.names(f"{schemas.top}:{a}") for a in "xy"] == [
        [f"{schemas.top}:{a}:{b}" for b in "pq"] for a in "xy"
    ]
