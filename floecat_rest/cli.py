"""The `floecat` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import floecat
from floecat.errors import FloecatError, SettingsError
from floecat_rest.commands import docs
from floecat_rest.commands.catalogs import catalog, connector, namespace
from floecat_rest.commands.console import out, print_error
from floecat_rest.commands.jobs import capture, job, purge
from floecat_rest.commands.service import dagster, db, demo, serve, up
from floecat_rest.commands.tables import table

__all__ = ["app", "main"]

EXIT_FAILURE = 1
EXIT_SETTINGS = 2
"""As for a wrong command line: nothing was started."""

app = typer.Typer(
    name="floecat",
    help="Floecat, an Apache Iceberg REST catalog.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (up.up, serve.serve, dagster.dagster, demo.demo):
    app.command()(command)
for group in (
    db.app,
    catalog.app,
    namespace.app,
    table.app,
    connector.app,
    job.app,
    capture.app,
    purge.app,
    docs.app,
):
    app.add_typer(group)


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
    except SettingsError as error:
        print_error(error.message)
        sys.exit(EXIT_SETTINGS)
    except FloecatError as error:
        print_error(error.message)
        sys.exit(EXIT_FAILURE)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        print_error(f"{error.strerror or error}{place}")
        sys.exit(EXIT_FAILURE)
