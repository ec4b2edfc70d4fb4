"""Summaries of plans, and filters as people write and read them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from floecat.errors import BadRequestError
from floecat.planning.files.planner import Planner
from floecat.planning.files.scans import ScanPlan
from floecat.planning.filters.expressions import And, Constant, Expression, Not, Or, Predicate
from floecat.planning.plans.chunk_planning import scan_request
from floecat.planning.plans.explanations import Explanation, Residual
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["MOST_RESIDUALS", "explain_plan", "filter_text", "parse_filter_text"]

MOST_RESIDUALS: Final = 10
_PROGRESS_S: Final = 0.2
_LONGEST_FILTER: Final = 10_000
_LONGEST_LIST: Final = 10
_SHOWN: Final = 20

_OPENING: Final = re.compile(r"(?:\s|\(|not\b)+", re.IGNORECASE)
_CLOSING: Final = re.compile(r"\s*\)")
_CONNECTIVE: Final = re.compile(r"\s*(?:and|or)\b", re.IGNORECASE)

_OPERATORS: Final = {"eq": "=", "not-eq": "!=", "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}
_TESTS: Final = {
    "is-null": "is null",
    "not-null": "is not null",
    "is-nan": "is nan",
    "not-nan": "is not nan",
    "in": "in",
    "not-in": "not in",
    "starts-with": "like",
    "not-starts-with": "not like",
}


def explain_plan(
    planner: Planner,
    storage: CatalogStorage,
    scan: PlannedScan,
    progress: Callable[[int], None],
    stop: Callable[[], bool],
) -> Explanation:
    """Plans a scan and summarises it.

    Args:
        planner: makes the plan.
        scan: what is read.
        progress: called now and then with how many files were looked at.
        stop: see `Planner.run`.

    Raises:
        FloecatError: as `Planner.run`.
    """
    results = planner.run(storage.with_artifacts, scan.metadata, scan_request(scan), _summarise, stop=stop)
    for made in results:
        if isinstance(made, int):
            progress(made)
        else:
            explanation = made
    return explanation


def _summarise(plan: ScanPlan) -> Iterator[int | Explanation]:
    residuals: Counter[int] = Counter()
    deletes: set[int] = set()
    with_deletes = 0
    told_at = time.monotonic()
    for batch in plan:
        numbers, counts = np.unique(batch.residuals.to_numpy(), return_counts=True)
        residuals.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        if batch.deletes is not None:
            deletes.update(pc.unique(batch.deletes.flatten()).to_pylist())
            with_deletes += int(np.count_nonzero(batch.deletes.value_lengths().to_numpy()))
        if time.monotonic() - told_at >= _PROGRESS_S:
            told_at = time.monotonic()
            yield plan.counters.files
    counters = plan.counters
    yield Explanation(
        snapshot_id=plan.snapshot_id,
        data_manifests=counters.data_manifests,
        data_manifests_read=counters.data_manifests_matched,
        delete_manifests=counters.delete_manifests,
        delete_manifests_read=counters.delete_manifests_matched,
        files_in_manifests=counters.files,
        files_by_partition=counters.files_by_partition,
        files_by_metrics=counters.files_matched,
        delete_files=len(deletes),
        files_with_deletes=with_deletes,
        rows=counters.rows,
        size_bytes=counters.size_bytes,
        manifest_bytes=counters.manifest_bytes,
        manifests_decoded=counters.manifests_decoded,
        elapsed_ms=round(counters.elapsed_ms, 3),
        residuals=[
            Residual(filter_text(plan.residuals[number]), count)
            for number, count in residuals.most_common(MOST_RESIDUALS)
        ],
    )


def parse_filter_text(text: str) -> object:
    """Reads a filter that a person wrote, as in SQL.

    Returns:
        The filter as clients send it, decoded JSON.

    Raises:
        BadRequestError: it cannot be read; the message says where.
    """
    from pyiceberg.expressions import parser
    from pyparsing import ParseException

    if len(text) > _LONGEST_FILTER:
        raise BadRequestError(f"Invalid filter: longer than {_LONGEST_FILTER:,} characters")
    try:
        parsed = parser.parse(text)
        return msgspec.json.decode(parsed.model_dump_json())
    except ParseException:
        place = _unreadable_from(text)
        if not text[place:].strip():
            raise BadRequestError(f"Invalid filter: it ends too early, at character {place + 1}") from None
        raise BadRequestError(
            f"Invalid filter: cannot be read from character {place + 1} on: {text[place : place + _SHOWN]!r}"
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        problem = "like takes % as its last character alone" if "LIKE" in str(error) else "cannot be read"
        raise BadRequestError(f"Invalid filter: {problem}") from None


def _unreadable_from(text: str) -> int:
    """The place where the first wrong predicate or connective begins.

    The parser itself tells the beginning of the filter, as it tries all readings.
    """
    from pyiceberg.expressions import parser
    from pyparsing import ParseException

    place = depth = 0
    more = True
    while more:
        opening = _OPENING.match(text, place)
        if opening is not None:
            depth, place = depth + opening[0].count("("), opening.end()
        try:
            place = parser.predicate.try_parse(text, place)
        except ParseException as error:
            return int(error.loc)
        while depth and (closing := _CLOSING.match(text, place)):
            depth, place = depth - 1, closing.end()
        connective = _CONNECTIVE.match(text, place)
        more = connective is not None
        place = connective.end() if connective else place
    return len(text) - len(text[place:].lstrip())


def filter_text(expression: Expression) -> str:
    """A filter as in SQL, for people; long lists are shortened."""
    match expression:
        case Constant():
            return "true" if expression.value else "false"
        case And():
            return f"({filter_text(expression.left)} and {filter_text(expression.right)})"
        case Or():
            return f"({filter_text(expression.left)} or {filter_text(expression.right)})"
        case Not():
            return f"not {filter_text(expression.child)}"
        case Predicate():
            return _predicate_text(expression)


def _predicate_text(predicate: Predicate) -> str:
    term = predicate.term
    column = term.name if term.transform is None else f"{term.transform}({term.name})"
    values = [_value_text(value) for value in predicate.values[:_LONGEST_LIST]]
    operation = predicate.operation
    if operation in _OPERATORS:
        return f"{column} {_OPERATORS[operation]} {values[0]}"
    test = f"{column} {_TESTS[operation]}"
    if operation in ("in", "not-in"):
        more = len(predicate.values) - len(values)
        return f"{test} ({', '.join(values)}{f', and {more} more' if more else ''})"
    if operation in ("starts-with", "not-starts-with"):
        return f"{test} {_value_text(f'{predicate.values[0]}%')}"
    return test


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    return str(value).lower() if isinstance(value, bool) else str(value)
