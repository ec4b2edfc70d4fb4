"""What the commands write to the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

import floecat

__all__ = [
    "err",
    "install",
    "out",
    "print_done",
    "print_error",
    "print_json",
    "print_plain",
    "print_rows",
    "working",
    "written_time",
]

_WIDEST = 10_000

out = Console(highlight=False, markup=False)
"""Results, on standard output."""

err = Console(stderr=True, highlight=False, markup=False)
"""Problems, on standard error."""


def install(extra: str) -> str:
    """The command that installs an extra, from the file of `make wheel`: no index has the package."""
    return f"pip install 'floecat-{floecat.__version__}-py3-none-any.whl[{extra}]'"


def print_plain(text: str, console: Console = out) -> None:
    """A text that may hold names of others: never wrapped."""
    console.print(text, soft_wrap=True)


def print_done(what: str) -> None:
    """A step that was completed."""
    out.print(Text.assemble(("✓", "green"), f" {what}"))


@contextmanager
def working(text: str, console: Console = out) -> Iterator[Callable[[str], None]]:
    """Show what is being done while the block runs; gives a function that changes the text.

    Rich takes a text of its status for markup, whatever the console says.
    """
    with console.status(Text(text)) as status:
        yield lambda text: status.update(Text(text))


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as wide as what is in it: locations are copied from it, so nothing is cut or wrapped."""
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=_WIDEST, highlight=False, markup=False).print(table, soft_wrap=True)


def print_json(objects: Iterable[object]) -> None:
    """One JSON object a line."""
    for each in objects:
        print_plain(msgspec.json.encode(each).decode())


def print_error(message: str) -> None:
    """One line for each line of the message, never wrapped."""
    for line in message.splitlines():
        err.print(Text.assemble(("error:", "red"), f" {line}"), soft_wrap=True)


def written_time(at_ms: int | None) -> str:
    """A time in ms since the epoch as a person reads it, in UTC; `-` if there is none."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
