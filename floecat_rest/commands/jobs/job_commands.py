"""Commands about jobs: what `floecat job`, `floecat purge` and `floecat capture` have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import parse_identifier
from floecat_rest.commands.console import out, print_json, print_plain, print_rows, written_time
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, WideOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.jobs.operations import JobOperations
    from floecat.runtime import Kernel
    from floecat_rest.management.job_wire import JobResponse

__all__ = [
    "HEAD",
    "TAIL",
    "Columns",
    "ForceOption",
    "IdArgument",
    "IdsArgument",
    "IntervalOption",
    "JobCommands",
    "StateOption",
    "counted",
    "lowered",
]

Columns = Mapping[str, Callable[[Any], str]]
"""The cells of a listing, by heading."""

StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only those in this state, as this list shows it; repeatable."),
]
IdArgument = Annotated[UUID, typer.Argument(metavar="ID", help="As the list shows it.")]
IdsArgument = Annotated[
    list[UUID] | None, typer.Argument(metavar="ID", help="As the list shows them. Default: all open.")
]
_TableOption = Annotated[
    TableIdentifier | None,
    typer.Option(
        "--table", parser=parse_identifier, metavar="NAME", help="Only those of tables that had this name."
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also a purge that has begun; it stops before its next batch.")
]
IntervalOption = Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between looks.")]


def counted(job: Any) -> str:
    """The progress of a job in words."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in job.counts.items() if count)


def lowered(words: Sequence[str] | None) -> Sequence[str]:
    """States and kinds as they are spelled, whatever the case of those that were typed."""
    return [word.lower() for word in words or ()]


HEAD: Columns = {
    "id": lambda job: str(job.id),
    "table": lambda job: job.title,
    "state": lambda job: job.state,
    "attempts": lambda job: f"{job.attempts}/{job.max_attempts}",
}
"""Columns with which a listing begins."""

_TIMES: Columns = {
    "created": lambda job: written_time(job.created_at_ms),
    "due": lambda job: written_time(job.due_at_ms),
    "finished": lambda job: written_time(job.finished_at_ms),
    "worker": lambda job: job.worker or "-",
}
TAIL: Columns = {**_TIMES, "problem": lambda job: job.last_error or ""}
"""Columns with which it ends."""


