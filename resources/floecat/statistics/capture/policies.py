"""What is captured of a table: its properties, then those of its catalog, then the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from floecat.errors import BadRequestError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.expressions import MOST_EXPRESSIONS, Expression
from floecat.statistics.files.summaries import CountedColumns, Term

__all__ = ["PREFIX", "CapturePolicy", "capture_policy"]

PREFIX: Final = "floecat.statistics."
"""Of the properties."""

_ALL: Final = "all"


class CapturePolicy(msgspec.Struct, frozen=True, rename="kebab"):
    """What is captured of a table."""

    enabled: bool
    """Whether its commits are captured by themselves."""
    snapshots: str
    """`latest` or `all`."""
    columns: tuple[str, ...]
    """Full names; empty for the first ones."""
    first_columns: int
    """How many of these; 0 for all."""
    publish: str
    """`recent`, `always` or `never`."""
    expressions: tuple[Expression, ...] = ()
    """Captured beside the columns, with the columns that they transform."""

    def columns_of(self, schema: Schema) -> CountedColumns:
        """What is captured. Columns that the schema lacks are left out, as are expressions of these."""
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

    def _bound(self, schema: Schema) -> Iterator[Term]:
        for each in self.expressions:
            with suppress(BadRequestError):
                yield each.bind(schema)


def capture_policy(
    settings: StatisticsSettings, catalog: Mapping[str, str], table: Mapping[str, str]
) -> CapturePolicy:
    """The policy of a table. A value that cannot be read counts as not set.

    Args:
        settings: of the process.
        catalog: properties of the catalog.
        table: properties of the table.
    """
    found = {
        key.removeprefix(PREFIX): value.strip()
        for properties in (catalog, table)
        for key, value in properties.items()
        if key.startswith(PREFIX)
    }
    columns = found.get("columns", "")
    first = found.get("first-columns", "")
    publish = {"true": "always", "false": "never"}.get(found.get("publish", "").lower(), found.get("publish"))
    return CapturePolicy(
        enabled={"true": True, "false": False}.get(found.get("enabled", "").lower(), settings.enabled),
        snapshots=found["snapshots"] if found.get("snapshots") in ("latest", _ALL) else settings.snapshots,
        columns=()
        if columns == _ALL
        else tuple(name for part in columns.split(",") if (name := part.strip())),
        first_columns=0
        if columns == _ALL
        else int(first)
        if first.isdecimal() and len(first) < 10
        else settings.first_columns,
        publish=publish if publish in ("recent", "always", "never") else settings.publish,
        expressions=_expressions(found.get("expressions", "")),
    )


def _expressions(json: str) -> tuple[Expression, ...]:
    try:
        found = msgspec.json.decode(json, type=tuple[Expression, ...])[:MOST_EXPRESSIONS]
        return tuple(dict.fromkeys(each.normalized() for each in found))
    except (msgspec.MsgspecError, BadRequestError):
        return ()
