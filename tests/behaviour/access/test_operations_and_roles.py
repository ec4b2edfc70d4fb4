"""Who may ask for each operation of the HTTP interface: one line each, and a new one fails without a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from litestar.testing import TestClient

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.runtime import Kernel
from floecat.settings import Settings
from tests.behaviour.access.conftest import token
from tests.behaviour.access.requests import REQUESTS, SCHEMA, operations, sent
from tests.view_documents import view_version

READ: Final = (Privilege.USE_CATALOG, Privilege.USE_SCHEMA, Privilege.READ_TABLE, Privilege.READ_VIEW)
WRITE: Final = (
    *READ,
    *(Privilege(f"{each}_schema") for each in ("create", "alter", "drop")),
    *(
        Privilege(f"{each}_{kind}")
        for kind in ("table", "view")
        for each in ("create", "write", "drop", "rename", "register")
    ),
    Privilege.PURGE_TABLE,
)
ROLES: Final = ("nobody", "analyst", "engineer", "operator", "service operator")
# What is not refused got past it: 404 and 409 are of names that are missing or taken.
OPERATIONS: Final[Mapping[str, tuple[int, int, int, int, int]]] = {
    "getConfig": (403, 200, 200, 200, 403),
    "listNamespaces": (403, 200, 200, 200, 403),
    "createNamespace": (403, 403, 409, 409, 403),
    "namespaceExists": (403, 204, 204, 204, 403),
    "loadNamespaceMetadata": (403, 200, 200, 200, 403),
    "dropNamespace": (403, 403, 409, 409, 403),
    "updateProperties": (403, 403, 200, 200, 403),
    "listTables": (403, 200, 200, 200, 403),
    "createTable": (403, 403, 409, 409, 403),
    "updateTable": (403, 403, 200, 200, 403),
    "dropTable": (403, 403, 404, 404, 403),
    "loadTable": (403, 200, 200, 200, 403),
    "tableExists": (403, 204, 204, 204, 403),
    "unregisterTable": (403, 403, 404, 404, 403),
    # no storage authority signs
    "signRequest": (403, 400, 400, 400, 403),
    "signS3Request": (403, 403, 403, 403, 403),
    "registerTable": (403, 403, 409, 409, 403),
    "renameTable": (403, 403, 404, 404, 403),
    "reportMetrics": (403, 204, 204, 204, 403),
    "planTableScan": (403, 200, 200, 200, 403),
    "fetchPlanningResult": (403, 404, 404, 404, 403),
    "cancelPlanning": (403, 404, 404, 404, 403),
    "loadCredentials": (403, 200, 200, 200, 403),
    "fetchScanTasks": (403, 404, 404, 404, 403),
    "commitTransaction": (403, 403, 404, 404, 403),
    "listViews": (403, 200, 200, 200, 403),
    "createView": (403, 403, 409, 409, 403),
    "replaceView": (403, 403, 200, 200, 403),
    "viewExists": (403, 204, 204, 204, 403),
    "loadView": (403, 200, 200, 200, 403),
    "dropView": (403, 403, 404, 404, 403),
    "registerView": (403, 403, 409, 409, 403),
    "renameView": (403, 403, 404, 404, 403),
    "listFunctions": (403, 200, 200, 200, 403),
    "loadFunction": (403, 404, 404, 404, 403),
    "createAccount": (403, 403, 403, 403, 201),
    "listAccounts": (403, 403, 403, 403, 200),
    "loadAccount": (403, 403, 403, 403, 404),
    "updateAccount": (403, 403, 403, 403, 404),
    "dropAccount": (403, 403, 403, 403, 404),
    "listMetalakes": (200, 200, 200, 200, 200),
    "loadMetalake": (200, 200, 200, 200, 200),
    "listMetalakeCatalogs": (200, 200, 200, 200, 200),
    "loadMetalakeCatalog": (403, 200, 200, 200, 403),
    "listSchemas": (403, 200, 200, 200, 403),
    "createSchema": (403, 403, 409, 409, 403),
    "loadSchema": (403, 200, 200, 200, 403),
    "alterSchema": (403, 403, 200, 200, 403),
    "dropSchema": (403, 403, 409, 409, 403),
    "getObjectOwner": (403, 403, 403, 200, 403),
    "setObjectOwner": (403, 403, 403, 404, 403),
    "listUsers": (403, 403, 403, 200, 403),
    "addUser": (403, 403, 403, 200, 403),
    "getUser": (403, 403, 403, 404, 403),
    "removeUser": (403, 403, 403, 200, 403),
    "addGroup": (403, 403, 403, 405, 403),
    "getGroup": (403, 403, 403, 200, 403),
    "listRoleNames": (403, 403, 403, 200, 403),
    "createGrantedRole": (403, 403, 403, 409, 403),
    "getGrantedRole": (403, 403, 403, 404, 403),
    "deleteGrantedRole": (403, 403, 403, 200, 403),
    "changeRolesOfUser": (403, 403, 403, 400, 403),
    "changeRolesOfGroup": (403, 403, 403, 400, 403),
    "changePrivileges": (403, 403, 403, 404, 403),
    "createCatalog": (403, 403, 403, 409, 403),
    "listCatalogs": (200, 200, 200, 200, 200),
    "updateCatalog": (403, 403, 403, 200, 403),
    "dropCatalog": (403, 403, 403, 409, 403),
    "loadCatalog": (403, 200, 200, 200, 403),
    "registerByLocation": (403, 403, 409, 409, 403),
    "explainPlan": (403, 200, 200, 200, 403),
    "putStatistics": (403, 403, 404, 404, 403),
    "listStatistics": (403, 404, 404, 404, 403),
    "loadStatistics": (403, 404, 404, 404, 403),
    "addConstraints": (403, 403, 404, 404, 403),
    "deleteConstraints": (403, 403, 404, 404, 403),
    "replaceConstraints": (403, 403, 404, 404, 403),
    "loadConstraints": (403, 404, 404, 404, 403),
    "listConstraints": (403, 200, 200, 200, 403),
    "loadIndexArtifact": (403, 404, 404, 404, 403),
    "putIndexArtifacts": (403, 403, 404, 404, 403),
    "listIndexArtifacts": (403, 404, 404, 404, 403),
    "listCapturedSnapshots": (403, 200, 200, 200, 403),
    "captureStatistics": (403, 403, 403, 200, 403),
    "replaceCapturePolicy": (403, 403, 404, 404, 403),
    "deleteCapturePolicy": (403, 403, 404, 404, 403),
    "loadCapturePolicy": (403, 200, 200, 200, 403),
    "replaceCatalogCapturePolicy": (403, 403, 403, 200, 403),
    "loadCatalogCapturePolicy": (403, 200, 200, 200, 403),
    "deleteCatalogCapturePolicy": (403, 403, 403, 200, 403),
    "listCaptures": (403, 403, 403, 200, 403),
    "loadCapture": (403, 403, 403, 404, 403),
    "cancelCapture": (403, 403, 403, 404, 403),
    "unprotectCatalog": (403, 403, 403, 204, 403),
    "protectCatalog": (403, 403, 403, 200, 403),
    "loadCatalogProtection": (403, 403, 403, 200, 403),
    "unprotectNamespace": (403, 403, 403, 404, 403),
    "protectNamespace": (403, 403, 403, 404, 403),
    "loadNamespaceProtection": (403, 403, 403, 200, 403),
    "protectTable": (403, 403, 403, 404, 403),
    "loadTableProtection": (403, 403, 403, 200, 403),
    "unprotectTable": (403, 403, 403, 404, 403),
    "loadViewProtection": (403, 403, 403, 200, 403),
    "unprotectView": (403, 403, 403, 404, 403),
    "protectView": (403, 403, 403, 404, 403),
    "loadViewDefiner": (403, 200, 200, 200, 403),
    "setViewDefiner": (403, 403, 404, 404, 403),
    "clearViewDefiner": (403, 403, 404, 404, 403),
    "listRefusals": (403, 403, 403, 200, 403),
    "listConnectors": (403, 403, 403, 200, 403),
    "createConnector": (403, 403, 403, 201, 403),
    "dropConnector": (403, 403, 403, 404, 403),
    "loadConnector": (403, 403, 403, 404, 403),
    "adoptTable": (403, 403, 403, 404, 403),
    "listConnectorDifferences": (403, 403, 403, 404, 403),
    "updateConnector": (403, 403, 403, 404, 403),
    "scanConnector": (403, 403, 403, 404, 403),
    "startScan": (403, 403, 403, 404, 403),
    "loadReconcileSettings": (403, 403, 403, 200, 403),
    "validateConnector": (403, 403, 403, 404, 403),
    "listJobs": (403, 403, 403, 200, 403),
    "loadJob": (403, 403, 403, 404, 403),
    "loadJobTree": (403, 403, 403, 404, 403),
    "retryJob": (403, 403, 403, 404, 403),
    "cancelJob": (403, 403, 403, 404, 403),
    "listPurges": (403, 403, 403, 200, 403),
    "loadPurge": (403, 403, 403, 404, 403),
    "retryPurge": (403, 403, 403, 404, 403),
    "cancelPurge": (403, 403, 403, 404, 403),
    "listPrincipals": (403, 403, 403, 200, 403),
    "updatePrincipal": (403, 403, 403, 200, 403),
    "loadPrincipal": (403, 403, 403, 404, 403),
    "dropPrincipal": (403, 403, 403, 404, 403),
    "listAuthorities": (403, 403, 403, 200, 403),
    "createAuthority": (403, 403, 403, 201, 403),
    "loadAuthority": (403, 403, 403, 404, 403),
    "updateAuthority": (403, 403, 403, 404, 403),
    "dropAuthority": (403, 403, 403, 404, 403),
    "listRoles": (403, 403, 403, 200, 403),
    "createRole": (403, 403, 403, 201, 403),
    "createBuiltInRoles": (403, 403, 403, 200, 403),
    "listRoleMembers": (403, 403, 403, 404, 403),
    "loadRole": (403, 403, 403, 404, 403),
    "dropRole": (403, 403, 403, 404, 403),
    "changeRoleMembers": (403, 403, 403, 404, 403),
    "listGrants": (403, 403, 403, 200, 403),
    "grant": (403, 403, 403, 200, 403),
    "revoke": (403, 403, 403, 200, 403),
    "loadOwner": (403, 403, 403, 200, 403),
    "replaceOwner": (403, 403, 403, 404, 403),
    "explainAccess": (403, 403, 403, 200, 403),
    "listHolders": (403, 403, 403, 200, 403),
    "listAccessChanges": (403, 403, 403, 200, 403),
    "loadOwnAccess": (200, 200, 200, 200, 200),
}


@pytest.fixture
def tokens(settings: Settings, kernel: Kernel, client: TestClient) -> dict[str, dict[str, str]]:
    """The headers of each role. There is a table and a view in a namespace, of the operator."""
    platform = token(settings, "root", "platform")
    view = {"name": "report", "schema": SCHEMA, "view-version": view_version(), "properties": {}}
    for path, body in (
        ("", {"namespace": ["inner"]}),
        ("/inner/tables", {"name": "orders", "schema": SCHEMA}),
        ("/inner/views", view),
    ):
        client.post(f"/v1/floecat/namespaces{path}", json=body, headers=platform).raise_for_status()
    operator = Actor(Principal("operator", settings.gateway.default_account_id), AllowAll())
    catalog = Securable("catalog", "floecat")
    kernel.access.access.grant(operator, [Privilege.USE_CATALOG], catalog, "group:guests")
    kernel.access.access.grant(operator, READ, catalog, "group:analysts")
    kernel.access.access.grant(operator, WRITE, catalog, "group:engineers")
    return {
        "nobody": token(settings, "nobody"),
        "guest": token(settings, "gus", "guests"),
        "analyst": token(settings, "ann", "analysts"),
        "engineer": token(settings, "eve", "engineers"),
        "operator": platform,
        "service operator": token(settings, "sue", "service"),
    }


def test_each_operation_answers_each_role_as_the_table_says(
    settings: Settings, client: TestClient, tokens: dict[str, dict[str, str]]
) -> None:
    place = f"file://{settings.data_dir}/warehouse/places"
    found: dict[str, tuple[int, ...]] = {}
    for operation in operations():
        method, url, body = sent(operation, place=place)
        answers = [client.request(method, url, json=body, headers=tokens[role]) for role in ROLES]
        found[operation] = tuple(answer.status_code for answer in answers)
        for answer in answers:
            if answer.status_code == 403 and method != "HEAD":
                told = answer.json()
                error = told.get("error", told)  # of Gravitino's form
                assert error["type"] == "ForbiddenException"
                assert "does not have the privilege" in error["message"] or "service" in error["message"]
    assert found == OPERATIONS


def test_there_is_a_request_of_each_operation() -> None:
    assert REQUESTS.keys() == operations().keys()


def test_nothing_is_answered_without_a_login(client: TestClient) -> None:
    for operation in operations():
        method, url, body = sent(operation)
        for headers in ({}, {"authorization": "Bearer no-token"}):
            assert client.request(method, url, json=body, headers=headers).status_code == 401, operation


def test_no_answer_log_or_metric_shows_a_token(
    client: TestClient,
    settings: Settings,
    tokens: dict[str, dict[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    valid = tokens["nobody"]["authorization"]
    head, claims, signature = valid.split(".")
    forged = f"{head}.{claims}.{signature[:-8]}{'A' * 8}"
    parts = {claims, signature, claims.rstrip("=")[:40], signature[:40]}
    texts = []
    for operation in operations():
        method, url, body = sent(operation)
        for value in (valid, forged, f"{valid}.x", valid.removeprefix("Bearer ")):
            answer = client.request(method, url, json=body, headers={"authorization": value})
            texts.append(answer.text + str(answer.headers))
    texts += [caplog.text, client.get("/metrics").text]
    assert "bearer token" in caplog.text.lower()
    for text in texts:
        assert not [part for part in parts if part in text]


def test_a_refusal_is_the_same_for_what_exists_and_what_does_not(
    client: TestClient, tokens: dict[str, dict[str, str]]
) -> None:
    for operation, (method, path) in operations().items():
        for name, there in (("table", "orders"), ("view", "report"), ("namespace", "inner")):
            if f"{{{name}:" not in path or OPERATIONS[operation][0] != 403:
                continue
            texts = []
            for value in (there, "missing"):
                _, url, body = sent(operation, {name: value})
                answer = client.request(method, url, json=body, headers=tokens["guest"])
                texts.append((answer.status_code, answer.text.replace(value, "NAME")))
            assert texts[0] == texts[1], operation
            # a task is looked for among those of the principal's own plans, and is missing for both
            assert texts[0][0] == (404 if operation == "fetchScanTasks" else 403), operation
