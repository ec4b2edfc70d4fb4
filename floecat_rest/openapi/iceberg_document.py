"""The pinned Iceberg specification, reduced to what is served.

Left out are operations without a route, answers that the service never gives, and components that nothing
refers to any more. Added is what the service takes beyond the specification. Corrected are error answers
whose schema is that of the error alone, examples that are references, and `nullable`, which OpenAPI 3.1 does
not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml
from litestar.routes import BaseRoute

from floecat.settings import GatewaySettings
from floecat_rest.openapi.operations import served_operations

__all__ = ["iceberg_document", "referenced"]

_PINNED: Final = "rest-catalog-open-api.yaml"
_METHODS: Final = frozenset({"get", "head", "post", "put", "delete", "patch"})
_REFERENCE: Final = "#/components/"
_NEVER_ANSWERED: Final[dict[str, frozenset[str]]] = {
    "getToken": frozenset({"200", "401"}),
    "loadFunction": frozenset({"200"}),
}
"""Statuses by operation. No operation answers 419: an expired token is a 401."""

_ERROR_ALONE: Final = "#/components/schemas/ErrorModel"
_ERROR_ANSWER: Final = "#/components/schemas/IcebergErrorResponse"
_OTHER_ERROR: Final = {"$ref": "#/components/responses/IcebergErrorResponse"}
_TABLE_TYPE: Final = {
    "name": "tableType",
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "Only tables whose property `table_type` has this value, whatever its case. The answer "
    "repeats it as `table-type`. Not in the specification.",
}
_SIGN: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign"
_SIGN_BY_OBJECT: Final = {
    "operationId": "signS3Request",
    "summary": "Signs requests of clients that name no table",
    "description": "The table is the one in whose locations the objects are. Not in the specification.",
}
_DESCRIPTION: Final = (
    "The operations of the Apache Iceberg REST Catalog API that this server serves. Paths without "
    "`/{prefix}` mean the default catalog."
)


def iceberg_document(
    routes: Iterable[BaseRoute], gateway: GatewaySettings, security: dict[str, Any]
) -> dict[str, Any]:
    """The OpenAPI document of the routes below `/v1/`.

    Args:
        routes: of the application.
        gateway: settings of the service.
        security: security schemes by name; empty where no login is needed.
    """
    text = files(__package__).joinpath(_PINNED).read_text(encoding="utf-8")
    pinned = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    # keys of responses are numbers in YAML, and text in OpenAPI
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pinned))
    served = {
        (operation.path, operation.method)
        for operation in served_operations(routes)
        if operation.path.startswith("/v1/")
    }
    of_table = document["paths"][_SIGN]["post"]
    document["paths"]["/v1/aws/s3/sign"] = {"post": of_table | _SIGN_BY_OBJECT}
    paths = {}
    for path, item in document["paths"].items():
        kept = {key: part for key, part in item.items() if key not in _METHODS or (path, key) in served}
        if kept.keys() & _METHODS:
            paths[path] = kept
    for operation in _operations(paths):
        _reduce(operation)
        for answer in operation["responses"].values():
            _correct(document, answer)
    for answer in document["components"]["responses"].values():
        _correct(document, answer)
    _correct_nulls(document)
    description = f"{_DESCRIPTION} The default catalog is `{gateway.default_prefix}`."
    document["info"] |= {"description": description}
    document["servers"] = [{"url": "/"}]
    document["security"] = [{name: []} for name in security]
    document["paths"] = paths
    used = referenced(document["components"], paths)
    used |= {"securitySchemes": security} if security else {}
    document["components"] = used
    return document


def referenced(components: dict[str, Any], of: Any) -> dict[str, Any]:
    """The components that a part of a document refers to, directly or through other components."""
    found: dict[str, Any] = {}
    waiting = [*_references(of)]
    while waiting:
        kind, name = waiting.pop().removeprefix(_REFERENCE).split("/")
        if name not in found.setdefault(kind, {}):
            found[kind][name] = components[kind][name]
            waiting += _references(components[kind][name])
    return {kind: dict(sorted(found[kind].items())) for kind in sorted(found)}


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            # a discriminator names schemas by their reference, without `$ref`
            if isinstance(value, str) and value.startswith(_REFERENCE):
                yield value
            elif key != "example":
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _correct(document: dict[str, Any], answer: dict[str, Any]) -> None:
    for media in answer.get("content", {}).values():
        if media["schema"].get("$ref") == _ERROR_ALONE:
            media["schema"] = {"$ref": _ERROR_ANSWER}
        reference = media.get("example", {}).get("$ref")
        if reference is not None:
            media["example"] = document["components"]["examples"][reference.rpartition("/")[2]]["value"]


def _correct_nulls(part: Any) -> None:
    if isinstance(part, dict):
        nullable = part.get("nullable")
        if isinstance(nullable, bool):
            del part["nullable"]
            if nullable and isinstance(part.get("type"), str):
                part["type"] = [part["type"], "null"]
        for value in part.values():
            _correct_nulls(value)
    elif isinstance(part, list):
        for value in part:
            _correct_nulls(value)


def _operations(paths: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in paths.values():
        yield from (part for key, part in item.items() if key in _METHODS)


def _reduce(operation: dict[str, Any]) -> None:
    name = operation["operationId"]
    left_out = _NEVER_ANSWERED.get(name, frozenset()) | {"419"}
    operation["responses"] = {
        status: answer for status, answer in operation["responses"].items() if status not in left_out
    } | {"4XX": _OTHER_ERROR}
    if name == "getToken":
        operation["security"] = []
        operation["description"] = (
            "Refused: this catalog issues no tokens. They come from an identity provider."
        )
    if name == "listTables":
        operation["parameters"] = [*operation["parameters"], _TABLE_TYPE]
