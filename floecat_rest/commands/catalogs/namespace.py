"""`floecat namespace`: the namespaces of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from floecat.identifiers.written_names import parse_namespace
from floecat_rest.commands.console import print_json, print_rows
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="namespace", help="Namespaces of a catalog.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Namespaces of a catalog."""


@app.command(name="list")
@on_catalog
def list_namespaces(
    kernel: Kernel,
    call: Call,
    parent: Annotated[
        Any,
        typer.Argument(
            parser=parse_namespace, metavar="[OUTER.INNER]", help="Only namespaces below this one."
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the namespaces of a catalog, nested ones behind their parents."""
    found = list(kernel.catalog.namespaces.walk(call, parent))
    if as_json:
        print_json({"namespace": namespace} for namespace in found)
    else:
        print_rows(("namespace",), ((shown(call, namespace),) for namespace in found))
