"""Table properties of others in the form that every reader reads."""

from __future__ import annotations

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.name_mappings import NAME_MAPPING
from floecat.iceberg.normalization.values import (
    each,
    each_value,
    encode_object,
    integer,
    keep,
    object_of,
    renamed,
    text,
)
from floecat.iceberg.values.json_values import RawJson, decode_fields, encode_json

__all__ = ["normalize_properties"]


def normalize_properties(raw: RawJson) -> RawJson:
    """Properties whose values are strings, and whose name mapping PyIceberg and DuckDB read."""
    made = each_value(text)(raw)
    fields = decode_fields(made, "properties")
    if NAME_MAPPING not in fields:
        return made
    before = fields[NAME_MAPPING]
    after = renamed(before, _name_mapping)
    return made if after is before else encode_object({**fields, NAME_MAPPING: after})


def _name_mapping(written: str) -> str:
    """Each column with `names`, and without nulls; what is no mapping is left for the check to refuse."""
    data = written.encode()
    try:
        made = _mapped_columns(data)
    except (IllegalArgumentError, RecursionError):
        return written
    return written if made is data else bytes(made).decode()


def _mapped_column(raw: RawJson) -> RawJson:
    made = _mapped(raw)
    fields = decode_fields(made, "name mapping")
    return made if "names" in fields else encode_json(fields | {"names": ()})


_mapped_columns = each(_mapped_column)
_mapped = object_of({"field-id": integer, "names": keep, "fields": _mapped_columns})
