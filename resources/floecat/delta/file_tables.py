"""Columns of the Arrow tables that hold actions of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

__all__ = ["DELETION_VECTOR", "REMOVES_SCHEMA", "files_schema"]

DELETION_VECTOR: Final = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
"""A descriptor of a deletion vector, as the log has it."""

REMOVES_SCHEMA: Final = pa.schema([("path", pa.string()), ("dv_id", pa.string())])
"""Files that are removed; both columns as in `files_schema`."""


def files_schema(partition_names: Sequence[str], stats_parsed: pa.DataType | None = None) -> pa.Schema:
    """Columns of added or live files.

    - ``path``: percent-decoded; relative to the root of the table, or an absolute URI or path.
    - ``partition_values``: a struct with a text for each partition column, named by its physical name, in the
      order of the partition columns. Null if the value is null or absent; an empty text stays one.
    - ``size_bytes``, ``modified_at_ms``.
    - ``stats``: statistics as JSON text, or null.
    - ``stats_parsed``: statistics as a struct, of files whose statistics are no JSON text. Only there if a
      checkpoint holds such.
    - ``deletion_vector``: see `DELETION_VECTOR`; null if the file has none.
    - ``dv_id``: storage type and path or inline text, and ``@`` and the offset if there is one; null if the
      file has no deletion vector. Path and ``dv_id`` together are the key of a file.

    Args:
        partition_names: physical names of the partition columns.
        stats_parsed: the type of struct statistics, if there are any.
    """
    fields = [
        pa.field("path", pa.string()),
        pa.field("partition_values", pa.struct([(name, pa.string()) for name in partition_names])),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified_at_ms", pa.int64()),
        pa.field("stats", pa.string()),
    ]
    if stats_parsed is not None:
        fields.append(pa.field("stats_parsed", stats_parsed))
    fields += [pa.field("deletion_vector", DELETION_VECTOR), pa.field("dv_id", pa.string())]
    return pa.schema(fields)
