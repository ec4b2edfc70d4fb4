"""`floecat view`: views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.commands.console import out, print_json, print_plain, print_rows, written_time
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, NamespaceOption, TableArgument, WideOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="view", help="Views.", no_args_is_help=True)


@app.command(name="list")
@on_catalog
def list_views(
    kernel: Kernel,
    call: Call,
    *,
    namespace: NamespaceOption = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the views of a catalog."""
    listed = kernel.catalog.views.list_all(call, namespace or ())
    found = sorted(listed, key=lambda view: (view.namespace, view.name))
    if as_json:
        print_json(found)
        return
    rows = (
        (
            shown(call, TableIdentifier(view.namespace, view.name)),
            written_time(view.updated_at_ms),
            str(view.id),
            view.location,
        )
        for view in found
    )
    print_rows(("name", "updated", "id", "location"), rows, more=("id", "location"), wide=wide)


@app.command()
@on_catalog
def show(kernel: Kernel, call: Call, name: TableArgument, *, as_json: JsonOption = False) -> None:
    """Show a view: where it is, its columns, properties, and its SQL in each dialect."""
    from floecat.events.table_description import type_text
    from floecat.iceberg.schemas.schema import parse_schema
    from floecat.iceberg.views.view_metadata import ViewMetadata

    found = kernel.catalog.views.load(call, name)
    if as_json:
        print_json([{"metadata-location": found.metadata_location, "metadata": msgspec.Raw(found.metadata)}])
        return
    metadata, marks = ViewMetadata.parse(found.metadata), kernel.catalog.marks
    current = metadata.current_version
    schema = parse_schema(metadata.current_schema.encoded)
    print_rows(
        ("view", shown(call, name)),
        (
            ("view UUID", metadata.view_uuid),
            ("location", metadata.location),
            ("metadata file", found.metadata_location),
            ("version", f"{current.version_id} of {len(metadata.versions)}"),
            ("updated", written_time(current.timestamp_ms)),
            ("protected", "yes" if marks.is_protected(call, call.on_entry("view", name)) else "no"),
            ("reads with the rights of", "its owner" if marks.is_definer(call, name) else "who reads it"),
            ("default catalog", current.default_catalog or "-"),
            ("default namespace", shown(call, current.default_namespace) or "-"),
            *((f"property {key}", value) for key, value in sorted(metadata.properties.items())),
        ),
    )
    out.print()
    print_rows(
        ("id", "column", "type", "doc"),
        (
            (str(field.id), field.name, type_text(field.type), field.doc or "")
            for field in schema.struct.fields
        ),
    )
    for each in current.representations:
        out.print()
        print_plain(f"SQL of {each.dialect}:" if each.sql else f"{each.type}, which is not SQL")
        print_plain(each.sql or "")


@app.command()
@on_catalog
def definer(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    off: Annotated[bool, typer.Option("--off", help="With those of who reads it, the default.")] = False,
) -> None:
    """Have a view read with the rights of its owner, where an engine that is trusted reads through it."""
    kernel.catalog.marks.set_definer(call, name, definer=not off)
    print_plain(f"View {shown(call, name)} reads with the rights of {'who reads it' if off else 'its owner'}")
