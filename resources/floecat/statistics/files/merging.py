"""Numbers of several files as numbers of all of them. Parts can be merged in any order, and merged again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from floecat.iceberg.schemas.single_values import encode
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.floats import extremes
from floecat.statistics.files.leaf_values import one_value
from floecat.statistics.files.summaries import ColumnSummary
from floecat.statistics.files.theta import ThetaSketch, union

__all__ = ["merge_columns"]


def merge_columns(parts: Sequence[ColumnSummary], type: PrimitiveType) -> ColumnSummary:
    """The summary of one term of several files, or of parts that were merged before.

    Args:
        parts: at least one; no file is in two.
        type: of the term.

    Raises:
        InvalidMetadataError: a sketch is damaged.
    """
    if len(parts) == 1:
        return parts[0]
    sketches = [ThetaSketch.from_bytes(part.sketch) for part in parts if part.sketch is not None]
    bounded = [part for part in parts if part.value_count > part.null_count + part.nan_count]
    return ColumnSummary(
        field_id=parts[0].field_id,
        value_count=sum(part.value_count for part in parts),
        null_count=sum(part.null_count for part in parts),
        nan_count=sum(part.nan_count for part in parts),
        lower=_bound([part.lower for part in bounded], type, "min"),
        upper=_bound([part.upper for part in bounded], type, "max"),
        size_bytes=sum(part.size_bytes for part in parts),
        sketch=union(sketches).to_bytes() if sketches else None,
        transform=parts[0].transform,
    )


def _bound(values: Sequence[bytes | None], type: PrimitiveType, which: str) -> bytes | None:
    """The least or greatest of bounds; None if there are none, or one is not known."""
    found = [value for value in values if value is not None]
    if not found or len(found) < len(values):
        return None
    ends = extremes(pa.concat_arrays([one_value(value, type) for value in found]))
    bound: bytes = encode(ends, type)[0 if which == "min" else 1].as_py()
    return bound
