"""Rules for new columns that all clients can read; the catalog itself reads more."""

from __future__ import annotations

import re

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import NestedField, PrimitiveType

__all__ = ["check_default_forms", "check_new_columns"]

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_MICROS = r"(?:\.[0-9]{1,6})?"
_NANOS = r"(?:\.[0-9]{1,9})?"
_FORMS = {
    "date": re.compile(_DAY),
    "time": re.compile(_CLOCK + _MICROS),
    "timestamp": re.compile(f"{_DAY}T{_CLOCK}{_MICROS}"),
    "timestamptz": re.compile(f"{_DAY}T{_CLOCK}{_MICROS}\\+00:00"),
    "timestamp_ns": re.compile(f"{_DAY}T{_CLOCK}{_NANOS}"),
    "timestamptz_ns": re.compile(f"{_DAY}T{_CLOCK}{_NANOS}\\+00:00"),
}
"""The form of a date or time that all clients read (table specification, Appendix D)."""

_BEYOND_FLOAT = 2.0**128 - 2.0**103
"""The smallest number that does not round to a finite float; what Java prints for the largest float does."""


def check_new_columns(schema: Schema, before: Schema | None) -> None:
    """Refuses types and default values that some clients cannot read.

    Args:
        schema: the new schema.
        before: the current schema so far. Its columns stay allowed: otherwise a table that was registered
            with them could not be changed.

    Raises:
        IllegalArgumentError: a decimal has no digits, or more after the point than in total; a default is not
            in the form of the specification, or is out of the range of `float`.
    """
    for field_id, field in schema.fields_by_id.items():
        known = None if before is None else before.fields_by_id.get(field_id)
        if known is None or _substance(known) != _substance(field):
            _check_decimal(field)
            _check_forms(field)


def check_default_forms(schema: Schema) -> None:
    """Refuses default values that some clients cannot read.

    Raises:
        IllegalArgumentError: one is not in the form of the specification, or is out of the range of `float`.
    """
    for field in schema.fields_by_id.values():
        _check_forms(field)


def _substance(field: NestedField) -> tuple[object, object, object]:
    return field.type, field.initial_default, field.write_default


def _check_decimal(field: NestedField) -> None:
    if not isinstance(field.type, PrimitiveType) or field.type.name != "decimal":
        return
    precision, scale = map(int, field.type.parameters)
    if not precision >= 1 or scale > precision:
        raise IllegalArgumentError(
            f"Invalid type of {field.name}: {field.type} (precision must be 1 to 38, scale 0 to precision)"
        )


def _check_forms(field: NestedField) -> None:
    for value in (field.initial_default, field.write_default):
        if value is not None:
            _check_form(field, value)


def _check_form(field: NestedField, value: object) -> None:
    if not isinstance(field.type, PrimitiveType):
        return
    form = _FORMS.get(field.type.name)
    if form is not None and (not isinstance(value, str) or form.fullmatch(value) is None):
        raise IllegalArgumentError(
            f"Invalid default of {field.name}: not the JSON form of a {field.type} value"
        )
    if field.type.name == "float" and isinstance(value, float) and abs(value) >= _BEYOND_FLOAT:
        raise IllegalArgumentError(f"Invalid default of {field.name}: out of the range of float")
