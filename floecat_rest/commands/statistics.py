"""`floecat table statistics` and `floecat table constraints`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.names import parse_identifier, written
from floecat_rest.commands.options import JsonOption, SnapshotOption, TableArgument, on_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floecat.entries.calls import Call
    from floecat.runtime import Kernel
    from floecat.statistics.records import Ndv, StatisticsRecord

__all__ = ["constraints", "statistics"]


@on_catalog
def statistics(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    kind: Annotated[str | None, typer.Option("--kind", help="table, column, expression or file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is known of a snapshot: rows, nulls, bounds and distinct values of its columns."""
    from floecat.entries.calls import PageRequest
    from floecat.statistics.records import TargetKind

    if kind is not None and kind not in [each.value for each in TargetKind]:
        raise typer.BadParameter("must be table, column, expression or file", param_hint="--kind")
    identifier = parse_identifier(name)
    records: list[StatisticsRecord] = []
    token: str | None = None
    while True:
        snapshot_id, page = kernel.statistics.list(
            call, identifier, snapshot, TargetKind(kind) if kind else None, PageRequest(token)
        )
        records += page.items
        token = page.next_token
        if token is None:
            break
    if as_json:
        print_json(records)
        return
    if not records:
        print_plain(
            f"Nothing is known of snapshot {snapshot_id}: run floecat capture now {written(identifier)}"
        )
        return
    for record in records:
        if record.table is not None:
            print_plain(
                f"{written(identifier)}, snapshot {snapshot_id}: {record.table.row_count:,} rows,"
                f" {record.table.data_file_count:,} files, {record.table.total_size_bytes:,} bytes"
                + ("" if record.metadata.completeness.value == "complete" else f", {_incomplete(record)}")
            )
    print_rows(("what", "type", "rows", "nulls", "distinct", "min", "max", "width"), _rows(records))


@on_catalog
def constraints(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the constraints of a table: those of its metadata, and those that engines have put."""
    identifier = parse_identifier(name)
    found = kernel.constraints.get(call, identifier, snapshot)
    if as_json:
        print_json([found])
        return
    print_rows(
        ("name", "type", "columns", "check", "enforced"),
        (
            (
                each.name,
                each.type.value,
                ", ".join(column.column_name or str(column.column_id) for column in each.columns),
                each.check_expression,
                "yes" if each.enforced else "no",
            )
            for each in found.constraints
        ),
    )


def _rows(records: list[StatisticsRecord]) -> Iterator[tuple[str, ...]]:
    for record in records:
        if record.scalar is not None:
            found = record.scalar
            yield (
                found.display_name,
                found.logical_type,
                f"{found.row_count:,}",
                _number(found.null_count),
                _distinct(found.ndv),
                _short(found.min),
                _short(found.max),
                _number(found.avg_width_bytes),
            )
        elif record.file is not None:
            yield (record.file.file_path, record.file.file_format, f"{record.file.row_count:,}", *["-"] * 5)


def _incomplete(record: StatisticsRecord) -> str:
    return f"{record.metadata.completeness.value}: see floecat capture list"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _distinct(ndv: Ndv | None) -> str:
    if ndv is None:
        return "-"
    if ndv.exact is not None:
        return f"{ndv.exact:,}"
    return "-" if ndv.approx is None else f"about {ndv.approx.estimate:,.0f}"


def _short(text: str | None) -> str:
    return "-" if text is None else text if len(text) <= 40 else f"{text[:39]}…"
