"""The `floecat` command."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import floecat
from floecat.errors import BadRequestError, FloecatError, SettingsError
from floecat_rest.commands.console import out, print_error

__all__ = ["app", "main"]

EXIT_FAILURE = 1
EXIT_WRONG = 2
"""Exit code of a wrong option, argument or setting: nothing was started."""


class _Place(NamedTuple):
    """The module and the help of a command, or of a group of commands."""

    module: str
    attribute: str
    help: str
    """First paragraph of its help, which lists show."""


_PLACES: Final = {
    "up": _Place(
        "service.up",
        "up",
        "Start everything: store, REST service, Dagster UI and daemon, demo data. One Ctrl-C stops it all.",
    ),
    "serve": _Place(
        "service.serve",
        "serve",
        "Run the REST service until Ctrl-C or SIGTERM. The store must be up to date: `floecat db upgrade`.",
    ),
    "dagster": _Place(
        "service.dagster",
        "dagster",
        "Run Dagster's web server and daemon until Ctrl-C or SIGTERM, with DAGSTER_HOME prepared.",
    ),
    "demo": _Place(
        "service.demo",
        "demo",
        "Load demo data into a running service: tables with history, a view. Safe to repeat.",
    ),
    "db": _Place("service.db", "app", "The SQL store."),
    "catalog": _Place(
        "catalogs.catalog", "app", "Catalogs, each reached by its name as prefix or warehouse."
    ),
    "namespace": _Place("catalogs.namespace", "app", "Namespaces of a catalog."),
    "table": _Place(
        "tables.table",
        "app",
        "Tables; Delta tables, which any engine reads as Iceberg tables; orphans; plans; statistics.",
    ),
    "view": _Place("tables.view", "app", "Views."),
    "connector": _Place(
        "catalogs.connector",
        "app",
        "Connectors: locations outside the catalog that are scanned for tables.",
    ),
    "reconcile": _Place(
        "jobs.reconcile", "app", "Scans of connectors with all captures that they ask for, as trees of jobs."
    ),
    "authority": _Place(
        "catalogs.authority",
        "app",
        "Storage authorities: they make keys for clients, each for one table and an hour.",
    ),
    "job": _Place(
        "jobs.job",
        "app",
        "Jobs: purges of dropped tables, scheduled scans of connectors, captures of statistics.",
    ),
    "capture": _Place(
        "jobs.capture", "app", "Captures of statistics: rows, nulls, bounds and distinct values."
    ),
    "purge": _Place("jobs.purge", "app", "Purges: deletion of the files of dropped tables."),
    "account": _Place(
        "access.account", "app", "Accounts, each with catalogs, principals and roles of its own."
    ),
    "principal": _Place("access.principal", "app", "Principals of an account."),
    "role": _Place("access.role", "app", "Roles of an account, and their members."),
    "access": _Place("access.access", "app", "Access: grants and owners; who may do what, and why."),
    "docs": _Place("docs", "app", "Reference pages, generated from code."),
}


class _Commands(TyperGroup):
    """Commands whose modules are imported when one runs: help, version and completion are quick."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, place in _PLACES.items():
            self.add_command(TyperCommand(name, help=place.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Imports the command."""
        name, command, left = super().resolve_command(ctx, args)
        place = _PLACES.get(name or "")
        return name, command if place is None else _imported(name or "", place), left


def _imported(name: str, place: _Place) -> Any:
    found = getattr(import_module(f"floecat_rest.commands.{place.module}"), place.attribute)
    parent = typer.Typer()
    if isinstance(found, typer.Typer):
        parent.add_typer(found)
    else:
        parent.command(name)(found)
    return typer.main.get_group(parent).commands[name]


app = typer.Typer(
    name="floecat",
    cls=_Commands,
    help="Floecat, an Apache Iceberg REST catalog.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Floecat, an Apache Iceberg REST catalog."""


@app.command()
def version() -> None:
    """Show the version."""
    out.print(f"floecat {floecat.__version__}")


def main() -> None:
    """Runs the command line. Exits with 0, with 1 after a failure, with 2 for a wrong option or setting."""
    try:
        app(prog_name="floecat")
    except (SettingsError, BadRequestError) as error:
        print_error(error.message)
        sys.exit(EXIT_WRONG)
    except FloecatError as error:
        print_error(error.message)
        sys.exit(EXIT_FAILURE)
    except (FileExistsError, NotADirectoryError) as error:
        path = Path(error.filename or ".").absolute()
        file = next((each for each in (path, *path.parents) if each.is_file()), path)
        print_error(f"There is a file where a folder belongs: {file}")
        sys.exit(EXIT_WRONG)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        print_error(f"{error.strerror or error}{place}")
        sys.exit(EXIT_FAILURE)