class JobCommands:
    """Commands about the jobs of some kinds."""

    def __init__(
        self,
        app: typer.Typer,
        jobs: Callable[[Kernel], JobOperations[Any]],
        columns: Columns,
        response: Callable[[Any], object] | None = None,
        *,
        more: Collection[str] = (),
    ) -> None:
        """Takes the group of the commands, named as the jobs are.

        Args:
            app: the group.
            jobs: gives the jobs.
            columns: of a listing.
            response: renders a job for programs, as the routes about it do. Default: as of a job of any kind.
            more: columns that are shown with `--wide` alone, as times are.
        """
        self._app = app
        self._noun = str(app.info.name)
        self._jobs = jobs
        self._columns = columns
        self._response = response or _job_response
        self._more = {"attempts", *_TIMES, *more}

    def print(self, jobs: Sequence[Any], *, as_json: bool, wide: bool = False) -> None:
        """Lists jobs."""
        if as_json:
            print_json(map(self._response, jobs))
        else:
            rows = ([cell(job) for cell in self._columns.values()] for job in jobs)
            print_rows(tuple(self._columns), rows, more=self._more, wide=wide)

    def print_outcome(self, job: Any, outcome: str, *, as_json: bool) -> None:
        """Says what became of a job."""
        if as_json:
            print_json([self._response(job)])
        else:
            what = f"({job.kind} of {job.title})" if self._noun == "job" else f"of {job.title}"
            print_plain(f"{self._noun.capitalize()} {job.id} {what} is {outcome}")

    def add_list(self) -> None:
        """Adds `list`, for jobs about tables."""

        @self._app.command(
            name="list",
            help=f"List the {self._noun}s of a catalog, oldest first. Those that failed for good stay until"
            " they are retried.",
        )
        @on_catalog
        def list_jobs(
            kernel: Kernel,
            call: Call,
            *,
            state: StateOption = None,
            table: _TableOption = None,
            wide: WideOption = False,
            as_json: JsonOption = False,
        ) -> None:
            jobs = self._jobs(kernel)
            title = shown(call, table) if table else None
            found = jobs.list(call, states=lowered(state), title=title)
            self.print(found, as_json=as_json, wide=wide)

    def add_show(self) -> None:
        """Adds `show`."""

        @self._app.command(
            help=f"Show a {self._noun}: what it is about, how far it is, and why it failed last."
        )
        @on_catalog
        def show(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
            job = self._jobs(kernel).get(call, id)
            if as_json:
                print_json([self._response(job)])
            else:
                print_rows((self._noun, str(job.id)), _facts(job))

    def add_retry(self) -> None:
        """Adds `retry`."""

        @self._app.command(help=f"Retry a {self._noun} that failed for good or was cancelled.")
        @on_catalog
        def retry(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
            self.print_outcome(self._jobs(kernel).retry(call, id), "due now", as_json=as_json)

    def add_watch(self) -> None:
        """Adds `watch`."""

        @self._app.command(help=f"Follow {self._noun}s until they end. Exits with 1 if one failed for good.")
        @on_catalog
        def watch(
            kernel: Kernel,
            call: Call,
            ids: IdsArgument = None,
            *,
            interval_s: IntervalOption = 1.0,
            as_json: JsonOption = False,
        ) -> None:
            jobs = self._jobs(kernel)
            wanted = ids or [job.id for job in jobs.list(call) if job.is_open]
            if not wanted and not as_json:
                print_plain(f"No {self._noun} is open: floecat {self._noun} list shows those that ended")
            ended = self._follow(wanted, lambda id: jobs.get(call, id), interval_s, as_json=as_json)
            if any(job.state == "failed" for job in ended):
                raise typer.Exit(1)

    def _follow(
        self, ids: Sequence[UUID], get: Callable[[UUID], Any], interval_s: float, *, as_json: bool
    ) -> Sequence[Any]:
        """Shows jobs until all have ended: in place on a terminal, elsewhere whenever one changed."""
        seen: dict[UUID, Any] = {}
        with ExitStack() as shown:
            live = shown.enter_context(Live(console=out)) if out.is_terminal and not as_json else None
            while ids:
                found = [get(id) for id in ids]
                changed = [job for job in found if seen.get(job.id) != job]
                if live is not None:
                    live.update(self._table(found))
                elif as_json:
                    print_json(map(self._response, changed))
                else:
                    for job in changed:
                        parts = (f"{job.id} {job.title} {job.state}", counted(job), job.last_error)
                        print_plain("; ".join(filter(None, parts)))
                seen.update((job.id, job) for job in found)
                if not any(job.is_open for job in found):
                    break
                time.sleep(interval_s)
        return list(seen.values())

    def _table(self, jobs: Sequence[Any]) -> Table:
        columns = {heading: cell for heading, cell in self._columns.items() if heading not in _TIMES}
        table = Table(*columns, box=None, pad_edge=False)
        for job in jobs:
            table.add_row(*(Text(cell(job)) for cell in columns.values()))
        return table


def _job_response(job: Any) -> JobResponse:
    from floecat_rest.management.job_wire import job_response

    return job_response(job)


def _facts(job: Any) -> Iterator[tuple[str, str]]:
    yield from (
        ("kind", job.kind),
        ("what", job.title),
        ("subject", job.subject),
        ("location", job.location or "-"),
        ("state", job.state + (", to be cancelled" if job.cancel_requested and job.is_open else "")),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("lane", job.lane),
        ("worker", job.worker or "-"),
        ("lease ends", written_time(job.lease_expires_at_ms)),
        ("created", f"{written_time(job.created_at_ms)} by {job.created_by}"),
        ("request", job.request_id or "-"),
        ("due", written_time(job.due_at_ms)),
        ("started", written_time(job.started_at_ms)),
        ("finished", written_time(job.finished_at_ms)),
    )
    yield from _details(_job_response(job).details)
    yield "problem", job.last_error or "-"
    yield from ((child.kind, f"{child.id} {child.state}; {counted(child)}") for child in job.children)


def _details(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _details(value)
        elif isinstance(value, list):  # of files with their problems
            yield from ((name.replace("-", " "), ": ".join(each.values())) for each in value)
        else:
            yield name.replace("-", " "), "-" if value in (None, "") else str(value)
