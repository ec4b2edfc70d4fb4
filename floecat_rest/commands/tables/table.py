"""`floecat table`: tables, Delta tables that read as Iceberg tables, orphan files, and plans of scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from floecat.errors import NoSuchNamespaceError
from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.commands.console import err, print_json, print_plain, print_rows
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, NamespaceOption, TableArgument, WideOption, on_catalog
from floecat_rest.commands.tables.orphans import orphans
from floecat_rest.commands.tables.plan import plan
from floecat_rest.commands.tables.show_table import show
from floecat_rest.commands.tables.statistics import constraints, index_artifacts, statistics

if TYPE_CHECKING:
    from floecat.connectors.registrations import TableRegistration
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(
    name="table",
    help="Tables; Delta tables, which any engine reads as Iceberg tables; orphans; plans; statistics.",
    no_args_is_help=True,
)
app.command()(show)
app.command()(orphans)
app.command()(plan)
app.command()(statistics)
app.command()(constraints)
app.command(name="index-artifacts")(index_artifacts)


@app.command(name="register-delta")
@on_catalog
def register_delta(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    location: Annotated[
        str, typer.Argument(help="The folder that holds _delta_log, as s3://bucket/path or file:///path.")
    ],
    format_version: Annotated[
        int | None,
        typer.Option(
            "--format-version",
            help="Iceberg format version: 2, or 3 where all readers know it. Default: that of the settings.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Register a Delta table. Nothing is copied, and it is read-only here: only Delta writes it.

    Loads pick up new versions by themselves. The location must be one of the catalog's own or allowed ones. A
    namespace that does not exist is created.
    """

    def register() -> TableRegistration:
        return kernel.delta.registration.register(
            call, name.namespace, name.name, location, format_version=format_version
        )

    try:
        made = register()
    except NoSuchNamespaceError:
        # a missing table must not leave a namespace behind
        kernel.delta.registration.root(call, location)
        if kernel.catalog.namespaces.ensure(call, name.namespace) and not as_json:
            print_plain(f"Created namespace {shown(call, name.namespace)}")
        made = register()
    if as_json:
        from floecat_rest.management.wire import registered_table

        print_json([registered_table(made, "")])
        return
    version = "not read yet" if made.snapshot_id is None else f"version {made.snapshot_id}"
    print_plain(f"Registered {shown(call, name)} at {made.location}: {version}, id {made.entry_id}")
    if made.problem is not None:
        print_plain(f"It cannot be read: {made.problem.message}", err)


@app.command(name="list")
@on_catalog
def list_tables(
    kernel: Kernel,
    call: Call,
    *,
    namespace: NamespaceOption = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the tables of a catalog: format, snapshot that readers see, and what is wrong with a Delta table.

    With --wide also the location and the id, which ends the name of the table's partition in Dagster.
    """
    listed = kernel.catalog.tables.list_all(call, namespace or ())
    found = sorted(listed, key=lambda table: (table.namespace, table.name))
    problems: dict[UUID, str | None] = {}
    if kernel.settings.gateway.delta_compat.enabled:
        problems = {row.entry_id: row.problem for row in kernel.delta.tables.list(call)}
    if as_json:
        print_json(msgspec.to_builtins(row) | {"problem": problems.get(row.id)} for row in found)
        return
    rows = (
        (
            shown(call, TableIdentifier(row.namespace, row.name)),
            row.format,
            "-" if row.snapshot_id is None else str(row.snapshot_id),
            str(row.id),
            row.location,
            problems.get(row.id) or "",
        )
        for row in found
    )
    headings = ("name", "format", "snapshot", "id", "location", "problem")
    print_rows(headings, rows, more=("id", "location"), wide=wide)


@app.command()
@on_catalog
def refresh(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
) -> None:
    """Bring a Delta table up to date now, even if that takes too long for a load to wait.

    Safe to stop and to repeat: finished work is kept.
    """
    name_column = TextColumn("{task.description}", markup=False)
    columns = (name_column, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task(f"Versions of {shown(call, name)}", total=None)
        row = kernel.delta.tables.materialise(
            call, name, lambda done, of: progress.update(task, completed=done, total=of)
        )
    print_plain(f"{shown(call, name)} is at version {row.version}")
