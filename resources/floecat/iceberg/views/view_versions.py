"""Schemas and versions of a view: what a new one must have, which id it gets, and which stay.

A request may add thousands: the cost of one does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.updates import LAST_ADDED
from floecat.iceberg.values.encoded_json import MAX_INT32
from floecat.iceberg.values.text_limits import check_numbers, int32_of
from floecat.iceberg.views.normalization import normalize_version
from floecat.iceberg.views.view_metadata import VersionLogEntry, ViewSchema, ViewVersion

__all__ = [
    "ViewSchemas",
    "ViewVersions",
    "check_dialects_kept",
    "check_representations",
    "check_schema_known",
    "expired_log_entries",
    "read_new_version",
    "retained_versions",
]

_VERSION_HISTORY_SIZE = "version.history.num-entries"
"""Property: number of versions to keep."""

_DROP_DIALECT_ALLOWED = "replace.drop-dialect.allowed"
"""Property: the current version may be replaced by one that lacks some of its SQL dialects."""

_APPEND_DIALECT_ALLOWED = "replace.append-dialect.allowed"
_DEFAULT_HISTORY_SIZE = 10


def read_new_version(encoded: bytes) -> ViewVersion:
    """Reads a version that a client sends.

    Raises:
        IllegalArgumentError: it is not a version, or has a number that is too long for readers.
    """
    sent = ViewVersion.parse(encoded)
    check_numbers(encoded, "view version")
    normalized = normalize_version(encoded)
    return sent if normalized == encoded else ViewVersion.parse(normalized)


def _check_new_version(version: ViewVersion, schemas: Mapping[int, ViewSchema]) -> None:
    """Checks a version before it is added.

    Raises:
        IllegalArgumentError: its schema is unknown, it has no query, or its representations are refused.
    """
    check_schema_known(version, schemas)
    if not version.representations:
        raise IllegalArgumentError("Invalid view version: Cannot add a version without a query")
    check_representations(version)


def check_schema_known(version: ViewVersion, schemas: Container[int]) -> None:
    """Checks the schema of a version.

    Raises:
        IllegalArgumentError: the view has no such schema.
    """
    if version.schema_id not in schemas:
        raise IllegalArgumentError(f"Cannot add version with unknown schema: {version.schema_id}")


def check_representations(version: ViewVersion) -> None:
    """Checks how a version is expressed.

    Raises:
        IllegalArgumentError: two queries have one dialect, or one is not SQL, which readers refuse.
    """
    unknown = sorted({item.type for item in version.representations if item.sql_dialect is None})
    if unknown:
        raise IllegalArgumentError(f"Found unsupported view representations: {', '.join(unknown)[:200]}")
    seen: set[str] = set()
    for representation in version.representations:
        dialect = representation.sql_dialect or ""
        if dialect in seen:
            raise IllegalArgumentError(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}"
            )
        seen.add(dialect)


def check_dialects_kept(
    previous: ViewVersion | None, current: ViewVersion, properties: Mapping[str, str]
) -> None:
    """Refuses a current version that lacks a SQL dialect of the one before, unless a property allows it.

    Raises:
        IllegalArgumentError: a dialect is missing, or the properties contradict each other.
    """
    drop_allowed = _is_true(properties, _DROP_DIALECT_ALLOWED)
    if drop_allowed and _is_true(properties, _APPEND_DIALECT_ALLOWED):
        raise IllegalArgumentError(
            f"Cannot set both {_DROP_DIALECT_ALLOWED} and {_APPEND_DIALECT_ALLOWED} to true"
        )
    if previous is None or drop_allowed or previous.sql_dialects <= current.sql_dialects:
        return
    raise IllegalArgumentError(
        f"Cannot replace view due to loss of view dialects ({_DROP_DIALECT_ALLOWED}=false):\n"
        f"Previous dialects: [{', '.join(sorted(previous.sql_dialects))}]\n"
        f"New dialects: [{', '.join(sorted(current.sql_dialects))}]"
    )


def retained_versions(
    versions: Mapping[int, ViewVersion],
    current: ViewVersion,
    *,
    added_ids: Collection[int],
    properties: Mapping[str, str],
) -> list[ViewVersion]:
    """The versions to keep: the current one, those just added, and the newest others, in their old order.

    Raises:
        IllegalArgumentError: `version.history.num-entries` is not a positive integer.
    """
    # versions just added have the highest ids: with room for all of them, all are kept
    room = max(_history_size(properties), len({*added_ids, current.version_id}))
    newest = sorted((id_ for id_ in versions if id_ != current.version_id), reverse=True)
    kept = {current.version_id, *newest[: room - 1]}
    return [version for version_id, version in versions.items() if version_id in kept]


def expired_log_entries(log: Sequence[VersionLogEntry], version_ids: Collection[int]) -> int:
    """Number of entries to drop at the start of the log, so that every version in the rest is known."""
    for index in range(len(log) - 1, -1, -1):
        if log[index].version_id not in version_ids:
            return index + 1
    return 0


def _history_size(properties: Mapping[str, str]) -> int:
    size = int32_of(properties.get(_VERSION_HISTORY_SIZE, str(_DEFAULT_HISTORY_SIZE)))
    if size is None:
        raise IllegalArgumentError(f"{_VERSION_HISTORY_SIZE} must be an integer")
    if size < 1:
        raise IllegalArgumentError(f"{_VERSION_HISTORY_SIZE} must be positive but was {size}")
    return size


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").lower() == "true"


class ViewSchemas:
    """Schemas by id."""

    def __init__(self, schemas: Mapping[int, ViewSchema]) -> None:
        self.items: dict[int, ViewSchema] = dict(schemas)
        self.last_added_id: int | None = None
        self._next_id = max(self.items, default=-1) + 1
        self._ids: dict[bytes, int] | None = None

    def add(self, encoded: bytes) -> int:
        """Adds a schema under the next free id, or finds the first equal one; returns its id.

        Raises:
            IllegalArgumentError: the schema breaks a rule of the specification.
        """
        added = parse_schema(encoded)
        schema_id = self._known(added)
        if schema_id is None:
            check_numbers(encoded, "schema")
            check_new_columns(added, None)
            schema_id = self._next_id
            if schema_id > MAX_INT32:
                raise IllegalArgumentError(f"Cannot add schema: the highest schema id {MAX_INT32} is taken")
            if self._ids is not None:
                self._ids[added.content] = schema_id
            self.items[schema_id] = ViewSchema(schema_id, added.with_schema_id(schema_id).raw)
            self._next_id += 1
        self.last_added_id = schema_id
        return schema_id

    def _known(self, schema: Schema) -> int | None:
        if not self.items:
            return None
        if self._ids is None:
            self._ids = {}
            for known in self.items.values():
                self._ids.setdefault(parse_schema(known.encoded).content, known.schema_id)
        return self._ids.get(schema.content)


class ViewVersions:
    """Versions by id."""

    def __init__(self, versions: Mapping[int, ViewVersion]) -> None:
        self.items: dict[int, ViewVersion] = dict(versions)
        self.added_ids: set[int] = set()
        self.last_added_id: int | None = None
        self._next_id = max(self.items, default=-1) + 1
        self._ids: dict[bytes, int] | None = None

    def add(self, sent: ViewVersion, schemas: ViewSchemas) -> int:
        """Adds a version, or finds the first one that behaves the same; returns its id.

        A new one keeps its id if that is higher than all ids of the view; otherwise it gets the next free
        one.

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
        if not self.items:
            return None
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
        _check_new_version(added, schemas.items)
        self.items[version_id] = added
        self.added_ids.add(version_id)
        self._next_id = version_id + 1
        if self._ids is not None:
            self._ids[added.behaviour()] = version_id
        return version_id
