"""A request of every operation of the HTTP interface, to be sent by whoever a test is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from litestar import Litestar
from litestar.routes import HTTPRoute

from floecat.settings import GatewaySettings
from floecat_rest.app import CONTROLLERS
from floecat_rest.http.options import PUBLIC
from floecat_rest.http.requests import CatalogRequest
from tests.view_documents import view_version

__all__ = ["PLACE", "REQUESTS", "SCHEMA", "Sent", "operations", "sent"]

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
PLACE = "file:///nowhere"
_ID = "018f3b1e-7b7a-7000-8000-000000000000"
_NAMES = {"namespace": ["inner"], "name": "gone"}
_VIEW = {"schema": SCHEMA, "view-version": view_version(), "properties": {}}

_FOUND: Mapping[str, str] = {
    "prefix": "floecat",
    "catalog": "floecat",
    "namespace": "inner",
    "table": "orders",
    "view": "report",
    "function": "f",
    "plan-id": _ID,
    "capture": _ID,
    "job": _ID,
    "purge": _ID,
    "connector": "gone",
    "target": "table",
    "account": _ID,
    "principal": "gone",
    "role": "gone",
    "authority": "gone",
    "privilege": "read_table",
    "document": "iceberg.yaml",
    "metalake": str(GatewaySettings().default_account_id),
    "schema": "inner",
    "type": "schema",
    "object": "floecat.inner",
    "user": "gone",
    "group": "gone",
    "change": "grant",
}
_GONE = {"table": "gone", "view": "gone", "namespace": "gone"}


class Sent(NamedTuple):
    """The part of a request that its operation does not tell."""

    body: object = None
    query: str = ""
    of: Mapping[str, str] = {}
    """Values of parameters of the path: by default those of what is there."""


_ON_TABLE = "on=table:floecat.inner.orders"

REQUESTS: Mapping[str, Sent] = {
    "getConfig": Sent(query="warehouse=floecat"),
    "listNamespaces": Sent(),
    "createNamespace": Sent({"namespace": ["inner"]}),
    "dropNamespace": Sent(),
    "namespaceExists": Sent(),
    "loadNamespaceMetadata": Sent(),
    "updateProperties": Sent({"removals": ["no-such"]}),
    "listTables": Sent(),
    "createTable": Sent({"name": "orders", "schema": SCHEMA}),
    "loadTable": Sent(),
    "tableExists": Sent(),
    "updateTable": Sent({"requirements": [], "updates": []}),
    "dropTable": Sent(of={"table": "gone"}),
    "unregisterTable": Sent(of={"table": "gone"}),
    "signRequest": Sent(
        {"region": "us-east-1", "uri": "https://s3.amazonaws.com/b/k", "method": "GET", "headers": {}}
    ),
    "signS3Request": Sent(
        {"region": "us-east-1", "uri": "https://s3.amazonaws.com/b/k", "method": "GET", "headers": {}}
    ),
    "registerTable": Sent({"name": "orders", "metadata-location": f"{PLACE}/metadata.json"}),
    "renameTable": Sent({"source": _NAMES, "destination": {"namespace": ["inner"], "name": "other"}}),
    "reportMetrics": Sent(
        {
            "report-type": "scan-report",
            "table-name": "orders",
            "snapshot-id": 1,
            "filter": True,
            "schema-id": 0,
            "projected-field-ids": [],
            "projected-field-names": [],
            "metrics": {},
        }
    ),
    "planTableScan": Sent({}),
    "fetchPlanningResult": Sent(),
    "cancelPlanning": Sent(),
    "loadCredentials": Sent(),
    "fetchScanTasks": Sent({"plan-task": "none"}),
    "commitTransaction": Sent({"table-changes": [{"identifier": _NAMES, "requirements": [], "updates": []}]}),
    "listViews": Sent(),
    "createView": Sent({"name": "report", **_VIEW}),
    "viewExists": Sent(),
    "loadView": Sent(),
    "replaceView": Sent({"requirements": [], "updates": []}),
    "dropView": Sent(of={"view": "gone"}),
    "registerView": Sent({"name": "report", "metadata-location": f"{PLACE}/metadata.json"}),
    "renameView": Sent({"source": _NAMES, "destination": {"namespace": ["inner"], "name": "other"}}),
    "listFunctions": Sent(),
    "loadFunction": Sent(),
    "listAccounts": Sent(),
    "createAccount": Sent({"name": "other"}),
    "dropAccount": Sent(),
    "loadAccount": Sent(),
    "updateAccount": Sent({"disabled": True}),
    "listMetalakes": Sent(),
    "loadMetalake": Sent(),
    "listMetalakeCatalogs": Sent(),
    "loadMetalakeCatalog": Sent(),
    "listSchemas": Sent(),
    "createSchema": Sent({"name": "inner"}),
    "loadSchema": Sent(),
    "alterSchema": Sent({"updates": []}),
    "dropSchema": Sent(),
    "getObjectOwner": Sent(),
    "setObjectOwner": Sent({"name": "gone", "type": "user"}),
    "listUsers": Sent(),
    "addUser": Sent({"name": "analyst"}),
    "getUser": Sent(),
    "removeUser": Sent(),
    "addGroup": Sent(),
    "getGroup": Sent(),
    "listRoleNames": Sent(),
    "createGrantedRole": Sent({"name": "operator"}),
    "getGrantedRole": Sent(),
    "deleteGrantedRole": Sent(),
    "changeRolesOfUser": Sent({"roleNames": ["gone"]}),
    "changeRolesOfGroup": Sent({"roleNames": ["gone"]}),
    "changePrivileges": Sent({"privileges": [{"name": "use_schema"}]}),
    "createCatalog": Sent({"name": "floecat", "storage-location": PLACE}),
    "listCatalogs": Sent(),
    "updateCatalog": Sent({}),
    "dropCatalog": Sent(),
    "loadCatalog": Sent(),
    "registerByLocation": Sent({"name": "orders", "format": "delta", "location": f"{PLACE}/orders"}),
    "explainPlan": Sent({}),
    "listStatistics": Sent(),
    "putStatistics": Sent({"records": []}),
    "loadStatistics": Sent(),
    "replaceConstraints": Sent({"constraints": []}, of=_GONE),
    "addConstraints": Sent({"constraints": []}, of=_GONE),
    "deleteConstraints": Sent(of=_GONE),
    "loadConstraints": Sent(),
    "listConstraints": Sent(),
    "loadIndexArtifact": Sent(),
    "putIndexArtifacts": Sent({"artifacts": []}, of=_GONE),
    "listIndexArtifacts": Sent(),
    "listCapturedSnapshots": Sent(),
    "captureStatistics": Sent({"all-snapshots": True}),
    "loadCapturePolicy": Sent(),
    "replaceCapturePolicy": Sent({}, of=_GONE),
    "deleteCapturePolicy": Sent(of=_GONE),
    "replaceCatalogCapturePolicy": Sent({}),
    "loadCatalogCapturePolicy": Sent(),
    "deleteCatalogCapturePolicy": Sent(),
    "listCaptures": Sent(),
    "loadCapture": Sent(),
    "cancelCapture": Sent(),
    "unprotectCatalog": Sent(),
    "protectCatalog": Sent(),
    "loadCatalogProtection": Sent(),
    "unprotectNamespace": Sent(of=_GONE),
    "protectNamespace": Sent(of=_GONE),
    "loadNamespaceProtection": Sent(),
    "unprotectTable": Sent(of=_GONE),
    "protectTable": Sent(of=_GONE),
    "loadTableProtection": Sent(),
    "unprotectView": Sent(of=_GONE),
    "protectView": Sent(of=_GONE),
    "loadViewProtection": Sent(),
    "loadViewDefiner": Sent(),
    "setViewDefiner": Sent(of=_GONE),
    "clearViewDefiner": Sent(of=_GONE),
    "listRefusals": Sent(),
    "listConnectors": Sent(),
    "createConnector": Sent({"name": "c", "kind": "delta", "location": PLACE}),
    "loadConnector": Sent(),
    "dropConnector": Sent(),
    "adoptTable": Sent({"identifier": {"namespace": ["ns"], "name": "t"}}),
    "listConnectorDifferences": Sent(),
    "updateConnector": Sent({"enabled": False}),
    "scanConnector": Sent(),
    "startScan": Sent({"wait-seconds": 0}),
    "loadReconcileSettings": Sent(),
    "validateConnector": Sent(),
    "listJobs": Sent(),
    "loadJob": Sent(),
    "loadJobTree": Sent(),
    "retryJob": Sent(),
    "cancelJob": Sent(),
    "listPurges": Sent(),
    "loadPurge": Sent(),
    "retryPurge": Sent(),
    "cancelPurge": Sent(),
    "listPrincipals": Sent(),
    "dropPrincipal": Sent(),
    "updatePrincipal": Sent({"disabled": True}),
    "loadPrincipal": Sent(),
    "listRoles": Sent(),
    "createRole": Sent({"name": "r"}),
    "dropRole": Sent(),
    "createBuiltInRoles": Sent(),
    "loadRole": Sent(),
    "listRoleMembers": Sent(),
    "changeRoleMembers": Sent({"add": ["group:g"]}),
    "grant": Sent({"on": "table:floecat.inner.orders", "grantee": "group:g", "privileges": ["read_table"]}),
    "listGrants": Sent(query=_ON_TABLE),
    "revoke": Sent({"on": "table:floecat.inner.orders", "grantee": "group:g", "privileges": ["read_table"]}),
    "loadOwner": Sent(query=_ON_TABLE),
    "replaceOwner": Sent({"on": "table:floecat.inner.gone", "owner": "role:gone"}),
    "explainAccess": Sent(query=f"{_ON_TABLE}&principal=gone"),
    "listHolders": Sent(query=_ON_TABLE),
    "listAccessChanges": Sent(),
    "loadOwnAccess": Sent(query=_ON_TABLE),
    "listAuthorities": Sent(),
    "createAuthority": Sent(
        {
            "name": "lake",
            "prefix": "s3://lake",
            "method": {"kind": "s3", "access-key-id": "AKIA"},
            "secrets": {"secret-access-key": "hidden"},
        }
    ),
    "loadAuthority": Sent(),
    "updateAuthority": Sent({"enabled": False}),
    "dropAuthority": Sent(),
}


@cache
def operations() -> dict[str, tuple[str, str]]:
    """Method and path of every operation that needs a login."""
    app = Litestar(
        route_handlers=CONTROLLERS, request_class=CatalogRequest, openapi_config=None, logging_config=None
    )
    found: dict[str, tuple[str, str]] = {}
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                for method in handler.http_methods - {"OPTIONS"}:
                    if not handler.opt.get(PUBLIC):
                        found[str(handler.operation_id)] = (method, route.path)
    return dict(sorted(found.items()))


def sent(operation: str, of: Mapping[str, str] = {}, *, place: str = PLACE) -> tuple[str, str, Any]:
    """Method, URL and body of a request.

    Args:
        operation: its name.
        of: values of parameters of the path, in the place of what `REQUESTS` says.
        place: a location of the catalog, in the place of `PLACE`.
    """
    method, path = operations()[operation]
    request = REQUESTS[operation]
    names = {**_FOUND, **request.of, **of}
    for name, value in names.items():
        path = path.replace(f"{{{name}:str}}", value)
    body = json.loads(json.dumps(request.body).replace(PLACE, place))
    return method, f"{path}?{request.query}" if request.query else path, body
