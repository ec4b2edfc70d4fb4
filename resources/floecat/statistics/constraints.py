"""Constraints of tables, one bundle a snapshot: what engines put, and what the catalog knows from metadata.

Identifier fields are a primary key that is not enforced, required columns are NOT NULL, and properties
`delta.constraints.<name>` are CHECK constraints of Delta tables. These are part of every answer; a constraint
of the same name that was put takes their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call, Page, PageRequest
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.names import missing_table
from floecat.errors import AlreadyExistsError, IllegalArgumentError, NotFoundError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.statistics.records import check_numbers
from floecat.statistics.snapshots import ALL, Snapshots, size_of
from floecat.store import page_tokens
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import ForeignKeyError, TransactionConflictError
from floecat.store.record_pages import fetch_records
from floecat.store.statistics.snapshot_records import CONSTRAINTS, RecordRow
from floecat.working_memory import take_memory

__all__ = [
    "Constraint",
    "ConstraintBundle",
    "ConstraintColumn",
    "ConstraintType",
    "Constraints",
    "ReferencedTable",
    "known_constraints",
]

_ID: Final = "constraints"
_CHECK_PREFIX: Final = "delta.constraints."
_MOST: Final = 1_000
"""Constraints of a bundle."""


class ConstraintType(Enum):
    """Kinds of constraints."""

    PRIMARY_KEY = "primary-key"
    FOREIGN_KEY = "foreign-key"
    UNIQUE = "unique"
    CHECK = "check"
    NOT_NULL = "not-null"


class MatchOption(Enum):
    """The foreign keys with nulls that match (SQL)."""

    NONE = "none"
    FULL = "full"
    PARTIAL = "partial"


class ActionRule(Enum):
    """The fate of rows whose key changes or goes (SQL)."""

    NO_ACTION = "no-action"
    RESTRICT = "restrict"
    CASCADE = "cascade"
    SET_NULL = "set-null"
    SET_DEFAULT = "set-default"


class ConstraintColumn(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """A column of a constraint: its field id, its full name, or both, and its place from 1."""

    column_id: int = 0
    column_name: str = ""
    ordinal: int = 0


class ReferencedTable(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A table by namespace and name."""

    namespace: tuple[str, ...]
    name: str


class Constraint(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True):
    """A constraint (`ConstraintDefinition` of the RPC contract).

    Attributes:
        name: unique in its bundle.
        type: its kind.
        columns: the constrained columns, of CHECK too.
        check_expression: SQL text of CHECK.
        referenced_table: of a foreign key; it has this or an id.
        referenced_table_id: the id of that table, in any catalog.
        referenced_columns: of a foreign key, as many as `columns`.
        referenced_constraint_name: the key that it refers to.
        match_option: of a foreign key.
        update_rule: of a foreign key.
        delete_rule: of a foreign key.
        enforced: whether whoever writes the table keeps it.
        properties: free.
    """

    name: str
    type: ConstraintType
    columns: tuple[ConstraintColumn, ...] = ()
    check_expression: str = ""
    referenced_table: ReferencedTable | None = None
    referenced_table_id: UUID | None = None
    referenced_columns: tuple[ConstraintColumn, ...] = ()
    referenced_constraint_name: str = ""
    match_option: MatchOption = MatchOption.NONE
    update_rule: ActionRule = ActionRule.NO_ACTION
    delete_rule: ActionRule = ActionRule.NO_ACTION
    enforced: bool = False
    properties: dict[str, str] = {}

    def check(self) -> None:
        """Checks that the constraint can be stored.

        Raises:
            IllegalArgumentError: it has no name, or lacks what its kind needs.
        """
        if not self.name.strip():
            raise IllegalArgumentError("Invalid constraint: the name is empty")
        problem = None
        if self.type is ConstraintType.CHECK:
            problem = None if self.check_expression else "check-expression is empty"
        elif not self.columns:
            problem = "columns are missing"
        elif self.type is ConstraintType.FOREIGN_KEY:
            if self.referenced_table is None and self.referenced_table_id is None:
                problem = "referenced-table is missing"
            elif self.referenced_columns and len(self.referenced_columns) != len(self.columns):
                problem = "referenced-columns are not as many as columns"
        columns = (*self.columns, *self.referenced_columns)
        if any(not (each.column_id or each.column_name) for each in columns):
            problem = "a column has neither column-id nor column-name"
        check_numbers(self, f"constraint {self.name}")
        if problem:
            raise IllegalArgumentError(f"Invalid constraint {self.name}: {problem}")


