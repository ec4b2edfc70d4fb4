"""`floecat capture`: what is captured of tables: rows, nulls, bounds and distinct values of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from floecat_rest.commands.console import err, print_json, print_plain, print_rows, working, written_time
from floecat_rest.commands.jobs.watching import follow
from floecat_rest.commands.names import parse_identifier, written
from floecat_rest.commands.options import JsonOption, SnapshotOption, TableArgument, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel
    from floecat.statistics.capture.control import CaptureInfo

__all__ = ["app"]

app = typer.Typer(
    name="capture",
    help="Captures of statistics: rows, nulls, bounds and distinct values.",
    no_args_is_help=True,
)

IdArgument = Annotated[UUID, typer.Argument(help="Id of the capture, as `floecat capture list` shows it.")]

_HEADINGS = ("id", "table", "snapshot", "state", "attempts", "files", "groups")


@app.command()
@on_catalog
def now(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    snapshot: SnapshotOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read files again whose statistics are stored.")
    ] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, max=60, help="Seconds to wait. 0 only asks for it.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Capture a snapshot now. Exits with 1 if that takes too long or fails."""
    identifier = parse_identifier(name)
    with working(f"Capturing {written(identifier)}", err) as show:
        made = kernel.statistics.captures.capture(
            call,
            identifier,
            snapshot,
            full=full,
            wait_ms=round(wait_s * 1000),
            watch=lambda seen: show(f"Capturing {seen.table}: {seen.done:,} of {seen.files:,} files"),
        )
    _print([made], as_json=as_json)
    if made.state in ("failed", "cancelled") or (wait_s and made.last_error and made.is_open):
        raise typer.Exit(1)


@app.command()
@on_catalog
def backfill(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Ask for captures of all snapshots of a table that were never captured."""
    identifier = parse_identifier(name)
    made = kernel.statistics.captures.backfill(call, identifier)
    if made or as_json:
        _print(made, as_json=as_json)
    else:
        print_plain(f"All snapshots of {written(identifier)} are captured")


@app.command()
@on_catalog
def policy(
    kernel: Kernel,
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(help="NAMESPACE.NAME of a table. Default: the policy of the catalog.", metavar="NAME"),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show what is captured of a table, or of the tables of a catalog, and what sets it."""
    identifier = None if name is None else parse_identifier(name)
    found = kernel.statistics.policies.get(call, identifier)
    if as_json:
        print_json([found])
        return
    values = {
        "enabled": "yes" if found.enabled else "no",
        "snapshots": found.snapshots,
        "columns": ", ".join(found.columns) or "the first ones",
        "first-columns": str(found.first_columns or "all"),
        "expressions": ", ".join(map(str, found.expressions)) or "-",
        "publish": found.publish,
    }
    rows = ((key, value, found.set_by.get(key, "settings")) for key, value in values.items())
    print_rows(("policy", "value", "set by"), rows)


@app.command(name="list")
@on_catalog
def list_captures(
    kernel: Kernel,
    call: Call,
    *,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only captures in this state; repeatable.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="Only captures of tables of this name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the captures of a catalog, oldest first. Those that failed stay until they are retried."""
    _print(kernel.statistics.captures.list(call, states=state or (), table=table), as_json=as_json)


@app.command()
@on_catalog
def snapshots(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a table of which statistics were captured, or will be."""
    found = kernel.statistics.captures.snapshots(call, parse_identifier(name))
    if as_json:
        print_json(found)
        return
    print_rows(
        ("snapshot", "status", "files", "rows", "finalized", "statistics file", "problem"),
        (
            (
                str(each.snapshot_id),
                each.status,
                f"{each.coverage.captured}/{each.coverage.files}" if each.coverage else "-",
                f"{each.coverage.rows:,}" if each.coverage else "-",
                written_time(each.finalized_at_ms),
                each.statistics_file or "-",
                each.problem or "",
            )
            for each in found
        ),
    )


@app.command()
@on_catalog
def show(
    kernel: Kernel,
    call: Call,
    capture: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a capture with its groups of files."""
    found = kernel.statistics.captures.get(call, capture)
    if as_json:
        print_json([found])
        return
    print_rows(
        ("capture", str(found.id)),
        (
            ("table", found.table),
            ("snapshot", str(found.snapshot_id)),
            ("reason", found.reason),
            ("state", found.state),
            ("attempts", f"{found.attempts} of {found.max_attempts}"),
            ("files", f"{found.done} of {found.files}, {found.stored} stored before"),
            ("worker", found.worker or "-"),
            ("asked for", f"{written_time(found.created_at_ms)} by {found.created_by}"),
            ("finished", written_time(found.finished_at_ms)),
            ("problem", _problem(found) or "-"),
            *(
                (f"group {group.number}", f"{group.state}, {group.done} of {group.files} files")
                for group in found.groups
            ),
        ),
    )


@app.command()
@on_catalog
def cancel(
    kernel: Kernel,
    call: Call,
    capture: IdArgument,
) -> None:
    """Cancel a capture with its groups. A running one stops before its next file."""
    found = kernel.statistics.captures.cancel(call, capture)
    print_plain(f"Capture {found.id} of {found.table} is {found.state}")


@app.command()
@on_catalog
def watch(
    kernel: Kernel,
    call: Call,
    capture: Annotated[
        list[UUID] | None, typer.Argument(help="Ids of captures. Default: all that are open.")
    ] = None,
    *,
    interval_s: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between looks.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Follow captures until they end. Exits with 1 if one has failed then."""
    ended = follow(
        capture,
        lambda: kernel.statistics.captures.list(call),
        lambda id: kernel.statistics.captures.get(call, id),
        rendered=None if as_json else _rendered,
        print_changed=print_json if as_json else _print_lines,
        if_none=None if as_json else "No capture is open: floecat capture list shows those that ended",
        interval_s=interval_s,
    )
    if any(each.state == "failed" for each in ended):
        raise typer.Exit(1)


def _rendered(captures: Sequence[CaptureInfo]) -> Table:
    table = Table(*_HEADINGS, "problem", box=None, pad_edge=False)
    for each in captures:
        table.add_row(*map(Text, (*_row(each), _problem(each))))
    return table


def _print_lines(captures: Sequence[CaptureInfo]) -> None:
    for each in captures:
        print_plain("  ".join((*_row(each), _problem(each))).rstrip())


def _problem(capture: CaptureInfo) -> str:
    return capture.last_error or capture.problem or ""


def _row(capture: CaptureInfo) -> tuple[str, ...]:
    ended = sum(group.state == "succeeded" for group in capture.groups)
    return (
        str(capture.id),
        capture.table,
        str(capture.snapshot_id),
        capture.state,
        f"{capture.attempts}/{capture.max_attempts}",
        f"{capture.done}/{capture.files}",
        f"{ended}/{len(capture.groups)}" if capture.groups else "-",
    )


def _print(captures: Sequence[CaptureInfo], *, as_json: bool) -> None:
    if as_json:
        print_json(captures)
        return
    print_rows(
        (*_HEADINGS, "asked for", "finished", "problem"),
        (
            (
                *_row(each),
                written_time(each.created_at_ms),
                written_time(each.finished_at_ms),
                _problem(each),
            )
            for each in captures
        ),
    )
