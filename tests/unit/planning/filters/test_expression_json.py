"""Both spellings of filters, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import BadRequestError
from floecat.planning.filters.expression_json import MOST_VALUES, parse_filter, write_expression
from floecat.planning.filters.expressions import FALSE, TRUE, And, Not, Or, Predicate, Term

_X = {"type": "reference", "name": "x"}


def _legacy(json: object) -> object:
    return write_expression(parse_filter(json))


def test_no_filter_is_true() -> None:
    assert parse_filter(None) == TRUE


@pytest.mark.parametrize("true", [True, {"type": "true"}, {"type": "literal", "value": True}])
def test_spellings_of_true(true: object) -> None:
    assert parse_filter(true) == TRUE
    assert _legacy(true) is True


@pytest.mark.parametrize("false", [False, {"type": "false"}, {"type": "literal", "value": False}])
def test_spellings_of_false(false: object) -> None:
    assert parse_filter(false) == FALSE
    assert _legacy(false) is False


@pytest.mark.parametrize("operation", ["is-null", "not-null", "is-nan", "not-nan"])
def test_both_spellings_of_unary_predicates(operation: str) -> None:
    legacy = {"type": operation, "term": "x"}
    assert _legacy(legacy) == legacy
    assert _legacy({"type": operation, "child": _X}) == legacy


@pytest.mark.parametrize(
    "operation", ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with"]
)
def test_both_spellings_of_comparisons(operation: str) -> None:
    legacy = {"type": operation, "term": "x", "value": 1}
    assert _legacy(legacy) == legacy
    literal = {"type": "literal", "value": 1, "data-type": "long"}
    assert _legacy({"type": operation, "left": _X, "right": literal}) == legacy
    assert _legacy({"type": operation, "term": _X, "value": literal}) == legacy


@pytest.mark.parametrize("operation", ["in", "not-in"])
def test_both_spellings_of_sets(operation: str) -> None:
    legacy = {"type": operation, "term": "x", "values": [1, 2]}
    assert _legacy(legacy) == legacy
    assert _legacy({"type": operation, "left": _X, "right": {"type": "literals", "values": [1, 2]}}) == legacy
    assert _legacy({"type": operation, "child": _X, "values": [1, 2]}) == legacy


def test_combinations() -> None:
    x, y = {"type": "is-null", "term": "x"}, {"type": "is-null", "term": "y"}
    json = {
        "type": "or",
        "left": {"type": "and", "left": x, "right": y},
        "right": {"type": "not", "child": x},
    }
    parsed = parse_filter(json)
    left = Predicate("is-null", Term("x"), (), "filter.left.left")
    right = Predicate("is-null", Term("y"), (), "filter.left.right")
    assert parsed == Or(And(left, right), Not(Predicate("is-null", Term("x"), (), "filter.right.child")))
    assert write_expression(parsed) == json


def test_terms_with_transforms() -> None:
    legacy = {
        "type": "eq",
        "term": {"type": "transform", "transform": "bucket[16]", "term": "x"},
        "value": 3,
    }
    assert _legacy(legacy) == legacy
    apply = {"type": "apply", "function": "bucket", "arguments": [_X, {"type": "literal", "value": 16}]}
    assert _legacy({"type": "eq", "left": apply, "right": {"type": "literal", "value": 3}}) == legacy


def test_reference_by_id() -> None:
    parsed = parse_filter({"type": "is-null", "child": {"type": "reference", "id": 7}})
    assert parsed == Predicate("is-null", Term("", None, 7))


@pytest.mark.parametrize(
    ("json", "message"),
    [
        ([], "Invalid filter: must be an object"),
        ({}, "Invalid filter: has no type"),
        ({"type": 3}, "Invalid filter: type must be a string"),
        ({"type": "near", "term": "x", "value": 1}, "Invalid filter: unknown type near"),
        ({"type": "and", "left": True}, "Invalid filter: has no right"),
        (
            {"type": "and", "left": True, "right": {"type": "eq", "term": "x"}},
            "Invalid filter.right: has no right",
        ),
        ({"type": "eq", "term": "", "value": 1}, "Invalid filter.term: a column has a name"),
        ({"type": "eq", "term": 1, "value": 1}, "Invalid filter.term: must be an object"),
        (
            {"type": "eq", "term": "x", "value": None},
            "Invalid filter.value: must be a string, a number or a boolean",
        ),
        ({"type": "in", "term": "x", "values": 1}, "Invalid filter.values: must be a list"),
        (
            {"type": "in", "term": "x", "values": [1, []]},
            "Invalid filter.values[1]: must be a string, a number or a boolean",
        ),
        ({"type": "literal", "value": 1}, "Invalid filter: a literal that is a filter must be true or false"),
        (
            {"type": "is-null", "term": {"type": "transform", "transform": "bucket[0]", "term": "x"}},
            "Invalid filter.term: Invalid width of transform bucket: 0 (must be > 0)",
        ),
    ],
)
def test_refusals_name_the_place(json: Any, message: str) -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse_filter(json)
    assert refusal.value.message == message


def test_bounds() -> None:
    values = list(range(MOST_VALUES + 1))
    with pytest.raises(BadRequestError, match="more than 100,000 values"):
        parse_filter({"type": "in", "term": "x", "values": values})
    deep: Any = {"type": "is-null", "term": "x"}
    for _ in range(201):
        deep = {"type": "not", "child": deep}
    with pytest.raises(BadRequestError, match="deeper than 200 levels"):
        parse_filter(deep)
    wide: Any = {"type": "is-null", "term": "x"}
    for _ in range(14):
        wide = {"type": "or", "left": wide, "right": wide}
    with pytest.raises(BadRequestError, match="more than 10,000 predicates"):
        parse_filter(wide)
