"""`floecat table`: Delta tables that read as Iceberg tables."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from floecat_rest.commands.calls import AccountOption, CatalogOption, open_call, parse_identifier
from floecat_rest.commands.console import err, out, print_table
from floecat_rest.commands.options import ConfigOption, DataDirOption, settings_from

__all__ = ["app"]

app = typer.Typer(
    name="table",
    help="Delta tables in the catalog, which any engine reads as Iceberg tables.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(help="NAMESPACE.NAME; nested namespaces are OUTER.INNER.NAME.", metavar="NAME")
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
    """Register a Delta table. Nothing is copied, and the table stays with Delta: it is read-only here.

    Loads see new versions by themselves. The location must be one of the catalog's own or allowed ones.
    """
    identifier = parse_identifier(name)
    settings = settings_from(config, data_dir=data_dir)
    with open_call(settings, catalog, account) as (kernel, call):
        made = kernel.delta_registration.register(
            call, identifier.namespace, identifier.name, location, format_version=format_version
        )
    version = "not read yet" if made.snapshot_id is None else f"version {made.snapshot_id}"
    out.print(f"Registered {identifier} at {made.location}: {version}", markup=False, soft_wrap=True)
    if made.problem is not None:
        err.print(f"It cannot be read: {made.problem.message}", markup=False, soft_wrap=True)


@app.command(name="list")
def list_tables(
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the Delta tables of a catalog: the newest version that readers see, and what is wrong with it."""
    table = Table("name", "version", "location", "problem", box=None, pad_edge=False)
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        for row in kernel.delta_tables.list(call):
            version = "-" if row.version is None else str(row.version)
            table.add_row(".".join((*row.namespace, row.name)), version, row.location, row.problem or "")
    print_table(table)


@app.command()
def refresh(
    name: NameArgument,
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Bring in all versions of a Delta table now, also those that are too many for a load to wait for.

    Safe to stop and to repeat: what is done stays, and what is there is not made again.
    """
    identifier = parse_identifier(name)
    settings = settings_from(config, data_dir=data_dir)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        open_call(settings, catalog, account) as (kernel, call),
        Progress(*columns, console=err, disable=not err.is_terminal) as progress,
    ):
        task = progress.add_task(f"Versions of {identifier}", total=None)
        row = kernel.delta_tables.materialise(
            call, identifier, lambda done, of: progress.update(task, completed=done, total=of)
        )
    out.print(f"{identifier} is at version {row.version}", markup=False, soft_wrap=True)
