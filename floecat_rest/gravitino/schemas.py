"""Schemas: namespaces by names of all their levels."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import Controller, delete, get, post, put
from litestar.params import QueryParameter, RawBody

from floecat.auth.authorizer import Privilege
from floecat.catalog.namespaces import DescribedNamespace
from floecat.entries.calls import Audit, Call, PageRequest
from floecat.errors import BadRequestError, NoSuchNamespaceError, UnsupportedOperationError
from floecat.identifiers.encoding import decode_segment
from floecat.identifiers.namespace import Namespace
from floecat.identifiers.schema_names import schema_name, split_schema
from floecat_rest.gravitino.errors import schemas_by_name
from floecat_rest.gravitino.wire import (
    AlterSchemaRequest,
    CreateSchemaRequest,
    DropAnswer,
    IdentifiersAnswer,
    SchemaAnswer,
    SetProperty,
    WireName,
    WireSchema,
    audit,
)
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, path_name

__all__ = ["GravitinoSchemaController", "GravitinoSchemasController"]

_SCHEMAS: Final = "/api/metalakes/{metalake:str}/catalogs/{catalog:str}/schemas"
_COMMENT: Final = "comment"
"""Property of namespaces that Gravitino has as a field."""
_PYTHON_CLIENT: Final = "Python-urllib/"


class GravitinoSchemasController(Controller):
    """The schemas of a catalog."""

    path = _SCHEMAS
    tags = ["Gravitino"]

    @get(operation_id="listSchemas", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_schemas(
        self,
        request: CatalogRequest,
        parent_schema: Annotated[
            str | None,
            QueryParameter(name="parentSchema", description="Name of the schema whose children are listed."),
        ] = None,
    ) -> IdentifiersAnswer:
        """The direct children of a schema, or the top level."""
        call = request.call()
        separator = call.catalog.schema_separator
        parent = None
        if parent_schema:
            if separator is None:
                raise UnsupportedOperationError(
                    f"Catalog {call.catalog.name} is flat: its schemas have no children"
                )
            parent = split_schema(parent_schema, separator)
        with schemas_by_name([(parent or (), separator)]):
            found = request.kernel.catalog.namespaces.list(call, parent, PageRequest())
        place = [path_name(request, "metalake"), call.catalog.name]
        return IdentifiersAnswer([WireName(place, schema_name(each, separator)) for each in found.items])

    @post(operation_id="createSchema", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_schema(self, request: CatalogRequest, body: RawBody) -> SchemaAnswer:
        """Creates a schema, together with parents that are missing."""
        sent = request.read(body, CreateSchemaRequest)
        call = request.mutation(body)
        given = {name: _text(value) for name, value in (sent.properties or {}).items()}
        properties = given if sent.comment is None else {**given, _COMMENT: sent.comment}
        name = split_schema(_sent_name(request, sent.name), call.catalog.schema_separator)
        namespaces = request.kernel.catalog.namespaces
        with schemas_by_name([(name, call.catalog.schema_separator)]):
            made = namespaces.create(call, name, properties)
        try:
            described = namespaces.describe(call, name, Privilege.CREATE_SCHEMA)
        except NoSuchNamespaceError:  # dropped since, or the request was sent again afterwards
            return _answer(call, DescribedNamespace(made, Audit()))
        return _answer(call, described._replace(info=made))


class GravitinoSchemaController(Controller):
    """A schema."""

    path = f"{_SCHEMAS}/{{schema:str}}"
    tags = ["Gravitino"]

    @get(operation_id="loadSchema", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_schema(self, request: CatalogRequest) -> SchemaAnswer:
        """The schema and its properties."""
        call = request.call()
        name = _named(request, call)
        with schemas_by_name([(name, call.catalog.schema_separator)]):
            return _answer(call, request.kernel.catalog.namespaces.describe(call, name))

    @put(operation_id="alterSchema", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def alter_schema(self, request: CatalogRequest, body: RawBody) -> SchemaAnswer:
        """Sets and removes properties of this schema alone."""
        sent = request.read(body, AlterSchemaRequest)
        call = request.mutation(body)
        name = _named(request, call)
        last = {change.property: change for change in sent.updates}
        updates = {
            key: _text(change.value) for key, change in last.items() if isinstance(change, SetProperty)
        }
        namespaces = request.kernel.catalog.namespaces
        with schemas_by_name([(name, call.catalog.schema_separator)]):
            namespaces.update_properties(call, name, [key for key in last if key not in updates], updates)
            return _answer(call, namespaces.describe(call, name, Privilege.ALTER_SCHEMA))

    @delete(operation_id="dropSchema", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_schema(
        self,
        request: CatalogRequest,
        cascade: Annotated[
            str | None, QueryParameter(description="What is in the schema is never dropped with it.")
        ] = None,
    ) -> DropAnswer:
        """Removes an empty schema."""
        call = request.mutation()
        if cascade is not None and cascade.lower() == "true":
            raise BadRequestError(
                "Unsupported parameter cascade: drop what is in the schema first, then the schema"
            )
        name = _named(request, call)
        try:
            with schemas_by_name([(name, call.catalog.schema_separator)]):
                request.kernel.catalog.namespaces.drop(call, name)
        except NoSuchNamespaceError:
            return DropAnswer(dropped=False)
        return DropAnswer(dropped=True)


def _named(request: CatalogRequest, call: Call) -> Namespace:
    return request.kernel.catalog.resolver.schema(call, request.path_params["schema"])


def _sent_name(request: CatalogRequest, name: str) -> str:
    """The name in a body, which Gravitino's Python client percent-encodes, and its Java client does not."""
    is_python = (request.header(b"user-agent") or "").startswith(_PYTHON_CLIENT)
    if is_python and request.header(b"x-client-version") is not None:
        return decode_segment(name.replace("+", "%2B")).literal
    return name


def _text(value: str | float | bool | None) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _answer(call: Call, found: DescribedNamespace) -> SchemaAnswer:
    properties = dict(found.info.properties)
    comment = properties.pop(_COMMENT, None)
    name = schema_name(found.info.namespace, call.catalog.schema_separator)
    return SchemaAnswer(WireSchema(name, properties, audit(*found.audit), comment))
