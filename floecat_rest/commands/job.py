"""`floecat job`: background jobs, such as purges of dropped tables and scans of connectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows, written_time
from floecat_rest.commands.options import JsonOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(
    name="job",
    help="Jobs: purges of dropped tables, scheduled scans of connectors, captures of statistics.",
    no_args_is_help=True,
)

IdArgument = Annotated[UUID, typer.Argument(help="Id of the job, as `floecat job list` shows it.")]


@app.command(name="list")
@on_catalog
def list_jobs(
    kernel: Kernel,
    call: Call,
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only jobs of this kind; repeatable.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only jobs in this state, as this list shows it; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs of a catalog, oldest first. Jobs that failed for good stay until they are retried."""
    _require_known("--kind", kind, kernel.jobs.kinds)
    _require_known("--state", state, kernel.jobs.words())
    named = [(row, kernel.jobs.word(row)) for row in kernel.jobs.list(call, kinds=kind)]
    found = [(row, word) for row, word in named if not state or word in state]
    if as_json:
        print_json(_described(row, word) for row, word in found)
        return
    rows = (
        (
            str(row.id),
            row.kind,
            row.title,
            word,
            f"{row.attempts}/{row.max_attempts}",
            written_time(row.created_at_ms),
            written_time(row.not_before_ms if row.state in ("queued", "waiting") else None),
            row.lease_owner or "-",
            _counts(row.progress),
            row.last_error or "",
        )
        for row, word in found
    )
    headings = ("id", "kind", "what", "state", "attempts", "created", "due", "worker", "progress", "problem")
    print_rows(headings, rows)


@app.command()
@on_catalog
def retry(
    kernel: Kernel,
    call: Call,
    job: IdArgument,
) -> None:
    """Retry a job that failed for good or was cancelled."""
    row = kernel.jobs.retry(call, job)
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is due now")


@app.command()
@on_catalog
def cancel(
    kernel: Kernel,
    call: Call,
    job: IdArgument,
) -> None:
    """Cancel a job. A running one stops before its next step."""
    row = kernel.jobs.cancel(call, job)
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is {kernel.jobs.word(row)}")


def _described(row: msgspec.Struct, word: str) -> dict[str, object]:
    """A job as an object, without what only its kind can read."""
    values = msgspec.structs.asdict(row) | {"state": word}
    values["progress"] = msgspec.Raw(values["progress"].encode())
    return {name.replace("_", "-"): value for name, value in values.items() if name != "payload"}


def _counts(progress: str) -> str:
    counts = msgspec.json.decode(progress)
    return ", ".join(f"{count} {name}" for name, count in counts.items() if type(count) is int)


def _require_known(option: str, given: Sequence[str] | None, known: Iterable[str]) -> None:
    words = sorted(known)
    for word in given or ():
        if word not in words:
            raise typer.BadParameter(f"{word!r} is not one of {', '.join(words)}", param_hint=option)
