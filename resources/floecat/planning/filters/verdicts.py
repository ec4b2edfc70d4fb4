"""Evaluates bound filters over many files at once, and finds what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from floecat.iceberg.avro.string_columns import Bools, Bytes, Int64s
from floecat.planning.filters.bound import Bound, BoundPredicate, Combination, Either, Test, bound_predicates
from floecat.planning.filters.expressions import FALSE, TRUE, Expression, conjunction, disjunction

__all__ = ["Residuals", "Verdict", "combine", "whole_residual"]

_OPEN, _FAILS, _HOLDS = 0, 1, 2

_MOST_PARTS = 250_000
"""Predicates of all distinct residuals together; with more, further files have the whole filter for one."""


class Verdict(NamedTuple):
    """A verdict on a test or a filter, for some files.

    Attributes:
        cannot: no row passes.
        must: all rows pass.
    """

    cannot: Bools
    must: Bools

    @property
    def is_decided(self) -> bool:
        """Whether it says all of every file."""
        return bool((self.cannot | self.must).all())

    def take(self, places: Int64s) -> Verdict:
        """The verdict for some of the files."""
        return Verdict(self.cannot[places], self.must[places])


def combine(bound: Bound, verdicts: Iterable[Verdict], size: int) -> Verdict:
    """The verdict of a filter.

    Args:
        bound: the filter.
        verdicts: of its tests, in the order of `tests_of`; one is taken after the other.
        size: number of files.
    """
    return _combine(bound, iter(verdicts), size)


def _combine(bound: Bound, verdicts: Iterator[Verdict], size: int) -> Verdict:
    match bound:
        case Test():
            return next(verdicts)
        case BoundPredicate():
            return _combine(bound.body, verdicts, size)
        case Either():
            found = [_combine(reading, verdicts, size) for reading in bound.readings]
            cannots, musts = zip(*found, strict=True)
            return Verdict(np.logical_and.reduce(cannots), np.logical_and.reduce(musts))
        case Combination():
            cannot, must = np.full(size, not bound.is_and), np.full(size, bound.is_and)
            for part in bound.parts:
                verdict = _combine(part, verdicts, size)
                if bound.is_and:
                    cannot, must = cannot | verdict.cannot, must & verdict.must
                else:
                    cannot, must = cannot & verdict.cannot, must | verdict.must
            return Verdict(cannot, must)


def whole_residual(bound: Bound) -> Expression:
    """The residual of files of which nothing is known."""
    return _simplify(bound, repeat(_OPEN))


class Residuals:
    """Finds residuals of files, each distinct one once.

    Attributes:
        found: the distinct residuals; grows.
    """

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._places: dict[bytes, int] = {}
        self._by_expression: dict[Expression, int] = {}
        self._whole = bytes(sum(1 for _ in bound_predicates(bound)))
        self._parts_left = max(_MOST_PARTS, len(self._whole))
        self.found: list[Expression] = []

    def of(self, verdicts: Sequence[Verdict], size: int) -> Int64s:
        """The residual of each file, as its place in `found`.

        Args:
            verdicts: what partitions say of the tests, in the order of `tests_of`.
            size: number of files.
        """
        states = list(_states(self._bound, iter(verdicts), size))
        if not states:
            return np.full(size, self._place(b""), np.int64)
        if all((state == state[0]).all() for state in states if size):
            # as everywhere where the filter has no partition column
            return np.full(
                size, self._place(bytes(int(state[0]) for state in states)) if size else 0, np.int64
            )
        rows, inverse = np.unique(np.stack(states, axis=1), axis=0, return_inverse=True)
        places = np.array([self._place(row.tobytes()) for row in rows], np.int64)
        return places[inverse.reshape(-1)]

    def _place(self, states: bytes) -> int:
        place = self._places.get(states)
        if place is None and states != self._whole:
            self._parts_left -= len(states)
            if self._parts_left < 0:
                return self._place(self._whole)
        if place is None:
            expression = _simplify(self._bound, iter(states))
            place = self._by_expression.setdefault(expression, len(self.found))
            if place == len(self.found):
                self.found.append(expression)
            self._places[states] = place
        return place


def _states(bound: Bound, verdicts: Iterator[Verdict], size: int) -> Iterator[Bytes]:
    match bound:
        case Combination():
            for part in bound.parts:
                yield from _states(part, verdicts, size)
        case BoundPredicate():
            verdict = _combine(bound.body, verdicts, size)
            yield np.where(verdict.cannot, _FAILS, np.where(verdict.must, _HOLDS, _OPEN)).astype(np.uint8)


def _simplify(bound: Bound, states: Iterator[int]) -> Expression:
    match bound:
        case BoundPredicate():
            state = next(states)
            return bound.residual if state == _OPEN else TRUE if state == _HOLDS else FALSE
        case Combination():
            result: Expression = TRUE if bound.is_and else FALSE
            for part in bound.parts:
                simplified = _simplify(part, states)
                result = (conjunction if bound.is_and else disjunction)(result, simplified)
            return result
        case _:
            raise TypeError(bound)
