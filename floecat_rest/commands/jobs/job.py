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
            _due(row.state, row.not_before_ms),
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
def show(
    kernel: Kernel,
    call: Call,
    job: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a job: what it is about, how far it is, and why it failed last."""
    row = kernel.jobs.get(call, job)
    word = kernel.jobs.word(row)
    if as_json:
        print_json([_described(row, word)])
        return
    print_rows(
        ("job", str(row.id)),
        (
            ("kind", row.kind),
            ("what", row.title),
            ("subject", row.subject),
            ("location", row.resource or "-"),
            ("state", word + (", to be cancelled" if row.cancel_requested else "")),
            ("attempts", f"{row.attempts} of {row.max_attempts}"),
            ("lane", row.lane),
            ("worker", row.lease_owner or "-"),
            ("lease ends", written_time(row.lease_expires_at_ms)),
            ("created", f"{written_time(row.created_at_ms)} by {row.created_by}"),
            ("request", row.request_id or "-"),
            ("due", _due(row.state, row.not_before_ms)),
            ("started", written_time(row.started_at_ms)),
            ("finished", written_time(row.finished_at_ms)),
            ("progress", _counts(row.progress) or "-"),
            ("problem", row.last_error or "-"),
        ),
    )


@app.command()
@on_catalog
def retry(
    kernel: Kernel,
    call: Call,
    job: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Retry a job that failed for good or was cancelled."""
    row = kernel.jobs.retry(call, job)
    if as_json:
        print_json([_described(row, kernel.jobs.word(row))])
        return
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is due now")


@app.command()
@on_catalog
def cancel(
    kernel: Kernel,
    call: Call,
    job: IdArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Cancel a job. A running one stops before its next step."""
    row = kernel.jobs.cancel(call, job)
    if as_json:
        print_json([_described(row, kernel.jobs.word(row))])
        return
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is {kernel.jobs.word(row)}")


def _due(state: str, not_before_ms: int) -> str:
    return written_time(not_before_ms if state in ("queued", "waiting") else None)


def _described(row: msgspec.Struct, word: str) -> dict[str, object]:
    """A job as an object, without what only its kind can read."""
    values = msgspec.structs.asdict(row) | {"state": word}
    values["progress"] = msgspec.Raw(values["progress"].encode())
    return {name.replace("_", "-"): value for name, value in values.items() if name != "payload"}


def _counts(progress: str) -> str:
    """What is counted, also by a kind that keeps its numbers together; times are no counts."""
    found: dict[str, object] = {}
    for name, value in msgspec.json.decode(progress).items():
        found |= value if isinstance(value, dict) else {name: value}
    return ", ".join(
        f"{count} {name.replace('_', ' ')}"
        for name, count in found.items()
        if type(count) is int and count and not name.endswith("_ms")
    )


def _require_known(option: str, given: Sequence[str] | None, known: Iterable[str]) -> None:
    words = sorted(known)
    for word in given or ():
        if word not in words:
            raise typer.BadParameter(f"{word!r} is not one of {', '.join(words)}", param_hint=option)
