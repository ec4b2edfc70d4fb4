"""`floecat job`: work behind the requests, such as purges of dropped tables and scans of connectors."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from floecat_rest.commands.calls import AccountOption, CatalogOption, open_call
from floecat_rest.commands.console import print_plain, print_table
from floecat_rest.commands.options import ConfigOption, DataDirOption, settings_from
from floecat_rest.commands.times import written_time

__all__ = ["app"]

app = typer.Typer(
    name="job",
    help="Jobs: purges of dropped tables, scheduled scans of connectors.",
    no_args_is_help=True,
)

IdArgument = Annotated[UUID, typer.Argument(help="Id of the job, as `floecat job list` shows it.")]


@app.command(name="list")
def list_jobs(
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only jobs of this kind; repeatable.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only jobs in this state, as this list shows it; repeatable."),
    ] = None,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the jobs of a catalog, oldest first. Jobs that failed for good stay until they are retried."""
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        found = kernel.jobs.list(call, kinds=kind)
    headings = ("id", "kind", "what", "state", "attempts", "created", "due", "worker", "problem")
    table = Table(*headings, box=None, pad_edge=False)
    for row in found:
        word = kernel.jobs.word(row)
        if state is not None and word not in state:
            continue
        due = written_time(row.not_before_ms) if row.state in ("queued", "waiting") else "-"
        attempts = f"{row.attempts}/{row.max_attempts}"
        created, worker = written_time(row.created_at_ms), row.lease_owner or "-"
        cells = (str(row.id), row.kind, row.title, word, attempts, created, due, worker, row.last_error or "")
        table.add_row(*map(Text, cells))
    print_table(table)


@app.command()
def retry(
    job: IdArgument,
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a job that failed for good, or was cancelled, due now."""
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        row = kernel.jobs.retry(call, job)
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is due now")


@app.command()
def cancel(
    job: IdArgument,
    *,
    catalog: CatalogOption = None,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Cancel a job. One that is being worked on stops before its next step."""
    with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, call):
        row = kernel.jobs.cancel(call, job)
    print_plain(f"Job {row.id} ({row.kind} of {row.title}) is {kernel.jobs.word(row)}")
