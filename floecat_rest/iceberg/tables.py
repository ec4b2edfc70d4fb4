"""Tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from litestar import Controller, delete, get, head, post
from litestar.params import FromQuery, QueryParameter, RawBody

from floecat.catalog.load_table import StartedLoad
from floecat.commits.commit import CreateTable
from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call, LoadedTable, PageRequest
from floecat.identifiers.namespace import TableIdentifier
from floecat.working_memory import WorkingMemoryError, without_waiting
from floecat_rest.http.documents import DocumentResponse
from floecat_rest.http.options import AT_ONCE, WITHOUT_STORAGE
from floecat_rest.http.request_log import request_id_of
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, TableType
from floecat_rest.iceberg.wire import (
    CommitTableRequest,
    ListTablesResponse,
    RegisterTableRequest,
    RenameTableRequest,
    list_tables,
)

__all__ = [
    "RegisterTableController",
    "RenameTableController",
    "TableController",
    "TablesController",
    "UnregisterTableController",
]

_NAMESPACE = "/v1/{prefix:str}/namespaces/{namespace:str}"
_TABLE = f"{_NAMESPACE}/tables/{{table:str}}"


class TablesController(Controller):
    """The tables of a namespace."""

    path = f"{_NAMESPACE}/tables"
    tags = ["Tables"]

    @get(operation_id="listTables", sync_to_thread=True, opt={WITHOUT_STORAGE: True, AT_ONCE: True})
    def list_tables(
        self,
        request: CatalogRequest,
        page_token: PageToken = None,
        page_size: PageSize = None,
        table_type: TableType = None,
    ) -> ListTablesResponse:
        """Identifiers of the tables, by name."""
        call = request.call()
        page = PageRequest(page_token, page_size)
        found = request.kernel.catalog.tables.list(call, request.namespace(call), page, table_type)
        return list_tables(found, table_type)

    @post(operation_id="createTable", status_code=200, sync_to_thread=True)
    def create_table(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Creates a table, or with `stage-create` only its first metadata."""
        sent = request.read(body, CreateTable)
        call = request.mutation(body)
        namespace = request.namespace(call)
        commits = request.kernel.commits.tables
        if sent.stage_create:
            table = commits.stage_table(call, namespace, sent, request.stage_id())
        else:
            table = commits.create_table(call, namespace, sent)
        return _made(request, call, TableIdentifier(namespace, sent.name), table)


class TableController(Controller):
    """A table."""

    path = _TABLE
    tags = ["Tables"]

    @get(operation_id="loadTable", opt={WITHOUT_STORAGE: True})
    async def load_table(
        self, request: CatalogRequest, snapshots: FromQuery[str] = "all"
    ) -> DocumentResponse:
        """The table with its metadata document, or 304 if the client's copy is current."""
        # a table in memory is answered before a request gets here: `floecat_rest.iceberg.fast_loads`;
        # entity tags are compared in `floecat.catalog.load_table`
        run = request.admitted.run
        answer = await run(partial(_load, request, snapshots))
        return answer if isinstance(answer, DocumentResponse) else await run(answer, "storage")

    @head(
        operation_id="tableExists",
        status_code=204,
        sync_to_thread=True,
        opt={WITHOUT_STORAGE: True, AT_ONCE: True},
    )
    def table_exists(self, request: CatalogRequest) -> None:
        """204 if it exists."""
        call = request.call()
        request.kernel.catalog.tables.exists(call, request.entry(call))

    @post(operation_id="updateTable", status_code=200, sync_to_thread=True)
    def commit_table(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Checks the requirements and applies the updates, or creates the table that was staged."""
        sent = request.read(body, CommitTableRequest)
        call = request.mutation(body)
        change = TableChange(request.entry(call), sent.requirements or [], sent.updates or [])
        table = request.kernel.commits.tables.commit(call, change, request.stage_id())
        return request.table_answer(table, with_config=False)

    @delete(operation_id="dropTable", opt={WITHOUT_STORAGE: True})
    async def drop_table(
        self,
        request: CatalogRequest,
        purge_requested: Annotated[bool, QueryParameter(name="purgeRequested")] = False,
    ) -> None:
        """Removes the table, and with `purgeRequested` its files, some time later."""
        purges_now = purge_requested and request.kernel.purge.drops.purges_at_once
        work = partial(_drop, request, purge=purge_requested)
        await request.admitted.run(work, "storage" if purges_now else "store")


def _drop(request: CatalogRequest, *, purge: bool) -> None:
    call = request.mutation()
    request_id = request_id_of(request.scope)
    request.kernel.purge.drops.drop(call, request.entry(call), purge=purge, request_id=request_id)


def _made(
    request: CatalogRequest, call: Call, identifier: TableIdentifier, table: LoadedTable
) -> DocumentResponse:
    """The answer about a table that is new, as a load of it would be."""
    made = request.kernel.catalog.loader.made(call, identifier, table)
    return request.table_answer(made, name=identifier.name)


def _load(request: CatalogRequest, snapshots: str) -> DocumentResponse | Callable[[], DocumentResponse]:
    """The answer, or what makes it where that takes long."""
    call = request.call()
    name = request.entry(call)
    start = partial(
        request.kernel.catalog.loader.start,
        request.through_views(call, "table", name),
        name,
        snapshots,
        request.header_list(b"if-none-match"),
    )

    def finish(load: StartedLoad) -> DocumentResponse:
        return request.table_answer(load.finish(), mode=snapshots)

    try:
        with without_waiting():
            load = start()
    except WorkingMemoryError:
        return lambda: finish(start())
    if load.authority is not None:  # one that hangs holds its own share of the threads
        request.admitted.store = lambda: load.authority
    return partial(finish, load) if load.takes_long else finish(load)


class UnregisterTableController(Controller):
    """The opposite of register."""

    path = f"{_TABLE}/unregister"
    tags = ["Tables"]

    @post(operation_id="unregisterTable", status_code=200, sync_to_thread=True)
    def unregister_table(self, request: CatalogRequest) -> DocumentResponse:
        """Removes the table, leaves its files, and returns its last metadata."""
        call = request.mutation()
        table = request.kernel.purge.drops.unregister(call, request.entry(call))
        return request.table_answer(table, with_config=False)


class RegisterTableController(Controller):
    """Registration of tables that exist as files."""

    path = f"{_NAMESPACE}/register"
    tags = ["Tables"]

    @post(operation_id="registerTable", status_code=200, sync_to_thread=True)
    def register_table(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Registers a metadata file as a table."""
        sent = request.read(body, RegisterTableRequest)
        call = request.mutation(body)
        namespace = request.namespace(call)
        table = request.kernel.commits.registration.register_table(
            call,
            namespace,
            sent.name,
            sent.metadata_location,
            overwrite=bool(sent.overwrite),
            storage_properties=sent.properties or {},
        )
        return _made(request, call, TableIdentifier(namespace, sent.name), table)


class RenameTableController(Controller):
    """Renames of tables."""

    path = "/v1/{prefix:str}/tables/rename"
    tags = ["Tables"]

    @post(operation_id="renameTable", status_code=204, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def rename_table(self, request: CatalogRequest, body: RawBody) -> None:
        """Renames a table, or moves it to another namespace."""
        sent = request.read(body, RenameTableRequest)
        request.kernel.catalog.tables.rename(
            request.mutation(body), sent.source.to_identifier(), sent.destination.to_identifier()
        )
