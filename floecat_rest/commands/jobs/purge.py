"""`floecat purge`: the deletion of the files of dropped tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from floecat_rest.commands.console import print_plain
from floecat_rest.commands.jobs.job_commands import HEAD, TAIL, Columns, ForceOption, IdArgument, JobCommands
from floecat_rest.commands.options import JsonOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.purge.purge_jobs import PurgeInfo
    from floecat.runtime import Kernel
    from floecat_rest.management.job_wire import PurgeResponse

__all__ = ["app"]

app = typer.Typer(name="purge", help="Purges: deletion of the files of dropped tables.", no_args_is_help=True)

_COLUMNS: Columns = {
    **HEAD,
    "found": lambda purge: str(purge.progress.found),
    "deleted": lambda purge: str(purge.progress.deleted),
    "kept": lambda purge: str(sum(purge.progress.kept.values())),
    "failed": lambda purge: str(purge.progress.failed),
    "MiB": lambda purge: f"{purge.progress.bytes / (1 << 20):.1f}",
    "files/s": lambda purge: f"{purge.progress.files_per_second:.0f}",
    **TAIL,
}


def _response(purge: PurgeInfo) -> PurgeResponse:
    from floecat_rest.management.job_wire import PurgeResponse, kind_response

    return kind_response(purge, PurgeResponse)


_commands = JobCommands(
    app,
    lambda kernel: kernel.purge.operations,
    _COLUMNS,
    _response,
    more=("found", "kept", "MiB", "files/s"),
)
_commands.add_list()
_commands.add_show()
_commands.add_retry()


@app.command()
@on_catalog
def cancel(
    kernel: Kernel, call: Call, id: IdArgument, *, force: ForceOption = False, as_json: JsonOption = False
) -> None:
    """Cancel a purge that has not begun: all files stay, and the table can be registered again."""
    purge = kernel.purge.operations.cancel(call, id, force=force)
    _commands.print_outcome(purge, purge.state, as_json=as_json)
    if not as_json and purge.progress.deleted == 0:
        print_plain(f"Its metadata file is {purge.metadata_location}")


_commands.add_watch()
