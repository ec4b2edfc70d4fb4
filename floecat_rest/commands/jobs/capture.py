"""`floecat capture`: what is captured of tables: rows, nulls, bounds and distinct values of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.console import err, print_json, print_plain, print_rows, working, written_time
from floecat_rest.commands.jobs.job_commands import HEAD, TAIL, Columns, IdArgument, JobCommands
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import (
    JsonOption,
    OptionalTableArgument,
    SnapshotOption,
    TableArgument,
    WideOption,
    on_catalog,
)

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel
    from floecat.statistics.capture.descriptions import CaptureInfo
    from floecat_rest.management.job_wire import CaptureResponse

__all__ = ["app"]

app = typer.Typer(
    name="capture",
    help="Captures of statistics: rows, nulls, bounds and distinct values.",
    no_args_is_help=True,
)


def _groups(capture: CaptureInfo) -> str:
    ended = sum(group.state == "succeeded" for group in capture.groups)
    return f"{ended}/{len(capture.groups)}" if capture.groups else "-"


_COLUMNS: Columns = {
    **HEAD,
    "snapshot": lambda capture: str(capture.snapshot_id),
    "files": lambda capture: f"{capture.done}/{capture.files}",
    "groups": _groups,
    **TAIL,
    "problem": lambda capture: capture.last_error or capture.problem or "",
}


def _response(capture: CaptureInfo) -> CaptureResponse:
    from floecat_rest.management.job_wire import CaptureResponse, kind_response

    return kind_response(capture, CaptureResponse)


_commands = JobCommands(
    app, lambda kernel: kernel.statistics.captures, _COLUMNS, _response, more=("snapshot", "groups")
)
_commands.add_list()
_commands.add_show()


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
    with working(f"Capturing {shown(call, name)}", err) as show:
        made = kernel.statistics.captures.capture(
            call,
            name,
            snapshot,
            full=full,
            wait_ms=round(wait_s * 1000),
            watch=lambda seen: show(f"Capturing {seen.table}: {seen.done:,} of {seen.files:,} files"),
        )
    _commands.print([made], as_json=as_json)
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
    made = kernel.statistics.captures.backfill(call, name)
    if made or as_json:
        _commands.print(made, as_json=as_json)
    else:
        print_plain(f"All snapshots of {shown(call, name)} are captured")


@app.command()
@on_catalog
def policy(
    kernel: Kernel,
    call: Call,
    name: OptionalTableArgument = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show what is captured of a table, or without a NAME of the tables of a catalog, and what sets it."""
    found = kernel.statistics.policies.get(call, name)
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


@app.command()
@on_catalog
def snapshots(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a table of which statistics were captured, or will be."""
    found = kernel.statistics.captures.snapshots(call, name)
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
        more=("statistics file",),
        wide=wide,
    )


@app.command()
@on_catalog
def cancel(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
    """Cancel a capture with its groups. A running one stops before its next file."""
    capture = kernel.statistics.captures.cancel(call, id)
    _commands.print_outcome(capture, capture.state, as_json=as_json)


_commands.add_watch()
