"""`floecat reconcile`: scans of connectors with all captures that they ask for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from floecat_rest.commands.console import err, out, print_json, print_plain, print_rows, working
from floecat_rest.commands.jobs.job_commands import (
    HEAD,
    TAIL,
    Columns,
    IdArgument,
    IdsArgument,
    IntervalOption,
    JobCommands,
    StateOption,
    counted,
    lowered,
)
from floecat_rest.commands.options import JsonOption, WideOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.jobs.descriptions import JobInfo
    from floecat.runtime import Kernel

__all__ = ["app"]

_SCAN: Final = "connector-scan"
_WIDEST: Final = 10_000
_SHOWN: Final = 20
"""Jobs of one level that a live view shows."""

app = typer.Typer(
    name="reconcile",
    help="Scans of connectors with all captures that they ask for, as trees of jobs.",
    no_args_is_help=True,
)

_COLUMNS: Columns = {
    "id": HEAD["id"],
    "connector": HEAD["table"],
    **{heading: HEAD[heading] for heading in ("state", "attempts")},
    "progress": counted,
    **TAIL,
}
_commands = JobCommands(app, lambda kernel: kernel.jobs, _COLUMNS)


@app.command()
@on_catalog
def start(
    kernel: Kernel,
    call: Call,
    connector: Annotated[str, typer.Argument(metavar="CONNECTOR", help="Name of the connector.")],
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Read and capture everything again, whatever the policy says.")
    ] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, max=60, help="Seconds to wait; a longer scan goes on.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Scan a connector now, as a job. Exits with 1 if the scan fails for good in the meantime."""
    started = kernel.connectors.jobs.start(call, connector, full=full)
    with working(f"Scanning {connector}", err) as show:
        job: JobInfo = kernel.jobs.wait(
            call,
            started.id,
            round(wait_s * 1000),
            lambda seen: show(f"Scanning {connector}: {counted(seen)}"),
        )
    if as_json:
        _commands.print([job], as_json=True)
    else:
        print_plain("; ".join(filter(None, (f"Job {job.id} {job.state}", counted(job), job.last_error))))
        if job.is_open:
            print_plain(f"The pipeline goes on with it: floecat reconcile watch {job.id}")
    if job.state == "failed":
        raise typer.Exit(1)


@app.command(name="list")
@on_catalog
def list_scans(
    kernel: Kernel,
    call: Call,
    *,
    state: StateOption = None,
    connector: Annotated[
        str | None, typer.Option("--connector", help="Only scans of this connector.")
    ] = None,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the scans of connectors that are jobs, oldest first."""
    found = kernel.jobs.list(call, kinds=[_SCAN], states=lowered(state), title=connector)
    _commands.print(found, as_json=as_json, wide=wide)


@app.command()
@on_catalog
def show(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
    """Show a job with all below it: tables, snapshots and groups of files."""
    job = kernel.jobs.tree(call, id)
    if as_json:
        _commands.print([job], as_json=True)
    else:
        # without a bound, so that no line is cut
        Console(file=out.file, width=_WIDEST, highlight=False).print(_tree(job))


@app.command()
@on_catalog
def watch(
    kernel: Kernel,
    call: Call,
    ids: IdsArgument = None,
    *,
    interval_s: IntervalOption = 1.0,
) -> None:
    """Follow scans, with all below them, until they end. Exits with 1 if a job failed for good."""
    newest = {job.subject: job.id for job in kernel.jobs.list(call, kinds=[_SCAN])}
    wanted = ids or [id for id in newest.values() if _open_below(kernel.jobs.tree(call, id))]
    if not wanted:
        print_plain("No scan is open: floecat reconcile list shows those that ended")
        return
    found: list[Any] = []
    with Live(console=out, auto_refresh=False) as live:
        while True:
            found = [kernel.jobs.tree(call, id) for id in wanted]
            root = Tree("", hide_root=True)
            for job in found:
                _tree(job, root, most=_SHOWN)
            live.update(root, refresh=out.is_terminal)
            if not any(_open_below(job) for job in found):
                break
            time.sleep(interval_s)
    if any(_failed(job) for job in found):
        raise typer.Exit(1)


@app.command()
@on_catalog
def cancel(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
    """Cancel a job and all below it; what is under way stops before its next step."""
    job = kernel.jobs.cancel(call, id)
    _commands.print_outcome(job, job.state, as_json=as_json)


@app.command()
@on_catalog
def retry(kernel: Kernel, call: Call, id: IdArgument, *, as_json: JsonOption = False) -> None:
    """Retry what failed for good or was cancelled, in a job and below it."""
    job = kernel.jobs.retry(call, id, parts=True)
    _commands.print_outcome(job, f"{job.state}, and what failed is due now", as_json=as_json)


@app.command()
@on_catalog
def settings(kernel: Kernel, call: Call, *, as_json: JsonOption = False) -> None:
    """Show how scans and captures are worked on: intervals, tries, waits, and how long jobs are kept."""
    import msgspec

    found = kernel.connectors.jobs.settings(call)
    if as_json:
        print_json([found])
        return
    values = msgspec.to_builtins(found)
    print_rows(("setting", "value"), (_row(name, value) for name, value in values.items()))


def _row(name: str, value: object) -> tuple[str, str]:
    """A setting for people: times as durations."""
    from floecat.settings.kinds import Duration

    if not name.endswith("-ms"):
        return name, _shown(value)
    times: Any = value if isinstance(value, list | tuple) else [value]
    return name.removesuffix("-ms"), _shown([Duration(each) for each in times])


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_shown(each)}" for name, each in value.items() if each not in (None, []))
    if isinstance(value, list | tuple):
        return " to ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tree(job: JobInfo, above: Tree | None = None, *, most: int | None = None) -> Tree:
    """A job with those below it, each a line; of one level at most so many, open and failed ones first."""
    parts = (
        f"{job.kind} {job.title} {job.state}",
        counted(job),
        getattr(job, "problem", None),
        job.last_error,
    )
    label = Text("; ".join(dict.fromkeys(filter(None, parts))))
    if job.parent_id is None or above is None:
        label.append(f"  {job.id}", style="dim")
    tree = Tree(label) if above is None else above.add(label)
    children = sorted(job.children, key=lambda each: not (each.is_open or each.state == "failed"))
    for child in children[:most]:
        _tree(child, tree, most=most)
    if most is not None and len(children) > most:
        tree.add(f"… and {len(children) - most:,} more")
    return tree


def _open_below(job: JobInfo) -> bool:
    return job.is_open or any(map(_open_below, job.children))


def _failed(job: JobInfo) -> bool:
    return job.state == "failed" or any(map(_failed, job.children))
