"""Operations of the API in Gravitino's shape, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from floecat_rest.gravitino.wire import AlterSchemaRequest, CreateSchemaRequest, GravitinoError
from floecat_rest.openapi.operation_notes import OperationNotes

__all__ = ["GRAVITINO_OPERATIONS"]

_notes = partial(OperationNotes, error=GravitinoError)
_NO_CATALOG: Final = {404: "The catalog does not exist."}
_NO_SCHEMA: Final = {404: "The catalog or the schema does not exist."}

GRAVITINO_OPERATIONS: Final[Mapping[str, OperationNotes]] = {
    "getGravitinoVersion": _notes(),
    "getGravitinoConfigs": _notes(answers={"application/json": {"type": "object"}}),
    "listMetalakes": _notes(),
    "loadMetalake": _notes(),
    "listMetalakeCatalogs": _notes(answers={"application/json": {"type": "object"}}),
    "loadMetalakeCatalog": _notes(errors=_NO_CATALOG),
    "listSchemas": _notes(errors=_NO_SCHEMA | {405: "The catalog is flat."}),
    "createSchema": _notes(
        request=CreateSchemaRequest,
        example={"name": "sales:emea", "comment": None, "properties": {}},
        errors=_NO_CATALOG | {409: "The schema exists."},
        replays=True,
    ),
    "loadSchema": _notes(errors=_NO_SCHEMA),
    "alterSchema": _notes(
        request=AlterSchemaRequest,
        example={"updates": [{"@type": "setProperty", "property": "owner", "value": "sales"}]},
        errors=_NO_SCHEMA,
        replays=True,
    ),
    "dropSchema": _notes(errors=_NO_CATALOG | {409: "The schema is not empty, or protected."}, replays=True),
}
