"""The name mapping of a table: which column has which names in data files without field ids.

It is the JSON text of a table property (table specification, "Column Projection").
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.json_values import Int32

__all__ = ["NAME_MAPPING", "check_name_mapping", "mapped_ids"]

NAME_MAPPING = "schema.name-mapping.default"
"""The property that holds it."""


class _Mapped(msgspec.Struct, rename="kebab"):
    """What a mapping says of a column; also what only some readers take."""

    field_id: Int32 | None = None
    fields: list[_Mapped] | None = None


class _Readable(msgspec.Struct, rename="kebab"):
    names: list[str]
    field_id: Int32 | None = None
    fields: list[_Readable] = []


_decoder = msgspec.json.Decoder(list[_Mapped])
_readable_decoder = msgspec.json.Decoder(list[_Readable])


def check_name_mapping(text: str) -> None:
    """Refuses a mapping with which PyIceberg and DuckDB cannot read the table.

    Raises:
        IllegalArgumentError: it is no list of objects with `names`, and with whole numbers for `field-id`.
    """
    try:
        _readable_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise IllegalArgumentError(f"Invalid property {NAME_MAPPING}: not a name mapping") from None


def mapped_ids(text: str) -> Iterator[int]:
    """The column ids in a mapping, of all levels; none if it is no mapping."""
    try:
        mapped = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    while mapped:
        column = mapped.pop()
        if column.field_id is not None:
            yield column.field_id
        mapped += column.fields or ()
