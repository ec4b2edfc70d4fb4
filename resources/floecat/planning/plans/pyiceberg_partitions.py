"""Partitions as PyIceberg up to 0.12 takes them.

Its model of a content file has no nulls in partitions. It uses a partition in one place, for columns that the
data file does not have and that an identity field has, and there it needs the values as manifests hold them:
days, microseconds, numbers. Files that Iceberg wrote have their partition columns. Those of Delta tables do
not, nor do files of Hive's layout that were added to a table.

No value stands for null there: it refuses null, NaN is a number or an error, and a shorter list is an error
where a value is looked up. So a null is sent as no values at all, under a spec that it does not know if all
are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import UnsupportedOperationError
from floecat.iceberg.schemas.transforms import IDENTITY
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.manifest_files import SpecTypes
from floecat.planning.files.scans import ContentFiles
from floecat.planning.plans import json_columns as columns

__all__ = ["pyiceberg_partitions"]

_UNKNOWN_SPEC: Final = "-1"
"""PyIceberg takes columns that a file does not have as null, if it does not know the spec of the file."""

_NEVER_READ: Final = "0"
"""Value in place of a null of a field that is not read."""

_INTEGERS: Final = {
    "date": pa.int32(),
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), pa.int64()),
}
_UUID: Final = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"


def pyiceberg_partitions(
    files: ContentFiles,
    types: Sequence[PrimitiveType | None],
    *,
    specs: Mapping[int, SpecTypes],
    are_absent: bool,
) -> tuple[pa.StringArray | str, pa.StringArray | str]:
    """Spec ids and partitions of files, as JSON.

    Args:
        types: result types of the fields of their spec; None where only files know it.
        specs: of the table.
        are_absent: whether the files do not have the columns that they are partitioned by.

    Raises:
        UnsupportedOperationError: PyIceberg would misread, or not read, a column that the files do not have.
    """
    spec_id = str(files.spec_id)
    if not types:
        return spec_id, "[]"
    fields = files.partitions.flatten()
    values = [_values(field, type, are_absent=are_absent) for field, type in zip(fields, types, strict=True)]
    values = [
        pc.if_else(field.is_null(), _NEVER_READ, value) for field, value in zip(fields, values, strict=True)
    ]
    written = columns.concat("[", columns.separated(values), "]")
    transforms = (field.transform for field in specs[files.spec_id].spec.fields)
    nulls = [
        field.is_null() for field, transform in zip(fields, transforms, strict=True) if transform == IDENTITY
    ]
    if not nulls:
        return spec_id, written
    has_null, is_null = reduce(pc.or_, nulls), reduce(pc.and_, nulls)
    if are_absent and pc.any(pc.and_not(has_null, is_null)).as_py():
        raise _unread("a null beside other values")
    return pc.if_else(is_null, _UNKNOWN_SPEC, spec_id), pc.if_else(has_null, "[]", written)


def _values(field: pa.Array, type: PrimitiveType | None, *, are_absent: bool) -> pa.StringArray:
    name = "" if type is None else type.name
    if name in _INTEGERS:
        return columns.integers(field.cast(_INTEGERS[name]))
    if are_absent and field.null_count < len(field):
        if name == "decimal":
            return _whole_numbers(field)
        if name in ("binary", "fixed") or (name == "string" and _any_is_uuid(field)):
            raise _unread(f"values of type {type} that it takes for another type")
    return columns.single_values(field, type)


def _whole_numbers(field: pa.Array) -> pa.StringArray:
    if not pc.all(pc.equal(field, pc.trunc(field))).as_py():
        raise _unread("decimals with a fraction")
    return pc.trunc(field).cast(pa.decimal128(38, 0)).cast(pa.string())


def _any_is_uuid(field: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(field, _UUID)).as_py())


def _unread(what: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"PyIceberg up to 0.12 cannot read planned scans of this table, whose partitions have {what}:"
        " set scan-planning-mode to client"
    )
