"""The OpenAPI document of all routes that are not Iceberg's.

Paths, query parameters, answers and schemas come from the handlers and their structs. `OPERATIONS` adds what
handlers do not declare: the body that they read, an example of it, and errors.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from litestar.params import QueryParameter
from litestar.routes import BaseRoute

import floecat
from floecat.statistics.capture.policies import PolicyChange
from floecat_rest.http.options import PUBLIC
from floecat_rest.http.parameters import query_parameters
from floecat_rest.management.access_wire import (
    ChangeMembersRequest,
    CreateRoleRequest,
    GrantRequest,
    OwnerRequest,
    UpdatePrincipalRequest,
)
from floecat_rest.management.catalog_wire import (
    CreateAccountRequest,
    CreateCatalogRequest,
    UpdateAccountRequest,
    UpdateCatalogRequest,
)
from floecat_rest.management.statistics_wire import (
    CaptureRequest,
    ConstraintsRequest,
    PutIndexArtifactsRequest,
    PutStatisticsRequest,
)
from floecat_rest.management.storage.authority_wire import CreateAuthorityRequest, UpdateAuthorityRequest
from floecat_rest.management.wire import (
    AdoptRequest,
    CreateConnectorRequest,
    ExplainRequest,
    RegisterRequest,
    StartScanRequest,
    UpdateConnectorRequest,
)
from floecat_rest.openapi.gravitino_operations import GRAVITINO_OPERATIONS
from floecat_rest.openapi.operation_notes import OperationNotes
from floecat_rest.openapi.operations import ServedOperation, served_operations

__all__ = ["OPERATIONS", "management_document"]

_REFERENCE: Final = "#/components/schemas/{name}"
_OPAQUE: Final = {"type": "string"}


_NO_ACCOUNT: Final = {404: "The account does not exist."}
_NO_JOB: Final = {404: "The catalog or the job does not exist."}
_NO_PURGE: Final = {404: "The catalog or the purge does not exist."}
_NO_CAPTURE: Final = {404: "The catalog or the capture does not exist."}
_NO_TABLE: Final = {404: "The catalog or the table does not exist."}
_NO_SNAPSHOT: Final = {404: "The catalog, the table or the snapshot does not exist."}
_POLICY: Final = {"snapshots": "all", "columns": ["id", "amount"], "publish": "never"}
_FOREIGN_POLICY: Final = _NO_TABLE | {
    406: "The table is a Delta table: its own properties say what is captured."
}
_KEY: Final = {
    "constraints": [
        {"name": "orders-key", "type": "primary-key", "columns": [{"column-name": "id", "ordinal": 1}]}
    ]
}
_NO_PRINCIPAL: Final = {404: "The principal does not exist."}
_NO_ROLE: Final = {404: "The role, or a role that is named as a member, does not exist."}
_NO_THING: Final = {404: "The thing, or the role, does not exist."}
_GRANT: Final = {
    "on": "namespace:floecat.sales",
    "grantee": "role:marketing",
    "privileges": ["read_table"],
}
_NO_AUTHORITY: Final = {404: "The storage authority does not exist."}
_NO_CONNECTOR: Final = {404: "The catalog or the connector does not exist."}

OPERATIONS: Final[Mapping[str, OperationNotes]] = {
    "listAccounts": OperationNotes(),
    "createAccount": OperationNotes(
        CreateAccountRequest, {"name": "marketing"}, {409: "An account of this name or id exists."}
    ),
    "loadAccount": OperationNotes(errors=_NO_ACCOUNT),
    "updateAccount": OperationNotes(UpdateAccountRequest, {"disabled": True}, _NO_ACCOUNT),
    "dropAccount": OperationNotes(
        errors=_NO_ACCOUNT | {409: "The account is not empty; the message has counts."}
    ),
    "listCatalogs": OperationNotes(),
    "createCatalog": OperationNotes(
        CreateCatalogRequest,
        {"name": "lake", "storage-location": "s3://lake/warehouse"},
        {409: "A catalog of this name exists."},
    ),
    "loadCatalog": OperationNotes(errors={404: "The catalog does not exist."}),
    "updateCatalog": OperationNotes(
        UpdateCatalogRequest,
        {"add-locations": ["s3://lake"]},
        {404: "The catalog does not exist.", 409: "A location to be removed is in use."},
    ),
    "dropCatalog": OperationNotes(
        errors={404: "The catalog does not exist.", 409: "The catalog is not empty; the message has counts."}
    ),
    "registerByLocation": OperationNotes(
        RegisterRequest,
        {"name": "visits", "format": "delta", "location": "s3://lake/visits"},
        {
            404: "The catalog or the namespace does not exist, or there is no table at the location.",
            409: "The name is taken.",
        },
        replays=True,
    ),
    **{
        f"{operation}{kind}{suffix}": OperationNotes(
            errors={
                404: f"The catalog{'' if kind == 'Catalog' else f' or the {kind.lower()}'} does not exist."
            }
        )
        for operation, suffix in (("load", "Protection"), ("protect", ""), ("unprotect", ""))
        for kind in ("Catalog", "Namespace", "Table", "View")
    },
    "listRefusals": OperationNotes(),
    **{
        operation: OperationNotes(errors={404: "The catalog or the view does not exist."})
        for operation in ("loadViewDefiner", "setViewDefiner", "clearViewDefiner")
    },
    "explainPlan": OperationNotes(
        ExplainRequest,
        {"filter": "id > 10"},
        {
            404: "The catalog or the table does not exist.",
            406: "The table cannot be read.",
            503: "The plan takes longer than `floecat.planning.explain-budget-ms`.",
        },
    ),
    "listStatistics": OperationNotes(errors=_NO_SNAPSHOT),
    "putStatistics": OperationNotes(
        PutStatisticsRequest,
        {"records": [{"target": {"kind": "column", "column-id": 1}, "scalar": {"row-count": 10}}]},
        _NO_SNAPSHOT,
        replays=True,
    ),
    "loadStatistics": OperationNotes(
        errors={404: "The catalog, the table or the snapshot does not exist, or has no such statistics."}
    ),
    "listIndexArtifacts": OperationNotes(errors=_NO_SNAPSHOT),
    "putIndexArtifacts": OperationNotes(
        PutIndexArtifactsRequest,
        {
            "artifacts": [
                {
                    "target": {"kind": "file", "file-path": "s3://lake/orders/data/1.parquet"},
                    "artifact-uri": "s3://lake/orders/metadata/index-1.parquet",
                }
            ]
        },
        _NO_SNAPSHOT,
        replays=True,
    ),
    "loadIndexArtifact": OperationNotes(
        errors={404: "The catalog, the table or the snapshot does not exist, or has no such artifact."}
    ),
    "loadConstraints": OperationNotes(errors=_NO_SNAPSHOT),
    "listConstraints": OperationNotes(errors=_NO_TABLE),
    "replaceConstraints": OperationNotes(ConstraintsRequest, _KEY, _NO_SNAPSHOT, replays=True),
    "addConstraints": OperationNotes(
        ConstraintsRequest,
        _KEY,
        _NO_SNAPSHOT | {409: "A constraint that is appended has a name that is taken."},
        replays=True,
    ),
    "deleteConstraints": OperationNotes(
        errors={404: "The catalog, the table, the snapshot or the constraint does not exist."}, replays=True
    ),
    "listCapturedSnapshots": OperationNotes(errors=_NO_TABLE),
    "captureStatistics": OperationNotes(
        CaptureRequest,
        {"snapshot": "main"},
        _NO_SNAPSHOT | {409: "A capture of the snapshot is being cancelled."},
    ),
    "loadCapturePolicy": OperationNotes(errors=_NO_TABLE),
    "replaceCapturePolicy": OperationNotes(PolicyChange, _POLICY, _FOREIGN_POLICY, replays=True),
    "deleteCapturePolicy": OperationNotes(errors=_FOREIGN_POLICY, replays=True),
    "loadCatalogCapturePolicy": OperationNotes(errors={404: "The catalog does not exist."}),
    "replaceCatalogCapturePolicy": OperationNotes(
        PolicyChange, _POLICY, {404: "The catalog does not exist."}, replays=True
    ),
    "deleteCatalogCapturePolicy": OperationNotes(errors={404: "The catalog does not exist."}, replays=True),
    "listCaptures": OperationNotes(errors={404: "The catalog does not exist."}),
    "loadCapture": OperationNotes(errors=_NO_CAPTURE),
    "cancelCapture": OperationNotes(errors=_NO_CAPTURE | {409: "The capture is finished."}),
    "listConnectors": OperationNotes(errors={404: "The catalog does not exist."}),
    "createConnector": OperationNotes(
        CreateConnectorRequest,
        {"name": "lake", "kind": "delta", "location": "s3://lake/tables", "interval": "PT1H"},
        {
            404: "The catalog does not exist.",
            409: "A connector of this name exists.",
        },
        replays=True,
    ),
    "loadConnector": OperationNotes(errors=_NO_CONNECTOR),
    "dropConnector": OperationNotes(errors=_NO_CONNECTOR, replays=True),
    "adoptTable": OperationNotes(
        AdoptRequest,
        {"identifier": {"namespace": ["sales"], "name": "orders"}},
        _NO_CONNECTOR | {409: "The other catalog has a newer state, or the table was changed meanwhile."},
    ),
    "listConnectorDifferences": OperationNotes(errors=_NO_CONNECTOR),
    "updateConnector": OperationNotes(
        UpdateConnectorRequest, {"interval": "PT30M"}, errors=_NO_CONNECTOR, replays=True
    ),
    "scanConnector": OperationNotes(errors=_NO_CONNECTOR),
    "startScan": OperationNotes(StartScanRequest, {"full": True, "wait-seconds": 0}, errors=_NO_CONNECTOR),
    "loadReconcileSettings": OperationNotes(errors={404: "The catalog does not exist."}),
    "validateConnector": OperationNotes(errors=_NO_CONNECTOR),
    "listJobs": OperationNotes(errors={404: "The catalog or the parent does not exist."}),
    "loadJob": OperationNotes(errors=_NO_JOB),
    "loadJobTree": OperationNotes(errors=_NO_JOB),
    "retryJob": OperationNotes(
        errors=_NO_JOB | {409: "The job is not in a state to be retried, or another open one does the same."}
    ),
    "cancelJob": OperationNotes(errors=_NO_JOB | {409: "The job is finished, or is a purge that has begun."}),
    "listPurges": OperationNotes(errors={404: "The catalog does not exist."}),
    "loadPurge": OperationNotes(errors=_NO_PURGE),
    "retryPurge": OperationNotes(errors=_NO_PURGE | {409: "The purge is not in a state to be retried."}),
    "cancelPurge": OperationNotes(errors=_NO_PURGE | {409: "The purge has begun or is finished."}),
    "listPrincipals": OperationNotes(),
    "loadPrincipal": OperationNotes(errors=_NO_PRINCIPAL),
    "updatePrincipal": OperationNotes(
        UpdatePrincipalRequest, {"disabled": True}, {409: "The principal would disable itself."}
    ),
    "dropPrincipal": OperationNotes(errors=_NO_PRINCIPAL | {409: "The principal would delete itself."}),
    "listRoles": OperationNotes(),
    "createRole": OperationNotes(
        CreateRoleRequest, {"name": "marketing"}, {409: "A role of this name exists, or there are too many."}
    ),
    "createBuiltInRoles": OperationNotes(errors={409: "There are too many roles, or grants on the account."}),
    "loadRole": OperationNotes(errors=_NO_ROLE),
    "dropRole": OperationNotes(errors=_NO_ROLE | {409: "Nobody could grant anything any more."}),
    "listRoleMembers": OperationNotes(errors=_NO_ROLE),
    "changeRoleMembers": OperationNotes(
        ChangeMembersRequest,
        {"add": ["group:marketing", "principal:ada"]},
        _NO_ROLE | {409: "The role would be a member of itself, or there are too many members."},
    ),
    "listAuthorities": OperationNotes(),
    "createAuthority": OperationNotes(
        CreateAuthorityRequest,
        {
            "name": "lake",
            "prefix": "s3://lake/tables",
            "method": {
                "kind": "s3",
                "access-key-id": "AKIAIOSFODNN7EXAMPLE",
                "role-arn": "arn:aws:iam::123456789012:role/tables",
                "region": "eu-west-1",
            },
            "secrets": {"secret-access-key": "…"},
        },
        {409: "An authority of this name exists, or one is enabled for this prefix, or there are too many."},
    ),
    "loadAuthority": OperationNotes(errors=_NO_AUTHORITY),
    "updateAuthority": OperationNotes(
        UpdateAuthorityRequest,
        {"secrets": {"secret-access-key": "…"}},
        _NO_AUTHORITY | {409: "An authority of this name exists, or one is enabled for this prefix."},
    ),
    "dropAuthority": OperationNotes(errors=_NO_AUTHORITY),
    "listGrants": OperationNotes(errors=_NO_THING),
    "grant": OperationNotes(GrantRequest, _GRANT, _NO_THING | {409: "The thing has too many grants."}),
    "revoke": OperationNotes(
        GrantRequest, _GRANT, _NO_THING | {409: "Nobody could grant anything any more."}
    ),
    "loadOwner": OperationNotes(errors=_NO_THING),
    "replaceOwner": OperationNotes(
        OwnerRequest, {"on": "namespace:floecat.sales", "owner": "role:marketing"}, _NO_THING
    ),
    "explainAccess": OperationNotes(),
    "listHolders": OperationNotes(errors=_NO_THING),
    "listAccessChanges": OperationNotes(),
    "loadOwnAccess": OperationNotes(),
    "live": OperationNotes(),
    "ready": OperationNotes(),
    "metrics": OperationNotes(answers={"text/plain": _OPAQUE}),
    "describeApi": OperationNotes(answers={"text/html": _OPAQUE}),
    "getDescription": OperationNotes(
        errors={404: "There is no such document."},
        answers={"application/json": {"type": "object"}, "application/yaml": _OPAQUE},
    ),
    "frontPage": OperationNotes(
        answers={
            "text/html": _OPAQUE,
            "application/json": {"type": "object", "additionalProperties": _OPAQUE},
        }
    ),
    **GRAVITINO_OPERATIONS,
}

_PATH_PARAMETERS: Final = {
    "account": ("Name or id of the account.", "marketing"),
    "principal": ("Name of the principal.", "ada"),
    "role": ("Name of the role.", "marketing"),
    "authority": ("Name of the storage authority.", "lake"),
    "privilege": ("Name of the privilege.", "read_table"),
    "catalog": ("Name of the catalog.", "floecat"),
    "namespace": ("Namespace; levels are separated as in paths of the Iceberg API.", "sales"),
    "table": ("Name of the table.", "orders"),
    "view": ("Name of the view.", "daily"),
    "target": (
        "Storage id of the target: `table`, `column-<field id>`, `file-<SHA-256 of F, 0x1f, the location>`,"
        " `expression-<engine kind>-<SHA-256 of E, 0x1f, the engine kind, 0x1f and the key>`.",
        "column-1",
    ),
    "connector": ("Name of the connector.", "lake"),
    "capture": ("Id of the capture.", "0198c7a0-0000-7000-8000-000000000001"),
    "job": ("Id of the job.", "0198c7a0-0000-7000-8000-000000000001"),
    "purge": ("Id of the purge.", "0198c7a0-0000-7000-8000-000000000001"),
    "document": ("Name of the document.", "iceberg.json"),
    "type": ("Kind of the thing: `metalake`, `catalog`, `schema`, `table` or `view`.", "catalog"),
    "object": ("Full name of the thing, as `catalog.A:B.table`.", "floecat"),
    "user": ("Name of the principal.", "ada"),
    "group": ("Name of a group of tokens.", "staff"),
    "change": ("`grant` or `revoke`.", "grant"),
    "metalake": ("Name or id of the account.", "marketing"),
    "schema": ("Levels of a namespace, separated as `/configs` says.", "sales:emea"),
}
_REQUEST_ID: Final = {
    "name": "X-Request-Id",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "Id of the request in the log and in the answer. Default: one is made.",
}
_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "format": "uuid"},
    "description": "A retry with the same key gets the answer of the first request.",
}
_ANY_ERRORS: Final = {
    400: "The request is malformed.",
    403: "The principal may not do this, or a web page of another site asks.",
    500: "The service failed; the log has the request id.",
    503: "The store, the storage or a bound of the service holds the request up; retry later.",
}
_BODY_ERRORS: Final = {
    413: "The body is larger than `floecat.gateway.max-request-body-bytes`.",
    415: "The body is not JSON.",
}
_ERROR_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    503: {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds."}},
}
_ANSWER_HEADERS: Final = {"X-Request-Id": {"schema": {"type": "string"}}}


def management_document(routes: Iterable[BaseRoute], security: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document of the routes outside `/v1/`.

    A route without a row in `OPERATIONS` is left out, which a test reports.

    Args:
        routes: of the application.
        security: security schemes by name; empty where no login is needed.
    """
    described = [
        (operation, OPERATIONS[str(operation.handler.operation_id)])
        for operation in served_operations(routes)
        if operation.handler.operation_id in OPERATIONS
    ]
    structs: set[Any] = {notes.error for _, notes in described}
    paths: dict[str, Any] = {}
    for operation, notes in described:
        structs |= {notes.request} - {None}
        if _returns_struct(operation, notes):
            structs.add(_returned(operation))
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, notes, security)
    _, schemas = msgspec.json.schema_components(sorted(structs, key=str), ref_template=_REFERENCE)
    components: dict[str, Any] = {"schemas": schemas}
    if security:
        components["securitySchemes"] = security
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Floecat management API",
            "version": floecat.__version__,
            "description": "Catalogs, connectors, tables, statistics, jobs, health: all beside Iceberg."
            " Schemas in the shape of Gravitino.",
        },
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in security],
        "paths": dict(sorted(paths.items())),
        "components": components,
    }


