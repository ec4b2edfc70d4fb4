"""Schemas and versions of a view while updates add some: which ids they get, and which are there already.

A request may add thousands: what one of them costs does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.json_values import MAX_INT32
from floecat.iceberg.values.reader_limits import check_numbers
from floecat.iceberg.views.metadata import ViewSchema, ViewVersion
from floecat.iceberg.views.updates import LAST_ADDED
from floecat.iceberg.views.versions import check_new_version

__all__ = ["ViewSchemas", "ViewVersions"]


class ViewSchemas:
    """Schemas by id."""

    def __init__(self, schemas: Mapping[int, ViewSchema]) -> None:
        """Takes those that there are."""
        self.items: dict[int, ViewSchema] = dict(schemas)
        self.last_added_id: int | None = None
        self._next_id = max(self.items, default=-1) + 1
        self._ids: dict[bytes, int] | None = None

    def add(self, encoded: bytes) -> int:
        """Adds a schema under the next free id, or finds the first equal one, and returns its id.

        Raises:
            IllegalArgumentError: the schema breaks a rule of the specification.
        """
        added = parse_schema(encoded)
        if self._ids is None:
            self._ids = {}
            for known in self.items.values():
                self._ids.setdefault(parse_schema(known.encoded).content, known.schema_id)
        schema_id = self._ids.get(added.content)
        if schema_id is None:
            check_numbers(encoded, "schema")
            check_new_columns(added, None)
            schema_id = self._next_id
            if schema_id > MAX_INT32:
                raise IllegalArgumentError(f"Cannot add schema: the highest schema id {MAX_INT32} is taken")
            self._ids[added.content] = schema_id
            self.items[schema_id] = ViewSchema(schema_id, added.with_schema_id(schema_id).raw)
            self._next_id += 1
        self.last_added_id = schema_id
        return schema_id


class ViewVersions:
    """Versions by id."""

    def __init__(self, versions: Mapping[int, ViewVersion]) -> None:
        """Takes those that there are."""
        self.items: dict[int, ViewVersion] = dict(versions)
        self.added_ids: set[int] = set()
        self.last_added_id: int | None = None
        self._next_id = max(self.items, default=-1) + 1
        self._ids: dict[bytes, int] | None = None

    def add(self, sent: ViewVersion, schemas: ViewSchemas) -> int:
        """Adds a version, or finds the first one that behaves the same, and returns its id.

        A new one keeps its id if that is higher than all ids of the view, and else gets the next free one.

        Args:
            sent: the version; its `schema-id` may be `LAST_ADDED`.
            schemas: the schemas of the view.

        Raises:
            IllegalArgumentError: `schema-id` is `LAST_ADDED` and no schema was added, the version id is out
                of range, or the version breaks a rule of the specification.
        """
        schema_id = sent.schema_id
        if schema_id == LAST_ADDED:
            if schemas.last_added_id is None:
                raise IllegalArgumentError("Cannot set last added schema: no schema has been added")
            schema_id = schemas.last_added_id
        resolved = sent.with_ids(version_id=sent.version_id, schema_id=schema_id)
        version_id = self._known(resolved)
        if version_id is None:
            version_id = self._insert(resolved, schemas)
        self.last_added_id = version_id
        return version_id

    def _known(self, version: ViewVersion) -> int | None:
        if self._ids is None:
            self._ids = {}
            for known in self.items.values():
                self._ids.setdefault(known.behaviour(), known.version_id)
        return self._ids.get(version.behaviour())

    def _insert(self, version: ViewVersion, schemas: ViewSchemas) -> int:
        version_id = max(version.version_id, self._next_id) if self.items else version.version_id
        if not 0 <= version_id <= MAX_INT32:
            raise IllegalArgumentError(f"Invalid view version: version id {version_id} is out of range")
        added = version.with_ids(version_id=version_id, schema_id=version.schema_id)
        check_new_version(added, schemas.items)
        self.items[version_id] = added
        self.added_ids.add(version_id)
        self._next_id = version_id + 1
        if self._ids is not None:
            self._ids[added.behaviour()] = version_id
        return version_id
