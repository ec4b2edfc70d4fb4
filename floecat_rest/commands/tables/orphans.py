"""`floecat table orphans`: files below the location of a table that nothing leads to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from floecat.errors import BadRequestError
from floecat_rest.commands.console import err, out, print_json, print_plain, print_rows, written_time
from floecat_rest.commands.options import (
    JsonOption,
    NamespaceOption,
    OptionalTableArgument,
    WideOption,
    duration_ms,
    on_catalog,
)

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.fileio.base import FileEntry
    from floecat.purge.orphans.orphan_run import OrphanProgress, OrphanReport
    from floecat.runtime import Kernel

__all__ = ["orphans"]


@on_catalog
def orphans(
    kernel: Kernel,
    call: Call,
    name: OptionalTableArgument = None,
    *,
    namespace: NamespaceOption = None,
    all_tables: Annotated[bool, typer.Option("--all", help="All tables of the catalog.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is found.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            help="ISO-8601 duration, at least P1D: younger files stay. Default: floecat.purge.orphan-grace.",
        ),
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List files below the location of a table that nothing leads to, and delete them with --delete.

    Only Iceberg tables are looked at. Exits with 1 if a table could not be looked at, or a file not deleted.
    """
    if sum((name is not None, namespace is not None, all_tables)) != 1:
        raise BadRequestError("One of the NAME of a table, --namespace or --all is needed")
    grace = kernel.settings.purge.orphan_grace
    older_than_ms = grace.ms if older_than is None else duration_ms("--older-than", older_than)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task("Reading metadata", total=None)

        def show(step: OrphanProgress) -> None:
            progress.update(
                task,
                description=f"{step.listed} files listed, {step.orphans} orphans, {step.deleted} deleted",
            )

        def found(entry: FileEntry) -> None:
            if as_json:
                print_json([entry])
            else:
                print_plain(entry.location)

        options: dict[str, Any] = {
            "older_than_ms": older_than_ms,
            "delete": delete,
            "found": found,
            "progress": show,
        }
        if name is not None:
            reports = [kernel.purge.orphans.find(call, name, **options)]
        else:
            reports = kernel.purge.orphans.find_all(call, namespace, **options)
    _print(reports, as_json=as_json, wide=wide)
    if any(report.failed or report.problem for report in reports):
        raise typer.Exit(1)


def _print(reports: Sequence[OrphanReport], *, as_json: bool, wide: bool) -> None:
    if as_json:
        print_json(reports)
        return
    out.print()
    headings = ("table", "listed", "orphans", "bytes", "oldest", "younger", "deleted", "failed", "problem")
    print_rows(
        headings,
        (
            (
                report.table,
                str(report.listed),
                str(report.orphans),
                str(report.orphan_bytes),
                written_time(report.oldest_modified_at_ms),
                str(report.young),
                str(report.deleted),
                str(report.failed),
                report.problem or (report.failures[0].reason if report.failures else ""),
            )
            for report in reports
        ),
        more=("oldest", "younger"),
        wide=wide,
    )
