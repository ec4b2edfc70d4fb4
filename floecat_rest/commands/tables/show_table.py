"""`floecat table show`: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floecat_rest.commands.console import out, print_json, print_rows, written_time
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, TableArgument, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["show"]


@on_catalog
def show(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a table: where it is, its current snapshot, columns and properties."""
    found = kernel.catalog.tables.describe(call, name)
    if as_json:
        print_json([found])
        return
    current = found.description
    print_rows(
        ("table", shown(call, name)),
        (
            ("format", f"{found.format}, read as Iceberg format version {current.format_version}"),
            ("id", str(found.id)),
            ("table UUID", found.table_uuid),
            ("location", current.location),
            ("metadata file", found.metadata_location),
            ("created", written_time(found.created_at_ms)),
            ("protected", "yes" if found.protected else "no"),
            ("updated", written_time(found.updated_at_ms)),
            ("snapshots", str(found.snapshots)),
            ("current snapshot", _or_dash(current.snapshot_id)),
            ("its operation", _or_dash(current.snapshot_operation)),
            ("rows", _or_dash(current.row_count)),
            ("partitioned by", ", ".join(found.partition_fields) or "-"),
            *((f"property {key}", value) for key, value in sorted(found.properties.items())),
        ),
    )
    out.print()
    print_rows(
        ("id", "column", "type", "required", "doc"),
        (
            (str(each.field_id), each.name, each.type, "yes" if each.required else "no", each.doc or "")
            for each in current.columns
        ),
    )


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
