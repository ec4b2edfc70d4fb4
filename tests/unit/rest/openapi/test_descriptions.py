"""The OpenAPI documents, held against the application that they describe."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
import yaml
from litestar import Litestar

from floecat.auth.principals import Principal
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings import GatewaySettings
from floecat_rest.app import CONTROLLERS
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.openapi.descriptions import Descriptions
from floecat_rest.openapi.operations import served_operations
from tests.scan_files import WrittenAppends
from tests.unit.rest.conftest import SCHEMA

NAMES = ("iceberg", "management")
METHODS = ("get", "head", "post", "put", "delete", "patch")
VIEW = {
    "name": "v",
    "schema": {"type": "struct", "schema-id": 0, "fields": []},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["sales"],
    },
    "properties": {},
}
PROPERTIES = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
REGISTRATION = {"name": "r", "metadata-location": "file:///nowhere/v1.metadata.json"}
SIGNED = {"region": "r", "uri": "https://s3.amazonaws.com/b/k", "method": "GET", "headers": {}}
BODIES = {
    "createNamespace": [{"namespace": ["made"]}],
    "createTable": [{"name": "made", "schema": SCHEMA}],
    "createView": [VIEW],
    "updateTable": [PROPERTIES],
    "replaceView": [PROPERTIES],
    "planTableScan": [{}],
    "fetchScanTasks": [{"plan-task": "missing"}],
    "registerTable": [REGISTRATION],
    "registerView": [REGISTRATION],
    "commitTransaction": [
        {"table-changes": [{"identifier": {"namespace": ["sales"], "name": "orders"}} | PROPERTIES]}
    ],
    "reportMetrics": [{"report-type": "unknown"}],
    "signRequest": [SIGNED],
    "signS3Request": [SIGNED],
    "getToken": [{}],
    "updateCatalog": [{}],
}
"""For operations whose specification has no example."""

_OF_VIEWS = ("loadViewProtection", "protectView", "unprotectView")
_OF_VIEWS += ("loadViewDefiner", "setViewDefiner", "clearViewDefiner")
OTHERS = {
    "unregisterTable": {"table": "made"},
    "dropTable": {"table": "spare"},
    **{name: {"view": "seen"} for name in _OF_VIEWS},
    "dropCatalog": {"catalog": "spare"},
    "dropNamespace": {"namespace": "made"},
    "removeUser": {"user": "spare"},
    "deleteGrantedRole": {"role": "spare"},
}
"""What operations remove that others do not need."""

FAILED = {
    # nothing of this kind exists
    "loadFunction",
    "loadIndexArtifact",
    "fetchPlanningResult",
    "cancelPlanning",
    "fetchScanTasks",
    # no connector follows a catalog
    "adoptTable",
    # the files, the sources and the report of the requests do not exist
    "registerTable",
    "registerView",
    "renameTable",
    "renameView",
    "reportMetrics",
    "getToken",
    # groups come with tokens
    "addGroup",
    # no storage authority signs
    "signRequest",
    "signS3Request",
    # its example names a bucket
    "putIndexArtifacts",
}
"""Operations that are answered with a documented error here."""


@pytest.fixture(scope="module")
def routes():
    return Litestar(CONTROLLERS, request_class=CatalogRequest, openapi_config=None).routes


@pytest.fixture(scope="module")
def documents(client):
    return {name: client.get(f"/schema/{name}.json").json() for name in NAMES}


@pytest.fixture(scope="module")
def made(client, opened_kernel):
    """Values of path parameters; what they name exists, as far as the documented requests do not make it."""
    client.post("/v1/namespaces", json={"namespace": ["sales"]}).raise_for_status()
    tables = "/v1/floecat/namespaces/sales/tables"
    amount = {"id": 9, "name": "amount", "required": False, "type": "double"}
    schema = SCHEMA | {"fields": [*SCHEMA["fields"], amount]}
    for name in ("orders", "spare", "dropped"):
        client.post(tables, json={"name": name, "schema": schema}).raise_for_status()
    client.post("/v1/floecat/namespaces/sales/views", json=VIEW | {"name": "seen"}).raise_for_status()
    call = opened_kernel.catalog.calls.open(
        Principal("ada", opened_kernel.settings.gateway.default_account_id), "floecat"
    )
    seen = call.on_entry("view", TableIdentifier(("sales",), "seen"))
    opened_kernel.access.access.set_owner(call, seen, "principal:ada")
    orders = client.get(f"{tables}/orders").json()["metadata"]["location"]
    client.post(f"{tables}/orders", json={"updates": WrittenAppends(orders).append(1)}).raise_for_status()
    client.post("/management/v1/principals/ada", json={"disabled": False}).raise_for_status()
    captures = "/management/v1/catalogs/floecat/namespaces/sales/tables/orders/captures"
    capture = client.post(captures, json={"wait-seconds": 0}).json()["captures"][0]["id"]
    client.delete(f"{tables}/dropped?purgeRequested=true").raise_for_status()
    settings = opened_kernel.settings
    location = f"{settings.warehouse_location}/documented"
    opened_kernel.catalog.catalogs.create(
        settings.gateway.default_account_id, "spare", f"{settings.warehouse_location}-spare"
    )
    log = Path(location.removeprefix("file://"), "_delta_log")
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{}")
    purges = client.get("/management/v1/catalogs/floecat/purges?table=sales.dropped").json()["purges"]
    return {
        "prefix": "floecat",
        "namespace": "sales",
        "table": "orders",
        "view": "v",
        "function": "f",
        "plan-id": "0198c7a0-0000-7000-8000-000000000001",
        "job": purges[0]["id"],
        "purge": purges[0]["id"],
        "capture": capture,
        "connector": "lake",
        "metalake": str(settings.gateway.default_account_id),
        "location": location,
        "lakes": settings.storage.addable_locations[0],
    }


def operations(document):
    """Path, method and operation; the parameters of the path are added to those of the operation."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                parameters = [*item.get("parameters", []), *item[method].get("parameters", [])]
                yield path, method, item[method] | {"parameters": parameters}