def _operation(operation: ServedOperation, notes: OperationNotes, security: dict[str, Any]) -> dict[str, Any]:
    handler = operation.handler
    public = bool(handler.opt.get(PUBLIC))
    written = inspect.cleandoc(getattr(handler.fn, "func", handler.fn).__doc__ or "")
    described: dict[str, Any] = {
        "tags": sorted(handler.resolve_tags() or []),
        "operationId": handler.operation_id,
        "summary": written.partition("\n\n")[0].replace("\n", " "),
        "parameters": _parameters(operation, notes),
        "responses": _responses(operation, notes, login=bool(security) and not public),
    }
    if public:
        described["security"] = []
    if notes.request is not None:
        content = {"schema": _reference(notes.request), "example": dict(notes.example)}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _parameters(operation: ServedOperation, notes: OperationNotes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"\{(\w+)\}", operation.path):
        description, example = _PATH_PARAMETERS[name]
        parameter = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        found.append(parameter | {"description": description, "example": example})
    for name, query, declared in query_parameters(operation.handler):
        schema = _query_schema(declared.annotation, declared.default, query)
        parameter = {"name": name, "in": "query", "required": False, "schema": schema}
        found.append(parameter | ({"description": query.description} if query.description else {}))
    return [*found, *([_IDEMPOTENCY_KEY] if notes.replays else []), _REQUEST_ID]


