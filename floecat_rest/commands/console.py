"""Output of the commands to the terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
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

_WIDTH = 100
_LEAST = 12
"""Characters of a problem that are shown at least, so that one sees that there is one."""
_GAP = "  "
_PROBLEM = "problem"

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
    """Shows what is being done while the block runs; gives a function that changes the text.

    Rich takes a text of its status for markup, whatever the console says.
    """
    with console.status(Text(text)) as status:
        yield lambda text: status.update(Text(text))


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, more: Collection[str] = (), wide: bool = False
) -> None:
    """A table. What is copied from it, as locations are, is neither cut nor wrapped.

    Args:
        headings: of the columns.
        rows: a cell for each heading.
        more: headings of columns that are left out unless it may be wide.
        wide: whether lines may be longer than 100 characters. Otherwise a problem, the last column, is cut.
    """
    kept = [place for place, heading in enumerate(headings) if wide or heading not in more]
    lines = [[" ".join(line[place].split("\n")) for place in kept] for line in (headings, *rows)]
    *widths, _ = (max(map(cell_len, column)) for column in zip(*lines, strict=True))
    longest = max(_WIDTH, sum(widths) + len(_GAP) * len(widths) + _LEAST)
    is_cut = not wide and headings[kept[-1]] == _PROBLEM
    for number, (*cells, last) in enumerate(lines):
        padded = [set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=True)]
        text = _GAP.join((*padded, last)).rstrip()
        if is_cut and cell_len(text) > longest:
            text = f"{set_cell_size(text, longest - 1)}…"
        out.print(Text(text, style="" if number else "bold"), soft_wrap=True)


def print_json(objects: Iterable[object]) -> None:
    """Prints one JSON object a line."""
    for each in objects:
        print_plain(msgspec.json.encode(each).decode())


def print_error(message: str) -> None:
    """Prints one line for each line of the message, never wrapped."""
    for line in message.splitlines():
        err.print(Text.assemble(("error:", "red"), f" {line}"), soft_wrap=True)


def written_time(at_ms: int | None) -> str:
    """A time in ms since the epoch as a person reads it, in UTC; `-` if there is none."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