def value_of(values, name):
    return values[name[1]]


def bodies(document, operation, made):
    """Documented bodies, and one that is made for this server."""
    if "requestBody" not in operation:
        return [None]
    (media,) = operation["requestBody"]["content"].values()
    documented = [*examples(document, media)]
    # an example names a place in a bucket; this server has tables in a folder
    here = [
        body | {"location": made["location"], "name": made["connector"]}
        for body in documented
        if "location" in body
    ]
    here += [body | {"storage-location": made["lakes"]} for body in documented if "storage-location" in body]
    return [*documented, *here, *BODIES.get(operation["operationId"], [])]


def resolved(document, part):
    while "$ref" in part:
        _, *keys = part["$ref"].split("/")
        part = document
        for key in keys:
            part = part[key]
    return part


def validator(document, schema):
    return jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


def examples(document, media):
    if "example" in media:
        yield media["example"]
    for example in media.get("examples", {}).values():
        yield resolved(document, example)["value"]


def check_answer(document, operation, answer, method):
    """The status, the media type and the body are documented."""
    assert answer.status_code < 500, (operation["operationId"], answer.text)
    named = operation["responses"]
    found = named.get(str(answer.status_code)) or named.get(f"{answer.status_code // 100}XX")
    assert found is not None, (operation["operationId"], answer.status_code, answer.text)
    content = resolved(document, found).get("content")
    if content is None or method == "head":
        assert not answer.content, operation["operationId"]
        return
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content, operation["operationId"]
    if kind == "application/json":
        validator(document, content[kind]["schema"]).validate(answer.json())


def test_every_route_is_described_and_nothing_else(routes, documents):
    served = {(operation.path, operation.method) for operation in served_operations(routes)}
    described = [(path, method) for name in NAMES for path, method, _ in operations(documents[name])]
    assert len(described) == len(set(described))
    assert set(described) == served


def test_every_operation_that_reads_a_body_describes_it(routes, documents):
    described = {
        (path, method): operation for name in NAMES for path, method, operation in operations(documents[name])
    }
    for served in served_operations(routes):
        operation = described[served.path, served.method]
        # the grants of tokens are not read, as all are refused
        if served.handler.operation_id != "getToken":
            reads = "body" in served.handler.parsed_fn_signature.parameters
            assert reads == ("requestBody" in operation), served.path
        named = {
            resolved(documents["iceberg"], each)["name"] if "$ref" in each else each["name"]
            for each in operation.get("parameters", [])
        }
        if served.path.startswith("/management"):
            assert set(re.findall(r"{(\w+)}", served.path)) <= named


def test_documents_are_whole(documents):
    for document in documents.values():
        text = str(document)
        for reference in set(re.findall(r"'\$ref': '(#/[^']+)'", text)):
            assert resolved(document, {"$ref": reference})
        for schema in document["components"]["schemas"].values():
            validator(document, schema)


@pytest.mark.parametrize("name", NAMES)
def test_yaml_and_json_are_equal(client, documents, name):
    answer = client.get(f"/schema/{name}.yaml")
    assert answer.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(answer.text) == documents[name]


def test_an_unknown_document_is_answered_with_the_names_of_others(client):
    answer = client.get("/schema/openapi.json")
    assert answer.status_code == 404
    assert "iceberg.json, iceberg.yaml, management.json" in answer.json()["error"]["message"]


def test_examples_fit_their_schemas(documents):
    checked = 0
    for document in documents.values():
        for _, _, operation in operations(document):
            parts = [operation.get("requestBody", {}), *operation["responses"].values()]
            for part in parts:
                for media in resolved(document, part).get("content", {}).values():
                    for example in examples(document, media):
                        validator(document, media["schema"]).validate(example)
                        checked += 1
    assert checked > 50


