"""Capture policy of a table: by its properties, then by those of its catalog, then by the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from floecat.errors import BadRequestError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.reading.expressions import MOST_EXPRESSIONS, Expression
from floecat.statistics.files.summaries import CountedColumns, CountedTerm
from floecat.suggestions import did_you_mean, nearest

__all__ = ["CapturePolicy", "PolicyChange", "capture_policy"]

_PREFIX: Final = "floecat.statistics."
_SNAPSHOTS: Final = ("latest", "all")
_PUBLISH: Final = ("recent", "always", "never")
_LONGEST_NUMBER: Final = 9


class PolicyChange(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The values that a table or a catalog sets by itself; null is inherited."""

    enabled: bool | None = None
    """Whether commits are captured by themselves."""
    snapshots: str | None = None
    """`latest` or `all`."""
    columns: tuple[str, ...] | None = None
    """Full names; empty for the first ones."""
    first_columns: int | None = None
    """Number of first columns; 0 for all."""
    publish: str | None = None
    """`recent`, `always` or `never`."""
    expressions: tuple[Expression, ...] | None = None
    """Captured beside the columns, with the columns that they transform."""

    def check(self) -> None:
        """Checks the values.

        Raises:
            BadRequestError: one is not known.
        """
        if self.snapshots not in (None, *_SNAPSHOTS):
            raise BadRequestError("Invalid snapshots: must be latest or all")
        if self.publish not in (None, *_PUBLISH):
            raise BadRequestError("Invalid publish: must be recent, always or never")
        if not 0 <= (self.first_columns or 0) < 10**_LONGEST_NUMBER:
            raise BadRequestError("Invalid first-columns: must not be negative, and have at most 9 digits")
        if any("," in name or not name.strip() for name in self.columns or ()):
            raise BadRequestError("Invalid columns: a name is blank or has a comma")
        if len(self.expressions or ()) > MOST_EXPRESSIONS:
            raise BadRequestError(f"Invalid expressions: more than {MOST_EXPRESSIONS}")
        for each in self.expressions or ():
            each.normalized()

    def check_columns(self, schema: Schema) -> None:
        """Checks that a table has the columns, and that the expressions accept them.

        Raises:
            BadRequestError: it has not, or one is nested.
        """
        for name in self.columns or ():
            type = schema.find_type(schema.ids_by_name.get(name.strip(), -1))
            if not isinstance(type, PrimitiveType):
                problem = "cannot find column" if type is None else "name the fields of nested column"
                near = did_you_mean(nearest(name[:200], schema.ids_by_name)) if type is None else ""
                raise BadRequestError(f"Invalid columns: {problem} {name[:200]}{near}")
        for each in self.expressions or ():
            each.normalized().bind(schema)

    @property
    def properties(self) -> dict[str, str | None]:
        """The properties that set it; None for those that go."""
        expressions = self.expressions
        return {
            f"{_PREFIX}enabled": None if self.enabled is None else str(self.enabled).lower(),
            f"{_PREFIX}snapshots": self.snapshots,
            f"{_PREFIX}columns": None if self.columns is None else ",".join(self.columns),
            f"{_PREFIX}first-columns": None if self.first_columns is None else str(self.first_columns),
            f"{_PREFIX}publish": self.publish,
            f"{_PREFIX}expressions": None
            if expressions is None
            else msgspec.json.encode([each.normalized() for each in expressions]).decode(),
        }

    @staticmethod
    def of(properties: Mapping[str, str]) -> PolicyChange:
        """The values that properties set. A value that cannot be read counts as not set."""
        found = {
            key.removeprefix(_PREFIX): value.strip()
            for key, value in properties.items()
            if key.startswith(_PREFIX)
        }
        columns, first = found.get("columns"), found.get("first-columns", "")
        publish = found.get("publish", "").lower()
        publish = {"true": "always", "false": "never"}.get(publish, publish)
        is_number = first.isascii() and first.isdecimal() and len(first) <= _LONGEST_NUMBER
        named = (
            None if columns is None else tuple(name for each in columns.split(",") if (name := each.strip()))
        )
        return PolicyChange(
            enabled={"true": True, "false": False}.get(found.get("enabled", "").lower()),
            snapshots=snapshots if (snapshots := found.get("snapshots")) in _SNAPSHOTS else None,
            columns=() if columns == "all" else named,
            first_columns=0 if columns == "all" else int(first) if is_number else None,
            publish=publish if publish in _PUBLISH else None,
            expressions=_expressions(found.get("expressions", "")),
        )


class CapturePolicy(msgspec.Struct, frozen=True, rename="kebab"):
    """The capture policy of a table, or of the tables of a catalog that set nothing else."""

    enabled: bool
    """Whether commits are captured by themselves."""
    snapshots: str
    """`latest` or `all`."""
    columns: tuple[str, ...]
    """Full names; empty for the first ones."""
    first_columns: int
    """Number of first columns; 0 for all."""
    publish: str
    """`recent`, `always` or `never`."""
    expressions: tuple[Expression, ...]
    """Captured beside the columns, with the columns that they transform."""
    set_by: dict[str, str]
    """Sources of values: by name `table` or `catalog`; all others are settings."""

    def columns_of(self, schema: Schema) -> CountedColumns:
        """The columns and expressions captured; those of columns that the schema lacks are left out."""
        if self.columns:
            ids = [schema.ids_by_name[name] for name in self.columns if name in schema.ids_by_name]
        else:
            ids = list(schema.fields_by_id)
        found = {id: schema.fields_by_id[id].type for id in ids}
        primitive = {id: str(type) for id, type in found.items() if isinstance(type, PrimitiveType)}
        most = None if self.columns or self.first_columns == 0 else self.first_columns
        types = dict(list(primitive.items())[:most])
        expressions = tuple(self._bound(schema))
        types |= {each.field_id: str(schema.fields_by_id[each.field_id].type) for each in expressions}
        return CountedColumns(types, expressions)

    def _bound(self, schema: Schema) -> Iterator[CountedTerm]:
        for each in self.expressions:
            with suppress(BadRequestError):
                yield each.bind(schema)


def capture_policy(
    settings: StatisticsSettings, catalog: Mapping[str, str], table: Mapping[str, str]
) -> CapturePolicy:
    """The policy of a table.

    Args:
        catalog: properties of the catalog.
        table: properties of the table; empty for the policy of the catalog.
    """
    values: dict[str, Any] = {
        "enabled": settings.enabled,
        "snapshots": settings.snapshots,
        "columns": (),
        "first_columns": settings.first_columns,
        "publish": settings.publish,
        "expressions": (),
    }
    set_by: dict[str, str] = {}
    for level, properties in (("catalog", catalog), ("table", table)):
        given = msgspec.structs.asdict(PolicyChange.of(properties))
        found = {name: value for name, value in given.items() if value is not None}
        values |= found
        set_by |= {name.replace("_", "-"): level for name in found}
    return CapturePolicy(**values, set_by=set_by)


def _expressions(json: str) -> tuple[Expression, ...] | None:
    try:
        found = msgspec.json.decode(json, type=tuple[Expression, ...])[:MOST_EXPRESSIONS]
        return tuple(dict.fromkeys(each.normalized() for each in found))
    except (msgspec.MsgspecError, BadRequestError):
        return None
