"""Follows jobs on the terminal until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar
from uuid import UUID

from rich.live import Live
from rich.table import Table

from floecat_rest.commands.console import out, print_plain

__all__ = ["Watched", "follow"]


class Watched(Protocol):
    """A job that is followed."""

    @property
    def id(self) -> UUID:
        """Of the job."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        ...


W = TypeVar("W", bound=Watched)


def follow(
    ids: Sequence[UUID] | None,
    list_all: Callable[[], Sequence[W]],
    get: Callable[[UUID], W],
    *,
    rendered: Callable[[Sequence[W]], Table] | None,
    print_changed: Callable[[Sequence[W]], None],
    if_none: str | None,
    interval_s: float,
) -> Sequence[W]:
    """Shows jobs until all have ended, and returns them.

    Args:
        ids: of the jobs; None or empty for all that are open.
        list_all: lists jobs, those that have ended too.
        get: gives a job as it is now.
        rendered: all of them for a terminal, in place; None to print there, too.
        print_changed: prints those that have changed since the last look.
        if_none: is printed if there is nothing to follow.
        interval_s: seconds between two looks.
    """
    wanted = ids or [each.id for each in list_all() if each.is_open]
    if not wanted:
        if if_none is not None:
            print_plain(if_none)
        return ()
    seen: dict[UUID, W] = {}
    with ExitStack() as shown:
        live = shown.enter_context(Live(console=out)) if out.is_terminal and rendered is not None else None
        while True:
            found = [get(each) for each in wanted]
            if live is not None and rendered is not None:
                live.update(rendered(found))
            else:
                print_changed([each for each in found if seen.get(each.id) != each])
            seen.update((each.id, each) for each in found)
            if not any(each.is_open for each in found):
                return found
            time.sleep(interval_s)
