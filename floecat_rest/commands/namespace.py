"""`floecat namespace`: the namespaces of a catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from floecat_rest.commands.console import print_json, print_rows
from floecat_rest.commands.names import parse_namespace, written
from floecat_rest.commands.options import (
    AccountOption,
    CatalogOption,
    ConfigOption,
    DataDirOption,
    JsonOption,
    open_call,
    settings_from,
)

__all__ = ["app"]

app = typer.Typer(name="namespace", help="Namespaces of a catalog.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Namespaces of a catalog."""


@app.command(name="list")
def list_namespaces(
    parent: Annotated[
        str | None,
        typer.Argument(help="Only namespaces below this one, as OUTER.INNER.", show_default=False),
    ] = None,
    *,
    as_json: JsonOption = False,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the namespaces of a catalog, nested ones behind their parents."""
    within = None if parent is None else parse_namespace(parent)
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        found = list(kernel.namespaces.walk(call, within))
    if as_json:
        print_json({"namespace": namespace} for namespace in found)
    else:
        print_rows(("namespace",), ((written(namespace),) for namespace in found))
