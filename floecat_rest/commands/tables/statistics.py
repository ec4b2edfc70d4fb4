"""`floecat table statistics`, `floecat table constraints` and `floecat table index-artifacts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.names import parse_identifier, written
from floecat_rest.commands.options import JsonOption, SnapshotOption, TableArgument, on_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from floecat.entries.calls import Call, Page, PageRequest
    from floecat.runtime import Kernel
    from floecat.statistics.constraints import Constraint, ConstraintColumn
    from floecat.statistics.records import Ndv, StatisticsRecord, Target

__all__ = ["constraints", "index_artifacts", "statistics"]

T = TypeVar("T")


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
    from floecat.statistics.records import TargetKind

    if kind is not None and kind not in [each.value for each in TargetKind]:
        raise typer.BadParameter("must be table, column, expression or file", param_hint="--kind")
    identifier = parse_identifier(name)
    wanted = TargetKind(kind) if kind else None
    snapshot_id, records = _all(
        lambda page: kernel.statistics.targets.list(call, identifier, snapshot, wanted, page)
    )
    if as_json:
        print_json(records)
        return
    if not records:
        of_kind = "" if kind is None else f" of the kind {kind}"
        hint = f"run floecat capture now {written(identifier)}"
        if kind == TargetKind.EXPRESSION.value:
            hint = f"floecat capture policy {written(identifier)} shows which expressions are captured"
        print_plain(f"Nothing{of_kind} is known of snapshot {snapshot_id}: {hint}")
        return
    for record in records:
        if record.table is not None:
            print_plain(
                f"{written(identifier)}, snapshot {snapshot_id}: {record.table.row_count:,} rows,"
                f" {record.table.data_file_count:,} files, {record.table.total_size_bytes:,} bytes"
                + ("" if record.metadata.completeness.value == "complete" else f", {_incomplete(record)}")
                + (", upper bounds: with deleted rows" if "upper-bound" in record.table.properties else "")
            )
    headings = ("what", "type", "rows", "nulls", "NaNs", "distinct", "min", "max", "width")
    print_rows(headings, _rows(records))


@on_catalog
def index_artifacts(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the index artifacts of a table: files that index one data file each, as page-index sidecars."""
    identifier = parse_identifier(name)
    snapshot_id, artifacts = _all(
        lambda page: kernel.statistics.index_artifacts.list(call, identifier, snapshot, page)
    )
    if as_json:
        print_json(artifacts)
        return
    if not artifacts:
        print_plain(
            f"Snapshot {snapshot_id} has no index artifacts:"
            " materialize statistics/index_artifacts in Dagster to build them"
        )
        return
    print_rows(
        ("data file", "state", "rows", "pages", "artifact"),
        (
            (
                each.target.file_path,
                each.state.value,
                _number(each.coverage.rows_indexed),
                _number(each.coverage.pages_indexed),
                each.artifact_uri,
            )
            for each in artifacts
        ),
    )


def _all(list_page: Callable[[PageRequest], tuple[int, Page[T]]]) -> tuple[int, list[T]]:
    """A snapshot, and what is listed of it in all pages."""
    from floecat.entries.calls import PageRequest

    found: list[T] = []
    token: str | None = None
    while True:
        snapshot_id, page = list_page(PageRequest(token))
        found += page.items
        token = page.next_token
        if token is None:
            return snapshot_id, found


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
    found = kernel.statistics.constraints.get(call, identifier, snapshot)
    if as_json:
        print_json([found])
        return
    if not found.constraints:
        print_plain(f"Snapshot {found.snapshot_id} has no constraints")
        return
    print_rows(
        ("name", "type", "columns", "enforced", "check or reference"),
        (
            (
                each.name,
                each.type.value,
                _columns(each.columns),
                "yes" if each.enforced else "no",
                each.check_expression or _reference(each),
            )
            for each in found.constraints
        ),
    )


def _columns(columns: Sequence[ConstraintColumn]) -> str:
    return ", ".join(column.column_name or str(column.column_id) for column in columns)


def _reference(constraint: Constraint) -> str:
    """What a foreign key refers to, and what differs from the defaults of SQL."""
    table: object = constraint.referenced_table_id
    if constraint.referenced_table is not None:
        table = written((*constraint.referenced_table.namespace, constraint.referenced_table.name))
    if table is None:
        return ""
    columns = f" ({_columns(constraint.referenced_columns)})" if constraint.referenced_columns else ""
    rules = {
        "match": constraint.match_option.value.replace("none", ""),
        "on update": constraint.update_rule.value.replace("no-action", ""),
        "on delete": constraint.delete_rule.value.replace("no-action", ""),
        "by": constraint.referenced_constraint_name,
    }
    return f"{table}{columns}" + "".join(f", {name} {rule}" for name, rule in rules.items() if rule)


def _rows(records: list[StatisticsRecord]) -> Iterator[tuple[str, ...]]:
    for record in records:
        if record.scalar is not None:
            found = record.scalar
            yield (
                found.display_name or _named(record.target),
                found.logical_type,
                f"{found.row_count:,}",
                _number(found.null_count),
                _number(found.nan_count),
                _distinct(found.ndv),
                _short(found.min),
                _short(found.max),
                _number(found.avg_width_bytes),
            )
        elif record.file is not None:
            yield (record.file.file_path, record.file.file_format, f"{record.file.row_count:,}", *["-"] * 6)


def _named(target: Target) -> str:
    from floecat.statistics.records import ColumnTarget, ExpressionTarget

    if isinstance(target, ExpressionTarget):
        return f"{target.engine_kind} {target.engine_expression_key.decode(errors='replace')}"
    return f"column {target.column_id}" if isinstance(target, ColumnTarget) else ""


def _incomplete(record: StatisticsRecord) -> str:
    return f"{record.metadata.completeness.value}: see floecat capture snapshots"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _distinct(ndv: Ndv | None) -> str:
    if ndv is None:
        return "-"
    if ndv.exact is not None:
        return f"{ndv.exact:,}"
    return "-" if ndv.approx is None else f"about {ndv.approx.estimate:,.0f}"


def _short(text: str | None) -> str:
    return "-" if text is None else '""' if not text else text if len(text) <= 40 else f"{text[:39]}…"