class ConstraintBundle(msgspec.Struct, frozen=True, rename="kebab"):
    """All constraints of a table in one snapshot."""

    constraints: tuple[Constraint, ...] = ()
    properties: dict[str, str] = {}

    def merged(self, others: ConstraintBundle) -> ConstraintBundle:
        """The bundle with those of another one, which replace those of the same names."""
        by_name = {each.name: each for each in (*self.constraints, *others.constraints)}
        return ConstraintBundle(tuple(by_name.values()), {**self.properties, **others.properties})


class SnapshotConstraints(msgspec.Struct, frozen=True, rename="kebab"):
    """A bundle with the snapshot that it belongs to."""

    snapshot_id: int
    constraints: tuple[Constraint, ...]
    properties: dict[str, str] = {}
    changed: bool = False
    """Whether the request changed anything."""


class Constraints:
    """Reads and changes bundles. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, keys: IdempotencyKeys, snapshots: Snapshots) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys
        self._snapshots = snapshots

    def get(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None = None
    ) -> SnapshotConstraints:
        """The bundle of a snapshot with the constraints that metadata has.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
        """
        found = self._snapshots.read(call, identifier, snapshot)
        with self._store.read() as conn:
            row = CONSTRAINTS.get(conn, found.entry_id, found.snapshot_id, _ID)
        take_memory(0 if row is None else len(row.body))
        stored = _bundle(row)
        known = known_constraints(found.entry.document.parsed(), found.snapshot_id)
        bundle = ConstraintBundle(tuple(known)).merged(stored)
        return SnapshotConstraints(found.snapshot_id, bundle.constraints, bundle.properties)

    def list(
        self, call: Call, identifier: TableIdentifier, page: PageRequest = ALL
    ) -> Page[SnapshotConstraints]:
        """The bundles that were put, in order of snapshot ids.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
        """
        entry = self._snapshots.table(call, identifier)
        scope = f"constraints {entry.row.id}"
        after = page_tokens.decode_as(page.token, scope, int) if page.token else 0
        entry_id = entry.row.id
        found = fetch_records(
            self._store,
            lambda conn, count: CONSTRAINTS.sizes_of_entry(conn, entry_id, after, count),
            lambda conn, count: CONSTRAINTS.of_entry(conn, entry_id, after, count),
            size_of(page),
        )
        bundles = [(row.snapshot_id, _decoder.decode(row.body)) for row in found.rows]
        token = page_tokens.encode(str(bundles[-1][0]), scope) if found.has_more and bundles else None
        return Page(
            [SnapshotConstraints(id, each.constraints, each.properties) for id, each in bundles], token
        )

    def put(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, bundle: ConstraintBundle
    ) -> SnapshotConstraints:
        """Replaces a bundle. For the errors of all changes see `merge`."""
        return self._change(call, identifier, snapshot, lambda _: bundle)

    def merge(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, bundle: ConstraintBundle
    ) -> SnapshotConstraints:
        """Adds constraints and properties, in place of those of the same names.

        Raises:
            ForbiddenError: the principal may not write the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
            IllegalArgumentError: a constraint is invalid, two have one name, or there are too many.
        """
        return self._change(call, identifier, snapshot, lambda stored: stored.merged(bundle))

    def append(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, bundle: ConstraintBundle
    ) -> SnapshotConstraints:
        """Adds constraints whose names are new.

        Raises:
            AlreadyExistsError: a name is taken.
            FloecatError: as `merge`.
        """

        def appended(stored: ConstraintBundle) -> ConstraintBundle:
            taken = {each.name for each in stored.constraints} & {each.name for each in bundle.constraints}
            if taken:
                raise AlreadyExistsError(f"Constraint already exists: {min(taken)}")
            return stored.merged(bundle)

        return self._change(call, identifier, snapshot, appended)

    def delete(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, name: str | None = None
    ) -> SnapshotConstraints:
        """Deletes the constraint of a name, or the whole bundle; of what metadata has nothing is deleted.

        Raises:
            NotFoundError: there is no constraint of this name.
            FloecatError: as `merge`.
        """

        def left(stored: ConstraintBundle) -> ConstraintBundle:
            if name is None:
                return ConstraintBundle()
            kept = tuple(each for each in stored.constraints if each.name != name)
            if len(kept) == len(stored.constraints):
                raise NotFoundError(f"Constraint does not exist: {name}")
            return ConstraintBundle(kept, stored.properties)

        return self._change(call, identifier, snapshot, left)

    def _change(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None,
        change: Callable[[ConstraintBundle], ConstraintBundle],
    ) -> SnapshotConstraints:
        def work(finish: Finish[SnapshotConstraints]) -> SnapshotConstraints:
            found = self._snapshots.write(call, identifier, snapshot)

            def apply(conn: Connection) -> SnapshotConstraints:
                seen = CONSTRAINTS.get(conn, found.entry_id, found.snapshot_id, _ID)
                stored = _bundle(seen)
                bundle = change(stored)
                _check(bundle)
                if bundle != stored:
                    row = _row(found.snapshot_id, bundle, self._clock.now_ms())
                    if not CONSTRAINTS.swap(conn, found.entry_id, row, seen):
                        raise TransactionConflictError("Another request changed the constraints first")
                answer = SnapshotConstraints(
                    found.snapshot_id, bundle.constraints, bundle.properties, bundle != stored
                )
                finish(conn, answer)
                return answer

            try:
                return self._store.run(apply)
            except ForeignKeyError:
                raise missing_table(identifier) from None

        needed = (Privilege.WRITE_TABLE, call.on_entry("table", identifier))
        return self._keys.run(call, JsonAnswer(SnapshotConstraints), work, needed)


def known_constraints(metadata: TableMetadata, snapshot_id: int) -> Iterator[Constraint]:
    """The constraints that the metadata of a table has, in the schema of a snapshot."""
    snapshot = metadata.snapshot(snapshot_id)
    schema_id = None if snapshot is None else snapshot.schema_id
    schema = next((each for each in metadata.schemas if each.schema_id == schema_id), metadata.current_schema)
    names = schema.names_by_id
    if schema.identifier_field_ids:
        ids = sorted(schema.identifier_field_ids)
        yield Constraint("identifier-fields", ConstraintType.PRIMARY_KEY, _columns(ids, names))
    for field in schema.struct.fields:
        if field.required:
            name = f"not-null-{names[field.id]}"
            yield Constraint(name, ConstraintType.NOT_NULL, _columns([field.id], names), enforced=True)
    for key, text in sorted(metadata.properties.items()):
        if key.startswith(_CHECK_PREFIX):
            named = key.removeprefix(_CHECK_PREFIX)
            yield Constraint(named, ConstraintType.CHECK, check_expression=text, enforced=True)


def _columns(ids: Sequence[int], names: dict[int, str]) -> tuple[ConstraintColumn, ...]:
    return tuple(ConstraintColumn(id, names[id], place) for place, id in enumerate(ids, 1))


def _check(bundle: ConstraintBundle) -> None:
    names = [each.name for each in bundle.constraints]
    if len(names) > _MOST:
        raise IllegalArgumentError(f"Too many constraints: a bundle has at most {_MOST:,}")
    if len(set(names)) < len(names):
        raise IllegalArgumentError("Invalid constraints: two have the same name")
    for constraint in bundle.constraints:
        constraint.check()


_decoder: Final = msgspec.json.Decoder(ConstraintBundle)


def _bundle(row: RecordRow | None) -> ConstraintBundle:
    return ConstraintBundle() if row is None else _decoder.decode(row.body)


def _row(snapshot_id: int, bundle: ConstraintBundle, now_ms: int) -> RecordRow:
    body = msgspec.json.encode(bundle)
    return RecordRow(snapshot_id, _ID, hashlib.sha256(body).hexdigest(), body, now_ms)
