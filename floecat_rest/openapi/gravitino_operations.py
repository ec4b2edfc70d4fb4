"""Operations of the API in Gravitino's shape, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from floecat_rest.gravitino.access_wire import (
    CreateGrantedRoleRequest,
    MemberRequest,
    PrivilegesRequest,
    RolesRequest,
    WireOwner,
)
from floecat_rest.gravitino.wire import AlterSchemaRequest, CreateSchemaRequest, GravitinoError
from floecat_rest.openapi.operation_notes import OperationNotes

__all__ = ["GRAVITINO_OPERATIONS"]

_notes = partial(OperationNotes, error=GravitinoError)
_NO_CATALOG: Final = {404: "The catalog does not exist."}
_NO_OBJECT: Final = {404: "There is no such thing, or no such user."}
_NO_ROLE: Final = {404: "The role does not exist."}
_TOO_MANY: Final = {409: "There would be too many, a role in itself, or nobody who may grant."}
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
    "getObjectOwner": _notes(errors=_NO_OBJECT),
    "setObjectOwner": _notes(request=WireOwner, example={"name": "ada", "type": "user"}, errors=_NO_OBJECT),
    "listUsers": _notes(answers={"application/json": {"type": "object"}}),
    "addUser": _notes(request=MemberRequest, example={"name": "bob"}, errors={409: "The user exists."}),
    "getUser": _notes(errors={404: "The user does not exist."}),
    "removeUser": _notes(errors={409: "It is the caller, or the last one who may grant."}),
    "addGroup": _notes(errors={405: "Groups come with tokens."}),
    "getGroup": _notes(),
    "listRoleNames": _notes(),
    "createGrantedRole": _notes(
        request=CreateGrantedRoleRequest,
        example={"name": "reader", "securableObjects": []},
        errors={409: "The role exists, or there are too many."},
    ),
    "getGrantedRole": _notes(errors=_NO_ROLE),
    "deleteGrantedRole": _notes(errors={409: "Nobody could grant anything any more."}),
    "changeRolesOfUser": _notes(
        request=RolesRequest, example={"roleNames": []}, errors={404: "The user does not exist."} | _TOO_MANY
    ),
    "changeRolesOfGroup": _notes(
        request=RolesRequest,
        example={"roleNames": []},
        errors={404: "The change is neither `grant` nor `revoke`."} | _TOO_MANY,
    ),
    "changePrivileges": _notes(
        request=PrivilegesRequest, example={"privileges": []}, errors=_NO_ROLE | _TOO_MANY
    ),
    "dropSchema": _notes(errors=_NO_CATALOG | {409: "The schema is not empty, or protected."}, replays=True),
}
