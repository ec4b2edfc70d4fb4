"""`floecat table plan`: how a scan is planned, explained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.console import err, print_json, print_plain, print_rows, working
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import JsonOption, SnapshotOption, TableArgument, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.planning.plans.explanations import Explanation
    from floecat.runtime import Kernel

__all__ = ["plan"]


@on_catalog
def plan(
    kernel: Kernel,
    call: Call,
    name: TableArgument,
    *,
    row_filter: Annotated[
        str | None,
        typer.Option(
            "--filter", help="Rows that are read, as in SQL: \"day = '2026-11-01' and amount > 10\"."
        ),
    ] = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain which files a scan reads: what each stage of planning rules out."""
    text = f"Planning a scan of {shown(call, name)}"
    with working(text, err) as show:
        made = kernel.planning.explanations.explain(
            call,
            name,
            row_filter,
            snapshot,
            progress=lambda files: show(f"{text}: {files:,} files in manifests so far"),
        )
    if as_json:
        print_json([made])
        return
    print_plain(
        f"{shown(call, name)}, "
        + ("no snapshot" if made.snapshot_id is None else f"snapshot {made.snapshot_id}")
    )
    print_rows(("stage", "of", "left"), _stages(made))
    print_plain(
        f"Data files: {made.files_by_metrics:,}, with {made.rows:,} rows, {made.size_bytes:,} bytes;"
        f" {made.files_with_deletes:,} have deletes. Delete files: {made.delete_files:,}"
    )
    print_plain(
        f"Planned in {made.elapsed_ms:,.0f} ms from {made.manifest_bytes:,} bytes of manifests;"
        f" manifests not in memory: {made.manifests_decoded:,}"
    )
    if made.residuals:
        print_rows(
            ("files", "rows must still match"), ((f"{each.files:,}", each.filter) for each in made.residuals)
        )


def _stages(made: Explanation) -> Iterator[tuple[str, str, str]]:
    stages = (
        ("data manifests, by the manifest list", made.data_manifests, made.data_manifests_read),
        ("delete manifests, by the manifest list", made.delete_manifests, made.delete_manifests_read),
        ("files, by their partition", made.files_in_manifests, made.files_by_partition),
        ("files, by bounds and counts", made.files_by_partition, made.files_by_metrics),
    )
    for stage, of, left in stages:
        yield stage, f"{of:,}", f"{left:,}"
