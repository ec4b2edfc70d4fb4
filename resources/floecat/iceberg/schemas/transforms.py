"""Transforms of partition fields and sort fields (table specification, "Partition Transforms")."""

from __future__ import annotations

import re

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.text_limits import int32_of

__all__ = ["IDENTITY", "VOID", "can_transform", "normalize_transform", "only_source", "transform_name"]

IDENTITY = "identity"
VOID = "void"

_NO_VALUES = frozenset({"unknown", "variant", "geometry", "geography"})
_DATES = frozenset({"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_SOURCES = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _DATES - {"date"},
    "bucket": _DATES | {"int", "long", "time", "string", "binary", "fixed", "decimal", "uuid"},
    "truncate": frozenset({"int", "long", "string", "binary", "decimal"}),
}
_NEED_WIDTH = frozenset({"bucket", "truncate"})
_WITHOUT_WIDTH = (_SOURCES.keys() - _NEED_WIDTH) | {IDENTITY, VOID}
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(-?[0-9]+)\]", re.IGNORECASE)


def normalize_transform(text: str) -> str:
    """A known transform in lower case; an unknown one as it is.

    Raises:
        IllegalArgumentError: the width of a bucket or truncate transform is not a positive `int`.
    """
    if match := _WITH_WIDTH.fullmatch(text):
        width = int32_of(match[2])
        if width is None or width <= 0:
            raise IllegalArgumentError(
                f"Invalid width of transform {match[1].lower()}: {match[2][:20]} (must be > 0)"
            )
        return f"{match[1].lower()}[{width}]"
    lowered = text.lower()
    return lowered if lowered in _WITHOUT_WIDTH else text


def transform_name(transform: str) -> str:
    """The name of a normalized transform, without its width.

    Returns:
        Empty for an unknown transform. A bucket or truncate transform without a width is one, as in the
        reference implementation.
    """
    if match := _WITH_WIDTH.fullmatch(transform):
        return match[1]
    return transform if transform in _WITHOUT_WIDTH else ""


def can_transform(transform: str, source: PrimitiveType) -> bool:
    """Whether a normalized transform accepts a primitive type. Unknown transforms accept all."""
    if transform == VOID:
        return True
    if transform == IDENTITY:
        return source.name not in _NO_VALUES
    accepted = _SOURCES.get(transform_name(transform))
    return accepted is None or source.name in accepted


def only_source(source_id: int | None, source_ids: tuple[int, ...] | None, owner: str) -> int:
    """The source column of a transform, given in either field.

    Clients read only `source-id`, and no transforms of several columns.

    Args:
        source_id: `source-id`.
        source_ids: `source-ids`.
        owner: the name of the field in messages.

    Raises:
        IllegalArgumentError: no column, several columns, or the two fields differ.
    """
    sources = source_ids if source_ids is not None else () if source_id is None else (source_id,)
    if len(sources) != 1 or source_id not in (None, sources[0]):
        raise IllegalArgumentError(
            f"Cannot use source-ids of {owner}: transforms of several columns are not supported"
        )
    return sources[0]
