"""Who builds the chunks of a version."""

from __future__ import annotations

from typing import Any

from floecat_assets.spark.chosen_chunks import ChosenChunks


def test_without_spark_this_process_builds_all_chunks() -> None:
    built: list[Any] = []

    def local(context: Any, chunks: Any) -> list[Any]:
        built.append((context, chunks))
        return []

    runner = ChosenChunks(local, None, most_opened_files=0)
    context: Any = object()
    chunks: Any = [1, 2, 3]
    assert runner(context, chunks) == []
    assert built == [(context, chunks)]
    assert (runner.in_process, runner.on_spark) == (3, 0)
