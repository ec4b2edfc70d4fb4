"""`floecat table`: Delta tables that read as Iceberg tables, orphan files, and plans of scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from floecat.errors import NoSuchNamespaceError
from floecat_rest.commands.console import err, print_plain, print_rows
from floecat_rest.commands.names import parse_identifier, written
from floecat_rest.commands.options import (
    AccountOption,
    CatalogOption,
    ConfigOption,
    DataDirOption,
    open_call,
    settings_from,
)
from floecat_rest.commands.orphans import orphans
from floecat_rest.commands.plan import plan

if TYPE_CHECKING:
    from floecat.connectors.registrations import TableRegistration

__all__ = ["app"]

app = typer.Typer(
    name="table",
    help="Delta tables in the catalog, which any engine reads as Iceberg tables; orphan files; scan plans.",
    no_args_is_help=True,
)
app.command()(orphans)
app.command()(plan)

NameArgument = Annotated[
    str,
    typer.Argument(
        help="NAMESPACE.NAME; nested namespaces are OUTER.INNER.NAME. A level with a dot stands in double"
        " quotes: 'lake.\"sales.db\".orders'.",
        metavar="NAME",
    ),
]


@app.command(name="register-delta")
def register_delta(
    name: NameArgument,
    location: Annotated[
        str, typer.Argument(help="The folder that holds _delta_log, as s3://bucket/path or file:///path.")
    ],
    catalog: CatalogOption = None,
    format_version: Annotated[
        int | None,
        typer.Option(
            "--format-version",
            help="Iceberg format version: 2, or 3 where all readers know it. Default: that of the settings.",
        ),
    ] = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Register a Delta table. Nothing is copied, and it is read-only here: only Delta writes it.

    Loads pick up new versions by themselves. The location must be one of the catalog's own or allowed ones. A
    namespace that does not exist is created.
    """
    identifier = parse_identifier(name)
    settings = settings_from(config, data_dir=data_dir)
    with open_call(settings, catalog, account) as (kernel, call):

        def register() -> TableRegistration:
            return kernel.delta_registration.register(
                call, identifier.namespace, identifier.name, location, format_version=format_version
            )

        try:
            made = register()
        except NoSuchNamespaceError:
            # a missing table must not leave a namespace behind
            kernel.delta_registration.root(call, location)
            if kernel.namespaces.ensure(call, identifier.namespace):
                print_plain(f"Created namespace {written(identifier.namespace)}")
            made = register()
    version = "not read yet" if made.snapshot_id is None else f"version {made.snapshot_id}"
    print_plain(f"Registered {written(identifier)} at {made.location}: {version}, id {made.entry_id}")
    if made.problem is not None:
        print_plain(f"It cannot be read: {made.problem.message}", err)


@app.command(name="list")
def list_tables(
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the Delta tables of a catalog: the newest version that readers see, and what is wrong with it.

    The id is the partition of the table in Dagster.
    """
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        found = kernel.delta_tables.list(call)
    rows = (
        (
            written((*row.namespace, row.name)),
            "-" if row.version is None else str(row.version),
            str(row.entry_id),
            row.location,
            row.problem or "",
        )
        for row in found
    )
    print_rows(("name", "version", "id", "location", "problem"), rows)


@app.command()
def refresh(
    name: NameArgument,
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Bring a Delta table up to date now, even if that takes too long for a load to wait.

    Safe to stop and to repeat: finished work is kept.
    """
    identifier = parse_identifier(name)
    settings = settings_from(config, data_dir=data_dir)
    name_column = TextColumn("{task.description}", markup=False)
    columns = (name_column, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        open_call(settings, catalog, account) as (kernel, call),
        Progress(*columns, console=err, disable=not err.is_terminal) as progress,
    ):
        task = progress.add_task(f"Versions of {written(identifier)}", total=None)
        row = kernel.delta_tables.materialise(
            call, identifier, lambda done, of: progress.update(task, completed=done, total=of)
        )
    print_plain(f"{written(identifier)} is at version {row.version}")