@pytest.mark.parametrize("name", NAMES)
def test_documented_requests_get_documented_answers(client, documents, made, name):
    document = documents[name]
    # what makes things comes first, what removes them last
    order = {
        "createNamespace": 0,
        "createTable": 1,
        "createView": 1,
        "createConnector": 1,
        "createRole": 1,
        "createSchema": 1,
        "delete": 3,
    }
    cases = sorted(
        operations(document), key=lambda case: order.get(case[2]["operationId"], order.get(case[1], 2))
    )
    succeeded = set()
    for path, method, operation in cases:
        parameters = [resolved(document, each) for each in operation.get("parameters", [])]
        values = {each["name"]: each["example"] for each in parameters if "example" in each}
        values |= made | OTHERS.get(operation["operationId"], {})
        url = re.sub(r"{([\w-]+)}", partial(value_of, values), path)
        for body in bodies(document, operation, made):
            content = b"" if body is None else msgspec.json.encode(body)
            headers = {} if body is None else {"content-type": "application/json"}
            answer = client.request(method.upper(), url, content=content, headers=headers)
            check_answer(document, operation, answer, method)
            if answer.is_success:
                succeeded.add(operation["operationId"])
    failed = {operation["operationId"] for *_, operation in cases} - succeeded
    assert failed == FAILED & {operation["operationId"] for *_, operation in cases}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"content": b"{"}, 400),
        ({"content": b'{"unknown": 1}'}, 400),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"headers": {"host": "evil.example"}}, 403),
        ({"headers": {"idempotency-key": "short"}}, None),
        ({"params": {"pageSize": "0", "state": "NONE", "force": "perhaps"}}, None),
        ({"names": {"catalog": "missing"}}, 404),
        ({"names": {"catalog": "%FF"}}, 400),
    ],
)
def test_broken_requests_get_documented_errors(client, documents, made, changes, status):
    """A status of None: whatever is documented."""
    document = documents["management"]
    options = {key: value for key, value in changes.items() if key != "names"}
    names = changes.get("names", {})
    answers = []
    for path, method, operation in operations(document):
        if names and "{catalog}" not in path:
            continue
        if path.startswith("/management") and ("content" not in changes or "requestBody" in operation):
            values = {each["name"]: each.get("example") for each in operation["parameters"]} | made | names
            sent = {"content": b"{}"} if "requestBody" in operation and not names else {}
            if names and "requestBody" in operation:
                sent = {"json": operation["requestBody"]["content"]["application/json"]["example"]}
            url = re.sub(r"{([\w-]+)}", partial(value_of, values), path)
            answer = client.request(method.upper(), url, **{**sent, **options})
            check_answer(document, operation, answer, method)
            answers.append(answer.status_code)
    assert answers
    if status is not None:
        assert set(answers) == {status}


def test_conflicts_of_purges_are_documented(client, documents, made):
    document = documents["management"]
    described = {operation["operationId"]: operation for *_, operation in operations(document)}
    url = f"/management/v1/catalogs/floecat/purges/{made['purge']}"
    client.post(f"{url}/retry")
    client.post(f"{url}/cancel")
    for action, name in (("cancel", "cancelPurge"), ("retry", "retryPurge"), ("retry", "retryPurge")):
        answer = client.post(f"{url}/{action}")
        check_answer(document, described[name], answer, "post")
    assert answer.status_code == 409


def test_without_logins_no_security_is_described(documents):
    for document in documents.values():
        assert document["security"] == []
        assert "securitySchemes" not in document["components"]


@pytest.mark.parametrize(
    ("header", "scheme"),
    [
        ("authorization", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}),
        ("X-Token", {"type": "apiKey", "in": "header", "name": "X-Token", "description": "`Bearer <JWT>`"}),
    ],
)
def test_logins_are_described(routes, header, scheme):
    gateway = GatewaySettings(auth_mode="oidc", auth_header=header)
    for document in Descriptions(routes, gateway).documents.values():
        ((name, described),) = document["components"]["securitySchemes"].items()
        assert described == scheme
        assert document["security"] == [{name: []}]
    management = Descriptions(routes, gateway).documents["management"]
    assert management["paths"]["/health/live"]["get"]["security"] == []
    purges = management["paths"]["/management/v1/catalogs/{catalog}/purges"]["get"]
    assert "401" in purges["responses"]
    assert "security" not in purges


def test_the_page_lists_every_operation_and_loads_nothing(client, documents):
    answer = client.get("/schema", headers={"accept": "text/html"})
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<script|\bsrc=|<link|@import|url\(", answer.text)
    for name, document in documents.items():
        for path, _, operation in operations(document):
            assert f'id="{name}-{operation["operationId"]}"' in answer.text
            assert path in answer.text
    targets = set(re.findall(r'href="#([^"]+)"', answer.text))
    assert len(targets) > 100
    assert targets <= set(re.findall(r'id="([^"]+)"', answer.text))
