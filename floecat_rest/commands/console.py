"""What the commands write to the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["err", "out", "print_error", "print_plain", "print_rows", "written_time"]

_WIDEST = 10_000

out = Console(highlight=False)
"""Results, on standard output."""

err = Console(stderr=True, highlight=False)
"""Problems, on standard error."""


def print_plain(text: str, console: Console = out) -> None:
    """A text that may hold names of others: never wrapped and never taken for markup."""
    console.print(text, markup=False, soft_wrap=True)


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as wide as what is in it: locations are copied from it, so nothing is cut or wrapped."""
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=_WIDEST, highlight=False).print(table, soft_wrap=True)


def print_error(message: str) -> None:
    """One line for each line of the message, never wrapped and never taken for markup."""
    for line in message.splitlines():
        err.print("[red]error:[/red]", end=" ", soft_wrap=True)
        print_plain(line, err)


def written_time(at_ms: int | None) -> str:
    """A time in ms since the epoch as a person reads it, in UTC; `-` if there is none."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
