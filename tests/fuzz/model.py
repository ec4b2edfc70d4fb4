"""The reference model: what a catalog is, in dictionaries.

Every method answers how the real one must answer, `(status, error type)`, and changes the model if it
succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

__all__ = ["DONE", "Model", "Name", "Outcome", "Table", "View", "table_of", "view_of"]

Levels: TypeAlias = tuple[str, ...]
Name: TypeAlias = tuple[Levels, str]
Outcome: TypeAlias = tuple[int, str]

DONE: Outcome = (200, "")
EMPTY: Outcome = (204, "")
NO_NAMESPACE: Outcome = (404, "NoSuchNamespaceException")
NO_TABLE: Outcome = (404, "NoSuchTableException")
NO_VIEW: Outcome = (404, "NoSuchViewException")
TAKEN: Outcome = (409, "AlreadyExistsException")
NOT_EMPTY: Outcome = (409, "NamespaceNotEmptyException")
REQUIREMENT_FAILED: Outcome = (409, "CommitFailedException")
BEING_PURGED: Outcome = (409, "ConflictException")


@dataclass(frozen=True)
class Table:
    """What clients rely on in a table's metadata."""

    uuid: str
    location: str
    properties: dict[str, str] = field(default_factory=dict)
    snapshots: tuple[tuple[int, int | None], ...] = ()
    """Ids and parents, in order of their sequence numbers."""
    refs: dict[str, tuple[str, int]] = field(default_factory=dict)
    columns: tuple[str, ...] = ("id",)

    @property
    def head(self) -> int | None:
        """The snapshot of main."""
        return self.refs["main"][1] if "main" in self.refs else None


@dataclass(frozen=True)
class View:
    """What clients rely on in a view's metadata."""

    uuid: str
    location: str
    properties: dict[str, str] = field(default_factory=dict)


def table_of(metadata: Any) -> Table:
    """The same of a metadata document."""
    snapshots = sorted(metadata.get("snapshots", []), key=lambda each: each["sequence-number"])
    schemas = {each["schema-id"]: each for each in metadata["schemas"]}
    current = metadata.get("current-snapshot-id")
    refs = {name: (ref["type"], ref["snapshot-id"]) for name, ref in metadata.get("refs", {}).items()}
    assert refs.get("main", ("branch", -1))[1] == (-1 if current is None else current)
    assert metadata["last-sequence-number"] == len(snapshots)
    return Table(
        metadata["table-uuid"],
        metadata["location"],
        metadata["properties"],
        tuple((each["snapshot-id"], each.get("parent-snapshot-id")) for each in snapshots),
        refs,
        tuple(each["name"] for each in schemas[metadata["current-schema-id"]]["fields"]),
    )


def view_of(metadata: Any) -> View:
    """The same of a view's document."""
    return View(metadata["view-uuid"], metadata["location"], metadata.get("properties", {}))


class Model:
    """A catalog."""

    def __init__(self) -> None:
        self.namespaces: dict[Levels, dict[str, str]] = {}
        self.tables: dict[Name, Table] = {}
        self.views: dict[Name, View] = {}
        self.files: dict[str, Table] = {}
        """Every table metadata file that was ever written, with what it says."""
        self.purged: set[str] = set()
        """UUIDs of tables whose files wait to be deleted."""

    def children(self, parent: Levels) -> list[Levels]:
        depth = len(parent)
        return [each for each in self.namespaces if each[:depth] == parent and len(each) == depth + 1]

    def create_namespace(self, namespace: Levels, properties: dict[str, str]) -> Outcome:
        if namespace in self.namespaces:
            return TAKEN
        for depth in range(1, len(namespace)):
            self.namespaces.setdefault(namespace[:depth], {})
        self.namespaces[namespace] = properties
        return DONE

    def drop_namespace(self, namespace: Levels) -> Outcome:
        if namespace not in self.namespaces:
            return NO_NAMESPACE
        inside = [name for name in (*self.tables, *self.views) if name[0] == namespace]
        if inside or self.children(namespace):
            return NOT_EMPTY
        del self.namespaces[namespace]
        return EMPTY

    def change_namespace(self, namespace: Levels, removals: list[str], updates: dict[str, str]) -> Outcome:
        if set(removals) & set(updates):
            return 422, "UnprocessableEntityException"
        if namespace not in self.namespaces:
            return NO_NAMESPACE
        kept = {key: value for key, value in self.namespaces[namespace].items() if key not in removals}
        self.namespaces[namespace] = kept | updates
        return DONE

    def may_create(self, name: Name) -> Outcome:
        """Whether a table or view can be made; the server gives it its identity."""
        if name[0] not in self.namespaces:
            return NO_NAMESPACE
        return TAKEN if name in self.tables or name in self.views else DONE

    def may_register(self, name: Name, location: str, *, overwrite: bool) -> Outcome:
        outcome = DONE if overwrite and name in self.tables else self.may_create(name)
        return BEING_PURGED if outcome == DONE and self.files[location].uuid in self.purged else outcome

    def may_commit(self, name: Name, holds: bool) -> Outcome:
        if name not in self.tables:
            return NO_TABLE
        return DONE if holds else REQUIREMENT_FAILED

    def drop_table(self, name: Name, *, purge: bool = False) -> Outcome:
        dropped = self.tables.pop(name, None)
        if dropped and purge:
            self.purged.add(dropped.uuid)
        return EMPTY if dropped else NO_TABLE

    def drop_view(self, name: Name) -> Outcome:
        return EMPTY if self.views.pop(name, None) else NO_VIEW

    def rename(self, kind: str, source: Name, destination: Name) -> Outcome:
        entries: dict[Name, Any] = self.tables if kind == "tables" else self.views
        if source not in entries:
            return NO_TABLE if kind == "tables" else NO_VIEW
        if source != destination:
            outcome = self.may_create(destination)
            if outcome != DONE:
                return outcome
            entries[destination] = entries.pop(source)
        return EMPTY

    def set_properties(self, name: Name, updates: dict[str, str], removals: list[str]) -> None:
        table = self.tables[name]
        kept = {key: value for key, value in table.properties.items() if key not in removals}
        self.tables[name] = replace(table, properties=kept | updates)

    def append(self, name: Name, snapshot_id: int) -> None:
        table = self.tables[name]
        self.tables[name] = replace(
            table,
            snapshots=(*table.snapshots, (snapshot_id, table.head)),
            refs=table.refs | {"main": ("branch", snapshot_id)},
        )

    def set_ref(self, name: Name, ref: str, kind: str, snapshot_id: int) -> None:
        table = self.tables[name]
        self.tables[name] = replace(table, refs=table.refs | {ref: (kind, snapshot_id)})

    def remove_ref(self, name: Name, ref: str) -> None:
        table = self.tables[name]
        refs = {each: value for each, value in table.refs.items() if each != ref}
        self.tables[name] = replace(table, refs=refs)

    def add_column(self, name: Name, column: str) -> None:
        table = self.tables[name]
        self.tables[name] = replace(table, columns=(*table.columns, column))