def _query_schema(annotation: Any, default: Any, query: QueryParameter) -> dict[str, Any]:
    """The schema of a parameter that may be absent, and is never null."""
    schema = msgspec.json.schema(annotation)
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind != {"type": "null"}]
    found = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    bounds = {"minimum": query.ge} if query.ge is not None else {}
    return found | bounds | ({"default": default} if default is not None else {})


def _responses(operation: ServedOperation, notes: OperationNotes, *, login: bool) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success.", "headers": _ANSWER_HEADERS}
    if notes.answers:
        success["content"] = {kind: {"schema": schema} for kind, schema in notes.answers.items()}
    elif _returns_struct(operation, notes):
        success["content"] = {"application/json": {"schema": _reference(_returned(operation))}}
    errors = {
        **_ANY_ERRORS,
        **({401: "The request carries no valid token."} if login else {}),
        **(_BODY_ERRORS if notes.request else {}),
        **notes.errors,
    }
    answers = {str(operation.handler.status_code): success}
    return answers | {str(status): _error(status, errors[status], notes) for status in sorted(errors)}


def _error(status: int, description: str, notes: OperationNotes) -> dict[str, Any]:
    return {
        "description": description,
        "headers": _ANSWER_HEADERS | _ERROR_HEADERS.get(status, {}),
        "content": {"application/json": {"schema": _reference(notes.error)}},
    }


def _returns_struct(operation: ServedOperation, notes: OperationNotes) -> bool:
    returned = _returned(operation)
    return not notes.answers and isinstance(returned, type) and issubclass(returned, msgspec.Struct)


def _returned(operation: ServedOperation) -> Any:
    return operation.handler.parsed_fn_signature.return_type.annotation


def _reference(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=struct.__name__)}
