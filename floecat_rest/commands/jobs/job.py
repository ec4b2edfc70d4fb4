"""`floecat job`: background jobs of all kinds, such as purges of dropped tables and scans of connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.jobs.job_commands import (
    HEAD,
    TAIL,
    Columns,
    ForceOption,
    IdArgument,
    JobCommands,
    StateOption,
    counted,
    lowered,
)
from floecat_rest.commands.options import JsonOption, WideOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(
    name="job",
    help="Jobs: purges of dropped tables, scheduled scans of connectors, captures of statistics.",
    no_args_is_help=True,
)

_COLUMNS: Columns = {
    "id": HEAD["id"],
    "kind": lambda job: job.kind,
    "what": HEAD["table"],
    **{heading: HEAD[heading] for heading in ("state", "attempts")},
    "progress": counted,
    **TAIL,
}
_commands = JobCommands(app, lambda kernel: kernel.jobs, _COLUMNS, more=("progress",))


@app.command(name="list")
@on_catalog
def list_jobs(
    kernel: Kernel,
    call: Call,
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only jobs of this kind; repeatable.")
    ] = None,
    state: StateOption = None,
    entry: Annotated[
        str | None, typer.Option("--entry", "--table", help="Only jobs of this table or connector.")
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the jobs of a catalog, oldest first. Jobs that failed for good stay until they are retried."""
    found = kernel.jobs.list(call, kinds=lowered(kind), states=lowered(state), title=entry)
    _commands.print(found, as_json=as_json, wide=wide)


_commands.add_show()
_commands.add_retry()


@app.command()
@on_catalog
def cancel(
    kernel: Kernel, call: Call, id: IdArgument, *, force: ForceOption = False, as_json: JsonOption = False
) -> None:
    """Cancel a job with those that it waits for. A running one stops before its next step."""
    job = kernel.jobs.cancel(call, id, force=force)
    _commands.print_outcome(job, job.state, as_json=as_json)


_commands.add_watch()
