"""`floecat purge`: the deletion of the files of dropped tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from floecat_rest.commands.console import print_json, print_plain, print_rows, written_time
from floecat_rest.commands.jobs.watching import follow
from floecat_rest.commands.names import written
from floecat_rest.commands.options import JsonOption, on_catalog
from floecat_rest.management.purge_wire import purge_response

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.purge.purge_operations import PurgeInfo
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="purge", help="Purges: deletion of the files of dropped tables.", no_args_is_help=True)

IdArgument = Annotated[UUID, typer.Argument(help="Id of the purge, as `floecat purge list` shows it.")]

_HEADINGS = ("id", "table", "state", "attempts", "found", "deleted", "kept", "failed", "MiB", "files/s")
_REASONS = {
    "shared": "needed by live tables",
    "outside": "outside the allowed locations",
    "gc-disabled": "data files, because gc.enabled is false",
    "waiting": "lead to files that could not be deleted",
}


@app.command(name="list")
@on_catalog
def list_purges(
    kernel: Kernel,
    call: Call,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only purges in this state, as this list shows it; repeatable."),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="Only purges of tables that had this name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the purges of a catalog, oldest first. Those in DEAD_LETTER stay until they are retried."""
    found = kernel.purge.operations.list(call, states=[each.upper() for each in state or ()], table=table)
    if as_json:
        _print_json(found)
        return
    headings = (*_HEADINGS, "created", "due", "worker", "problem")
    print_rows(
        headings,
        (
            (
                *_numbers(purge),
                written_time(purge.created_at_ms),
                written_time(purge.due_at_ms),
                purge.worker or "-",
                purge.last_error or "",
            )
            for purge in found
        ),
    )


@app.command()
@on_catalog
def show(
    kernel: Kernel,
    call: Call,
    purge: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a purge: how far it is, what it kept and why, and the files that could not be deleted."""
    found = kernel.purge.operations.get(call, purge)
    if as_json:
        _print_json([found])
        return
    progress = found.progress
    print_rows(
        ("purge", str(found.id)),
        (
            ("table", written(found.identifier)),
            ("state", found.state + (", to be cancelled" if found.cancel_requested else "")),
            ("location", found.location),
            ("metadata file", found.metadata_location),
            ("purger", found.purger),
            ("attempts", f"{found.attempts} of {found.max_attempts}"),
            ("worker", found.worker or "-"),
            ("dropped", f"{written_time(found.created_at_ms)} by {found.created_by}"),
            ("request", found.request_id or "-"),
            ("due", written_time(found.due_at_ms)),
            ("started", written_time(found.started_at_ms)),
            ("finished", written_time(found.finished_at_ms)),
            ("files found", str(progress.found)),
            ("files deleted", f"{progress.deleted} ({progress.files_per_s:.0f} a second)"),
            ("bytes deleted", str(progress.bytes)),
            *((f"kept: {_REASONS[reason]}", str(count)) for reason, count in progress.kept.items() if count),
            ("files failed", str(progress.failed)),
            *((key.location, key.reason) for key in progress.failed_keys),
            ("note", progress.note or "-"),
            ("problem", found.last_error or "-"),
        ),
    )


@app.command()
@on_catalog
def retry(
    kernel: Kernel,
    call: Call,
    purge: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Retry a purge that failed for good or was cancelled."""
    found = kernel.purge.operations.retry(call, purge)
    if as_json:
        _print_json([found])
        return
    print_plain(f"Purge {found.id} of {written(found.identifier)} is due now")


@app.command()
@on_catalog
def cancel(
    kernel: Kernel,
    call: Call,
    purge: IdArgument,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also if it has begun; it stops before its next batch.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a purge that has not begun: all files stay, and the table can be registered again."""
    found = kernel.purge.operations.cancel(call, purge, force=force)
    if as_json:
        _print_json([found])
        return
    print_plain(f"Purge {found.id} of {written(found.identifier)} is {found.state}")
    if found.progress.deleted == 0:
        print_plain(f"Its metadata file is {found.metadata_location}")


@app.command()
@on_catalog
def watch(
    kernel: Kernel,
    call: Call,
    purge: Annotated[
        list[UUID] | None, typer.Argument(help="Ids of purges. Default: all that are open.")
    ] = None,
    *,
    interval_s: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between looks.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Follow purges until they end. Exits with 1 if one is in DEAD_LETTER then."""
    ended = follow(
        purge,
        lambda: kernel.purge.operations.list(call),
        lambda id: kernel.purge.operations.get(call, id),
        rendered=None if as_json else _rendered,
        print_changed=_print_json if as_json else _print_lines,
        if_none=None if as_json else "No purge is open: floecat purge list shows those that ended",
        interval_s=interval_s,
    )
    if any(each.state == "DEAD_LETTER" for each in ended):
        raise typer.Exit(1)


def _rendered(purges: Sequence[PurgeInfo]) -> Table:
    table = Table(*_HEADINGS, "problem", box=None, pad_edge=False)
    for purge in purges:
        table.add_row(*map(Text, (*_numbers(purge), purge.last_error or "")))
    return table


def _print_lines(purges: Sequence[PurgeInfo]) -> None:
    for purge in purges:
        progress = purge.progress
        print_plain(
            f"{purge.id} {written(purge.identifier)} {purge.state}: {progress.found} found,"
            f" {progress.deleted} deleted, {sum(progress.kept.values())} kept, {progress.failed} failed"
            + (f"; {purge.last_error}" if purge.last_error else "")
        )


def _numbers(purge: PurgeInfo) -> tuple[str, ...]:
    progress = purge.progress
    return (
        str(purge.id),
        written(purge.identifier),
        purge.state,
        f"{purge.attempts}/{purge.max_attempts}",
        str(progress.found),
        str(progress.deleted),
        str(sum(progress.kept.values())),
        str(progress.failed),
        f"{progress.bytes / (1 << 20):.1f}",
        f"{progress.files_per_s:.0f}",
    )


def _print_json(purges: Sequence[PurgeInfo]) -> None:
    print_json(map(purge_response, purges))
