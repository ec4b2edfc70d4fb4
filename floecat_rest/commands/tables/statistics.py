"""`floecat table statistics`, `floecat table constraints` and `floecat table index-artifacts`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec
import typer

from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import (
    JsonOption,
    SnapshotOption,
    TableArgument,
    WideOption,
    on_catalog,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from floecat.entries.calls import Call, Page, PageRequest
    from floecat.runtime import Kernel
    from floecat.statistics.constraints import Constraint, ConstraintColumn
    from floecat.statistics.records import Ndv, StatisticsRecord, Target

__all__ = ["constraints", "index_artifacts", "statistics"]

T = TypeVar("T")

_KINDS: Final = ("table", "column", "expression", "file")
_LONGEST_BOUND: Final = 40
_LONGEST_NARROW_BOUND: Final = 20


@on_catalog
def statistics(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", parser=one_of("--kind", *_KINDS), metavar="|".join(_KINDS), help="Only these."
        ),
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is known of a snapshot: rows, nulls, bounds and distinct values of its columns."""
    from floecat.statistics.records import TargetKind

    wanted = TargetKind(kind) if kind else None
    snapshot_id, records = _all(
        lambda page: kernel.statistics.targets.list(call, name, snapshot, wanted, page)
    )
    if as_json:
        print_json(records)
        return
    if not records:
        of_kind = "" if kind is None else f" of the kind {kind}"
        hint = f"run floecat capture now {shown(call, name)}"
        if kind == TargetKind.EXPRESSION.value:
            hint = f"floecat capture policy {shown(call, name)} shows which expressions are captured"
        print_plain(f"Nothing{of_kind} is known of snapshot {snapshot_id}: {hint}")
        return
    for record in records:
        if record.table is not None:
            print_plain(
                f"{shown(call, name)}, snapshot {snapshot_id}: {record.table.row_count:,} rows,"
                f" {record.table.data_file_count:,} files, {record.table.total_size_bytes:,} bytes"
                + ("" if record.metadata.completeness.value == "complete" else f", {_incomplete(record)}")
                + (", upper bounds: with deleted rows" if "upper-bound" in record.table.properties else "")
            )
    files = [record.file for record in records if record.file is not None]
    if files:
        print_rows(
            ("file", "format", "rows", "bytes"),
            (
                (
                    _file(each.file_path, wide=wide),
                    each.file_format,
                    f"{each.row_count:,}",
                    f"{each.size_bytes:,}",
                )
                for each in files
            ),
        )
        return
    headings = ("what", "type", "rows", "nulls", "NaNs", "distinct", "min", "max", "width")
    types = _types(kernel, call, name)
    print_rows(headings, _rows(records, types, wide=wide), more=("rows", "NaNs"), wide=wide)


@on_catalog
def index_artifacts(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the index artifacts of a table: files that index one data file each, as page-index sidecars."""
    snapshot_id, artifacts = _all(
        lambda page: kernel.statistics.index_artifacts.list(call, name, snapshot, page)
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
                _file(each.target.file_path, wide=wide),
                each.state.value,
                _number(each.coverage.rows_indexed),
                _number(each.coverage.pages_indexed),
                each.artifact_uri,
            )
            for each in artifacts
        ),
        more=("artifact",),
        wide=wide,
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
    found = kernel.statistics.constraints.get(call, name, snapshot)
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
                each.check_expression or _reference(call, each),
            )
            for each in found.constraints
        ),
    )


def _columns(columns: Sequence[ConstraintColumn]) -> str:
    return ", ".join(column.column_name or str(column.column_id) for column in columns)


def _reference(call: Call, constraint: Constraint) -> str:
    """The table that a foreign key refers to, and its differences from the defaults of SQL."""
    table: object = constraint.referenced_table_id
    if (referenced := constraint.referenced_table) is not None:
        table = shown(call, TableIdentifier(referenced.namespace, referenced.name))
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


def _types(kernel: Kernel, call: Call, name: TableIdentifier) -> dict[str, str]:
    """Iceberg's types of the columns that a table has or had, by id, and of its present ones also by name."""
    from floecat.iceberg.metadata.table_metadata import TableMetadata

    metadata = TableMetadata.parse(kernel.catalog.tables.load(call, name).metadata)
    current = metadata.current_schema
    found = {
        str(id): str(field.type)
        for schema in (*metadata.schemas, current)
        for id, field in schema.fields_by_id.items()
    }
    return found | {name: str(current.fields_by_id[id].type) for name, id in current.ids_by_name.items()}


def _type(record: StatisticsRecord, logical: str, types: Mapping[str, str]) -> str:
    """The type of a column or an expression, of which the record has the kind, as `INT` of integers."""
    from floecat.statistics.capture.reading.expressions import ENGINE_KIND, Expression
    from floecat.statistics.records import ColumnTarget, ExpressionTarget

    target, column = record.target, ""
    if isinstance(target, ColumnTarget):
        column = str(target.column_id)
    elif isinstance(target, ExpressionTarget) and target.engine_kind == ENGINE_KIND:
        with suppress(msgspec.DecodeError):  # of an engine, which may spell its own otherwise
            expression = msgspec.json.decode(target.engine_expression_key, type=Expression)
            column = expression.term if expression.transform.startswith("truncate") else ""
    return types.get(column, logical.lower())


def _rows(
    records: list[StatisticsRecord], types: Mapping[str, str], *, wide: bool
) -> Iterator[tuple[str, ...]]:
    longest = _LONGEST_BOUND if wide else _LONGEST_NARROW_BOUND
    for record in records:
        if record.scalar is not None:
            found = record.scalar
            yield (
                found.display_name or _named(record.target),
                _type(record, found.logical_type, types),
                f"{found.row_count:,}",
                _number(found.null_count),
                _number(found.nan_count),
                _distinct(found.ndv),
                _short(found.min, longest),
                _short(found.max, longest),
                "-" if found.avg_width_bytes is None else f"{found.avg_width_bytes:,} B",
            )


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


def _short(text: str | None, longest: int) -> str:
    return (
        "-"
        if text is None
        else '""'
        if not text
        else text
        if len(text) <= longest
        else f"{text[: longest - 1]}…"
    )


def _file(location: str, *, wide: bool) -> str:
    return location if wide else location.rpartition("/")[2]
