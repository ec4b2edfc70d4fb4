"""Verdicts of manifest lists, partitions and metrics on the tests of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.schemas.partitioning import PartitionField
from floecat.iceberg.schemas.transforms import IDENTITY, VOID, transform_name
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.manifest_files import ManifestColumns, SpecTypes
from floecat.planning.files.scans import SetSlices
from floecat.planning.filters.bound import Test
from floecat.planning.filters.evidence import Evidence, between_bounds, cannot_match, must_match
from floecat.planning.filters.literals import FLOATS, Canonical
from floecat.planning.filters.transforms import UNITS_A_DAY, bucket_of, has_ranges, parameter, source_range
from floecat.planning.filters.vectors import Vector, from_bounds, from_partition
from floecat.planning.filters.verdicts import Verdict

__all__ = [
    "by_metrics",
    "by_partition",
    "by_summaries",
    "in_signed_order",
    "metrics_evidence",
    "narrowed",
    "needs_metrics",
    "set_slices",
]

_NULL_TESTS: Final = frozenset({"is-null", "not-null"})


def needs_metrics(test: Test, spec: SpecTypes) -> bool:
    """Whether metrics may say more of a test than the partition does."""
    return test.transform is None and not any(
        field.transform == "identity" and field.source_id == test.field_id for field in spec.spec.fields
    )


def by_partition(test: Test, spec: SpecTypes, files: ManifestColumns, rows: Int64s | None) -> Verdict:
    """The verdict of the partitions of files.

    Args:
        spec: of the manifest.
        files: of the manifest.
        rows: some of the files; None for all.
    """
    size = len(files) if rows is None else len(rows)
    verdict = Verdict(np.zeros(size, np.bool_), np.zeros(size, np.bool_))
    for place, field in enumerate(spec.spec.fields):
        result = spec.types[place]
        array = files.partitions.field(place)
        if field.source_id != test.field_id or field.transform == VOID:
            continue
        if result is None or pa.types.is_null(array.type):
            continue
        values = from_partition(array if rows is None else array.take(pa.array(rows)))
        found = _by_values(test, field, result, values, size)
        verdict = Verdict(verdict.cannot | found.cannot, verdict.must | found.must)
        if test.operation == "not-starts-with" and values.valid is not None:
            # As in SQL: Spark does not filter again by partitions. The readers of Java to whom such a null
            # differs fail at its beginning.
            verdict = verdict._replace(cannot=verdict.cannot | ~values.valid)
    return verdict


def _by_values(
    test: Test, field: PartitionField, result: PrimitiveType, values: Vector, size: int
) -> Verdict:
    known = values.valid if values.valid is not None else np.ones(size, np.bool_)
    nulls = Evidence(size, no_nulls=known, only_nulls=~known)
    if test.operation in _NULL_TESTS or test.type is None:
        evidence = nulls
    elif test.transform is not None:
        same = test.transform == field.transform
        evidence = nulls._replace(lower=values, upper=values) if same else nulls
    elif transform_name(field.transform) == "bucket":
        return _by_bucket(test, parameter(field.transform), values, nulls)
    elif has_ranges(field.transform, test.type) and _is_comparable(result, test.type, field.transform):
        lower, upper = source_range(field.transform, test.type, values, values, longest=_longest(test.values))
        evidence = nulls._replace(lower=lower, upper=upper)
    else:
        evidence = nulls
    if result.name in FLOATS:
        is_nan = np.isnan(values.data)
        evidence = evidence._replace(no_nans=known & ~is_nan, only_nans=known & is_nan)
    cannot = cannot_match(test.operation, test.values, evidence)
    return Verdict(cannot, must_match(test.operation, test.values, evidence))


def _by_bucket(test: Test, buckets: int, values: Vector, nulls: Evidence) -> Verdict:
    if test.operation not in ("in", "not-in") or test.type is None:
        return Verdict(
            cannot_match(test.operation, test.values, nulls), must_match(test.operation, test.values, nulls)
        )
    outside = ~np.isin(values.data, _buckets(test.values, test.type, buckets))
    if test.operation == "in":
        return Verdict(outside | nulls.flag(nulls.only_nulls), np.zeros(nulls.size, np.bool_))
    return Verdict(np.zeros(nulls.size, np.bool_), outside & nulls.flag(nulls.no_nulls))


def _is_comparable(result: PrimitiveType, source: PrimitiveType, transform: str) -> bool:
    """False for partitions of a column that is a date in the schema of the scan, and a timestamp now."""
    return transform != IDENTITY or (result.name == "date") == (source.name == "date")


@lru_cache(maxsize=64)
def _buckets(values: tuple[Canonical, ...], type: PrimitiveType, buckets: int) -> tuple[int, ...]:
    """The buckets of a set, sorted."""
    return tuple(sorted({bucket_of(value, type, buckets) for value in values}))


@lru_cache(maxsize=64)
def _longest(values: tuple[Canonical, ...]) -> int:
    return max((len(value) for value in values if isinstance(value, bytes)), default=0)


def by_summaries(
    test: Test, spec: SpecTypes, summaries: Sequence[Sequence[PartitionSummary] | None]
) -> Bools:
    """The manifests that have no file that may pass a test, by the summaries of the manifest list.

    Args:
        spec: of all the manifests.
        summaries: of the fields of each manifest; None where there are none.
    """
    cannot = np.zeros(len(summaries), np.bool_)
    for place, field in enumerate(spec.spec.fields):
        result = spec.types[place]
        if field.source_id != test.field_id or field.transform == VOID or result is None:
            continue
        found = [None if each is None or place >= len(each) else each[place] for each in summaries]
        cannot |= _by_summary(test, field, result, found)
    return cannot


def _by_summary(
    test: Test, field: PartitionField, result: PrimitiveType, found: Sequence[PartitionSummary | None]
) -> Bools:
    size = len(found)
    is_float = result.name in FLOATS
    no_nulls = np.array([each is not None and not each.contains_null for each in found])
    no_bound = np.array([each is not None and each.lower_bound is each.upper_bound is None for each in found])
    nans = [None if each is None else each.contains_nan for each in found]
    no_nans = np.array([nan is False for nan in nans])
    no_numbers = no_bound & (no_nans | (not is_float))
    only_nulls = no_numbers & ~no_nulls
    # a manifest whose values are neither null nor anything else was rewritten without them
    no_nulls &= ~no_numbers
    evidence = Evidence(size, no_nulls=no_nulls, only_nulls=only_nulls)
    if is_float:
        some_nans = np.array([nan is True for nan in nans])
        evidence = evidence._replace(no_nans=no_nans, some_nans=some_nans)
    if test.operation in _NULL_TESTS or test.type is None:
        return cannot_match(test.operation, test.values, evidence)
    lower = from_bounds(_bounds(each and each.lower_bound for each in found), result, _unit(result))
    uppers = _bounds(each and each.upper_bound for each in found)
    upper = from_bounds(uppers, result, _unit(result), are_upper=True)
    if test.transform is not None:
        if test.transform != field.transform:
            return cannot_match(test.operation, test.values, evidence)
        return cannot_match(test.operation, test.values, evidence._replace(lower=lower, upper=upper))
    if transform_name(field.transform) == "bucket":
        if test.operation != "in":
            return cannot_match(test.operation, test.values, evidence)
        buckets = _buckets(test.values, test.type, parameter(field.transform))
        return cannot_match("in", buckets, evidence._replace(lower=lower, upper=upper))
    if not has_ranges(field.transform, test.type) or not _is_comparable(result, test.type, field.transform):
        return cannot_match(test.operation, test.values, evidence)
    lower, upper = source_range(field.transform, test.type, lower, upper, longest=_longest(test.values))
    return _in_any_order(test, evidence._replace(lower=lower, upper=upper))


def _bounds(values: Any) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def by_metrics(test: Test, metrics: ColumnMetrics | None, rows: Int64s, memo: dict[Any, Evidence]) -> Bools:
    """The files that have no row that passes a test, by their metrics.

    Args:
        metrics: of the column, for all files of a manifest.
        rows: some of the files.
        memo: keeps what was computed for the manifest.
    """
    if metrics is None or test.type is None or test.transform is not None:
        return np.zeros(len(rows), np.bool_)
    evidence = metrics_evidence(metrics, test.type, memo)
    if len(rows) < evidence.size:
        evidence = evidence.take(rows)
    return _in_any_order(test, evidence)


def narrowed(
    rows: Int64s | None, verdicts: Sequence[Verdict], chosen: Bools, size: int
) -> tuple[Int64s | None, list[Verdict]]:
    """The rows that were chosen of these, and their verdicts; `rows` is None for all of a manifest."""
    if int(np.count_nonzero(chosen)) == size:
        return rows, list(verdicts)
    places = np.flatnonzero(chosen)
    return places if rows is None else rows[places], [verdict.take(places) for verdict in verdicts]


def set_slices(
    test: Test, metrics: ColumnMetrics | None, rows: Int64s, memo: dict[Any, Evidence]
) -> SetSlices | None:
    """The values of a set that lie between the bounds of files; None where that is not known.

    Arguments as of `by_metrics`.
    """
    if metrics is None or test.type is None or test.transform is not None or test.type.name == "uuid":
        return None
    evidence = metrics_evidence(metrics, test.type, memo)
    if len(rows) < evidence.size:
        evidence = evidence.take(rows)
    return SetSlices(*between_bounds(test.values, evidence))


def metrics_evidence(metrics: ColumnMetrics, type: PrimitiveType, memo: dict[Any, Evidence]) -> Evidence:
    """The evidence of metrics on a column in each file."""
    key = (metrics.field_id, type)
    found = memo.get(key)
    if found is None:
        found = memo[key] = _metrics_evidence(metrics, type)
    return found


def _metrics_evidence(metrics: ColumnMetrics, type: PrimitiveType) -> Evidence:
    arrays = (metrics.value_counts, metrics.null_value_counts, metrics.nan_value_counts)
    bounds = (metrics.lower_bounds, metrics.upper_bounds)
    size = next(len(array) for array in (*arrays, *bounds) if array is not None)
    values, nulls, nans = (_counts(array, size) for array in arrays)
    # a negative count is an unknown one
    only_nulls = (values >= 0) & (values == nulls)
    only_nans = (values >= 0) & (values == nans)
    lower, upper = (
        None if array is None else from_bounds(array, type, _unit(type), are_upper=are_upper)
        for array, are_upper in zip(bounds, (False, True), strict=True)
    )
    return Evidence(size, lower, upper, nulls == 0, only_nulls, nans == 0, only_nans, nans > 0)


def _unit(type: PrimitiveType) -> int:
    """Units of a day in values of a type: bounds may be days of a column that was a date."""
    return UNITS_A_DAY.get(type.name, 1)


def _counts(array: pa.Array | None, size: int) -> Int64s:
    if array is None:
        return np.full(size, -1, np.int64)
    counts: Int64s = array.fill_null(-1).to_numpy(zero_copy_only=False)
    return counts


def _in_any_order(test: Test, evidence: Evidence) -> Bools:
    cannot = cannot_match(test.operation, test.values, evidence)
    if test.type is None or test.type.name != "uuid" or not cannot.any():
        return cannot
    # Bounds may be those of signed halves, as writers in Java compared UUIDs.
    lower, upper = (
        None if each is None else in_signed_order(each) for each in (evidence.lower, evidence.upper)
    )
    values = tuple(sorted(_flipped_value(value) for value in test.values if isinstance(value, bytes)))
    return cannot & cannot_match(test.operation, values, evidence._replace(lower=lower, upper=upper))


def in_signed_order(vector: Vector) -> Vector:
    """UUIDs that compare as their signed halves do."""
    values = [None if value is None else _flipped_value(value) for value in vector.data.to_pylist()]
    return Vector(pa.array(values, pa.binary()), vector.valid)


def _flipped_value(value: bytes) -> bytes:
    signs = bytearray(value)
    for place in (0, 8):
        if place < len(signs):
            signs[place] ^= 0x80
    return bytes(signs)
