"""Tables that SQL names, for lineage.

No parser: dialects differ. What is not understood names no table, so that lineage has gaps and never guesses.
The time is in proportion to the length of the SQL, whatever it holds: users of the catalog write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from floecat.identifiers.namespace import MAX_LEVELS

__all__ = ["named_tables"]

_TOKEN: Final = re.compile(
    r"""
    (?P<skipped> \s+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<text> '(?:[^']|'')*' )
  | (?P<quoted> "(?:[^"]|"")*" | `(?:[^`]|``)*` )
  | (?P<word> [^\W\d][\w$]* )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_TABLES: Final = (
    *(
        "where",
        "group",
        "order",
        "having",
        "limit",
        "offset",
        "fetch",
        "union",
        "except",
        "intersect",
        "minus",
    ),
    *("window", "qualify", "lateral", "cluster", "distribute", "sort", "on", "using"),
)
"""Keywords that end a list of tables."""

_NO_TABLE: Final = ("select", "with", "values", "lateral", "unnest", "table", "from", "join")

_MOST_PARTS: Final = MAX_LEVELS + 2
"""Most parts of a name: its catalog, its namespace and the table."""


class _Token(NamedTuple):
    kind: str
    text: str

    def is_(self, *words: str) -> bool:
        return self.kind != "quoted" and self.text.lower() in words


def named_tables(sql: str) -> list[tuple[str, ...]]:
    """The names after FROM, JOIN and commas between tables, in their parts, each once.

    Names of common table expressions are left out. Backslashes in texts mean different things in different
    dialects: such SQL names nothing.
    """
    tokens = _tokens(sql)
    if tokens is None:
        return []
    local = {name.lower() for name in _local_names(tokens)}
    names = dict.fromkeys(_names(tokens))
    return [
        name for name in names if len(name) <= _MOST_PARTS and (len(name) > 1 or name[0].lower() not in local)
    ]


def _tokens(sql: str) -> list[_Token] | None:
    found = []
    for match in _TOKEN.finditer(sql):
        kind, text = match.lastgroup or "", match[0]
        if kind == "text" and "\\" in text:
            return None
        if kind == "quoted":
            text = text[1:-1].replace(text[0] * 2, text[0])
        if kind != "skipped":
            found.append(_Token(kind, text))
    return found


def _local_names(tokens: Sequence[_Token]) -> Iterator[str]:
    """Names that are followed by AS and a parenthesis, with or without a list of columns in between."""
    for index, token in enumerate(tokens):
        after = index + 1
        while after < len(tokens) and tokens[after].is_("not", "materialized"):
            after += 1
        if not (token.is_("as") and after < len(tokens) and tokens[after].is_("(")):
            continue
        before = index - 1
        if before >= 0 and tokens[before].is_(")"):
            while before > 0 and not tokens[before].is_("("):
                before -= 1
            before -= 1
        if before >= 0 and tokens[before].kind in ("word", "quoted"):
            yield tokens[before].text


def _names(tokens: Sequence[_Token]) -> Iterator[tuple[str, ...]]:
    # for each open parenthesis: whether it has a SELECT, and whether a list of tables goes on
    selects, lists = [False], [False]
    for index, token in enumerate(tokens):
        if token.is_("("):
            selects.append(False)
            lists.append(False)
        elif token.is_(")") and len(selects) > 1:
            selects.pop()
            lists.pop()
        elif token.is_("select"):
            selects[-1], lists[-1] = True, False
        elif token.is_("from") and selects[-1] and not (index and tokens[index - 1].is_("distinct")):
            lists[-1] = True
            yield from _name_at(tokens, index + 1)
        elif token.is_("join") or (token.is_(",") and lists[-1]):
            yield from _name_at(tokens, index + 1)
        elif token.is_(*_AFTER_TABLES):
            lists[-1] = False


def _name_at(tokens: Sequence[_Token], index: int) -> Iterator[tuple[str, ...]]:
    """The dotted name that starts here, unless it is a keyword or a function."""
    while index < len(tokens) and tokens[index].is_("("):
        index += 1
    parts: list[str] = []
    # one part too many says that the name is too long
    while index < len(tokens) and tokens[index].kind in ("word", "quoted") and len(parts) <= _MOST_PARTS:
        parts.append(tokens[index].text)
        index += 1
        if index == len(tokens) or not tokens[index].is_("."):
            break
        index += 1
    is_function = index < len(tokens) and tokens[index].is_("(")
    if parts and not is_function and not tokens[index - 1].is_(*_NO_TABLE):
        yield tuple(parts)
