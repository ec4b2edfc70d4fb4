"""Residuals as JSON. What is large in them is put in by reference, and becomes JSON when an answer is sent.

A plan has the same set in the residual of every file. Neither rendering nor the store holds a copy for each:
a chunk of tasks has the place of the predicate between two bytes of zero, which JSON never has. Of a set the
residual of a file has the values between the bounds of the file: no other value matches one of its rows.

In place of a residual that is long without its sets stands the whole filter, by reference too: it holds for
the same rows of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from floecat.planning.files.scans import SetSlices
from floecat.planning.filters.expression_json import write_expression
from floecat.planning.filters.expressions import And, Expression, Or, Predicate, predicates_of
from floecat.working_memory import take_memory

__all__ = ["MARK", "ResidualText", "ResidualTexts", "insert_sets", "sets_of"]

_LARGE_BYTES: Final = 8 << 10
"""Sets, and residuals, whose JSON is longer are put in by reference."""

_LEAST_VALUES: Final = 100
"""Sets of fewer values are small, whatever the values."""

MARK: Final = "\0"
"""Mark before and after each reference."""

_WHOLE: Final = "whole"
"""The reference of the whole filter; those of predicates begin otherwise."""

_encode = msgspec.json.encode


class ResidualText(NamedTuple):
    """A residual as JSON, with references, and how long it is with the sets in their place."""

    text: str
    size: int
    has_references: bool


class ResidualTexts:
    """Renders the residuals of a plan."""

    def __init__(self, residuals: list[Expression], whole: Expression, *, is_exact: bool = True) -> None:
        """Takes what a plan has found.

        Args:
            residuals: grows.
            whole: the filter as a residual.
            is_exact: whether large sets are sent. Otherwise a test stands there which holds wherever that of
                the set does: for clients that filter rows by their own filter alone.
        """
        self._residuals = residuals
        self._whole = whole
        self._is_exact = is_exact
        self._parts: list[tuple[str | Predicate, ...]] = []
        self._sets: dict[str, _Set] = {}

    def of(self, number: int, row: int, slices: Mapping[str, SetSlices]) -> ResidualText:
        """The residual of a file.

        Args:
            number: of the residual.
            row: of the file, in `slices`.
            slices: by the place of a predicate, which values of its set are between the bounds of each file.
        """
        while len(self._parts) <= number:
            parts = _joined(_parts(self._residuals[len(self._parts)]))
            is_long = sum(len(part) for part in parts if isinstance(part, str)) > _LARGE_BYTES
            self._parts.append(() if is_long else parts)
        if not self._parts[number]:
            return self._whole_text
        written = [
            part if isinstance(part, str) else self._set(part, row, slices) for part in self._parts[number]
        ]
        text = "".join(part if isinstance(part, str) else part.text for part in written)
        referred = [part for part in written if isinstance(part, ResidualText) and part.has_references]
        return ResidualText(text, len(text) + sum(part.size for part in referred), bool(referred))

    @cached_property
    def _whole_text(self) -> ResidualText:
        return ResidualText(f"{MARK}{_WHOLE}{MARK}", len(_text(self._whole)), True)

    def _set(self, predicate: Predicate, row: int, slices: Mapping[str, SetSlices]) -> ResidualText:
        kept = self._sets.get(predicate.place)
        if kept is None:
            kept = self._sets[predicate.place] = _Set(predicate)
        begin, end = 0, len(kept.values)
        found = slices.get(predicate.place)
        if found is not None:
            begin, end = int(found.begins[row]), int(found.ends[row])
            # a set is never empty: one value that the file does not have stands for none
            begin = min(begin, len(kept.values) - 1)
            end = max(end, begin + 1)
        size = kept.ends[end - 1] - (kept.ends[begin - 1] if begin else 0)
        if size <= _LARGE_BYTES:
            text = kept.head + ",".join(kept.values[begin:end]) + "]}"
            return ResidualText(text, len(text), False)
        if not self._is_exact:
            return ResidualText(kept.weaker, len(kept.weaker), False)
        text = f"{kept.head}{MARK}{predicate.place}{MARK}]}}"
        return ResidualText(text, kept.ends[-1], True)


class _Set:
    """A set as JSON: its values, where each ends in all of them, and what comes before them."""

    def __init__(self, predicate: Predicate) -> None:
        self.values = [_encode(value).decode() for value in predicate.values]
        self.ends = list(accumulate(len(value) + 1 for value in self.values))
        without = msgspec.structs.replace(predicate, values=())
        self.head = _text(without).removesuffix("]}")
        test = {"in": "not-null", "not-in": "not-eq"}[predicate.operation]
        values = predicate.values[:1] if test == "not-eq" else ()
        self.weaker = _text(msgspec.structs.replace(predicate, operation=test, values=values))


def sets_of(whole: Expression) -> Mapping[str, bytes]:
    """The texts that references stand for: the values of sets by the place of the predicate, and the filter.

    Args:
        whole: the filter as a residual.
    """
    large = [each for each in predicates_of(whole) if _may_be_large(each)]
    return {each.place: _encode(each.values)[1:-1] for each in large} | {_WHOLE: _text(whole).encode()}


def insert_sets(fields: bytes, sets: Mapping[str, bytes]) -> bytes:
    """Puts sets in the place of references.

    Args:
        fields: an answer.
        sets: as `sets_of` has them.
    """
    parts = fields.split(MARK.encode())
    parts[1::2] = [sets[place.decode()] for place in parts[1::2]]
    take_memory(sum(map(len, parts)))
    return b"".join(parts)


def _may_be_large(predicate: Predicate) -> bool:
    return predicate.operation in ("in", "not-in") and len(predicate.values) >= _LEAST_VALUES


def _parts(expression: Expression) -> Iterator[str | Predicate]:
    match expression:
        case And() | Or():
            yield f'{{"type":"{"and" if isinstance(expression, And) else "or"}","left":'
            yield from _parts(expression.left)
            yield ',"right":'
            yield from _parts(expression.right)
            yield "}"
        case Predicate() if _may_be_large(expression):
            yield expression
        case _:
            yield _text(expression)


def _joined(parts: Iterator[str | Predicate]) -> tuple[str | Predicate, ...]:
    joined: list[str | Predicate] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


def _text(expression: Expression) -> str:
    return _encode(write_expression(expression)).decode()
