"""Comparisons of floating-point numbers that need no literal but finite ones.

JSON has no infinity and no NaN, and readers of residuals do not agree on texts, nor on numbers beyond the
finite ones of a type. In order the numbers are -Infinity, the finite ones, Infinity, NaN, with a cut before,
between and after these classes: what is less than Infinity is below the cut before it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Final, NamedTuple

import msgspec

from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.expressions import (
    FALSE,
    Expression,
    Predicate,
    conjunction,
    disjunction,
)
from floecat.planning.filters.literals import Canonical

__all__ = ["with_finite_values"]

_GREATEST: Final = {
    "float": struct.unpack("<f", b"\xff\xff\x7f\x7f")[0],
    "double": struct.unpack("<d", b"\xff\xff\xff\xff\xff\xff\xef\x7f")[0],
}
_IN: Final = {"eq": "in", "in": "in", "not-eq": "not-in", "not-in": "not-in"}


class _Cuts(NamedTuple):
    """The numbers before and after a value; the same for one that no number equals."""

    before: int
    after: int


def with_finite_values(
    predicate: Predicate, values: Sequence[Canonical], type: PrimitiveType, *, negated: bool
) -> Expression:
    """A predicate without infinities, NaN and numbers beyond the finite ones; the same rows pass.

    Where readers differ on NaN (see `comparisons`), all rows pass that pass for one of them.

    Args:
        predicate: of a column of floating-point numbers.
        values: of the predicate, of type `type`.
        type: `float` or `double`.
        negated: whether the filter has the opposite operation below a `not`.
    """
    greatest = _GREATEST[type.name]
    sent = [
        # a reader takes what rounds to the greatest number for one beyond it
        value if isinstance(value, float) and abs(value) == greatest else written
        for value, written in zip(values, predicate.values, strict=True)
    ]
    cuts = [_cuts(value) for value in values]
    finite = tuple(value for value, cut in zip(sent, cuts, strict=True) if cut is None)
    others = dict.fromkeys(cut for cut in cuts if cut is not None)
    if not others:
        return msgspec.structs.replace(predicate, values=finite)
    line = _Line(predicate, greatest)
    operation = predicate.operation
    if operation not in _IN:
        [cut] = others
        if negated and cut == _NAN:
            return line.all()
        place = cut.before if operation in ("lt", "gt-eq") else cut.after
        return line.below(place) if operation.startswith("lt") else line.above(place)
    is_in = _IN[operation] == "in"
    parts = [(line.equal if is_in else line.differs)(cut) for cut in others]
    if finite:
        parts.append(msgspec.structs.replace(predicate, operation=_IN[operation], values=finite))
    return reduce(disjunction if is_in else conjunction, parts)


_NAN: Final = _Cuts(3, 4)


def _cuts(value: Canonical) -> _Cuts | None:
    """None for a finite number."""
    if isinstance(value, Fraction):
        return _Cuts(2, 2) if value > 0 else _Cuts(1, 1)
    if not isinstance(value, float) or math.isfinite(value):
        return None
    if math.isnan(value):
        return _NAN
    return _Cuts(2, 3) if value > 0 else _Cuts(0, 1)


class _Line:
    """Tests of the sides of a cut."""

    def __init__(self, predicate: Predicate, greatest: float) -> None:
        self._predicate = predicate
        self._greatest = greatest

    def below(self, cut: int) -> Expression:
        not_null = self._test("not-null")
        numbers = conjunction(not_null, self._test("not-nan"))
        least, greatest = self._test("lt", -self._greatest), self._test("lt-eq", self._greatest)
        return (FALSE, least, greatest, numbers, not_null)[cut]

    def above(self, cut: int) -> Expression:
        least, greatest = self._test("gt-eq", -self._greatest), self._test("gt", self._greatest)
        return (self._test("not-null"), least, greatest, self._test("is-nan"), FALSE)[cut]

    def equal(self, cuts: _Cuts) -> Expression:
        if cuts.before == cuts.after:
            return FALSE
        return conjunction(self.above(cuts.before), self.below(cuts.after))

    def differs(self, cuts: _Cuts) -> Expression:
        """The test that a row differs; to some readers null and NaN differ from every value, too."""
        if cuts == _NAN or cuts.before == cuts.after:
            return self.all()
        either = disjunction(self.below(cuts.before), self.above(cuts.after))
        return disjunction(self._test("is-null"), either)

    def all(self) -> Expression:
        """A filter that all rows pass, but not for sure: no constant, whose readers do not filter."""
        return disjunction(self._test("is-null"), self._test("not-null"))

    def _test(self, operation: str, *values: float) -> Predicate:
        return msgspec.structs.replace(self._predicate, operation=operation, values=values)
