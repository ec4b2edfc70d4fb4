"""Transforms of partition fields and sort fields (table specification, "Partition Transforms")."""

from __future__ import annotations

import re

from floecat.errors import IllegalArgumentError
from floecat.iceberg.types import PrimitiveType

__all__ = ["IDENTITY", "VOID", "can_transform", "normalize_transform"]

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
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(-?[0-9]{1,10})\]", re.IGNORECASE)


def normalize_transform(text: str) -> str:
    """Writes a known transform in lower case; an unknown one stays as it is.

    Raises:
        IllegalArgumentError: the width of a bucket or truncate transform is not a positive `int`.
    """
    if match := _WITH_WIDTH.fullmatch(text):
        width = int(match[2])
        if not 0 < width < 2**31:
            raise IllegalArgumentError(
                f"Invalid width of transform {match[1].lower()}: {width} (must be > 0)"
            )
        return f"{match[1].lower()}[{width}]"
    lowered = text.lower()
    return lowered if lowered in _SOURCES or lowered in (IDENTITY, VOID) else text


def can_transform(transform: str, source: PrimitiveType) -> bool:
    """Whether a normalised transform takes values of a primitive type. Unknown transforms take all."""
    if transform == VOID:
        return True
    if transform == IDENTITY:
        return source.name not in _NO_VALUES
    accepted = _SOURCES.get(transform.partition("[")[0])
    return accepted is None or source.name in accepted
