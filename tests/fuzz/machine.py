"""A state machine that does to a catalog whatever its clients may do, and knows what must come of it."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.fuzz.model import DONE, Model, Name, table_of, view_of
from tests.fuzz.service import Answer, InProcessService, entry_path, namespace_path
from tests.view_documents import view_version

__all__ = ["CatalogMachine"]

NAMESPACES = (("a",), ("ü%2F+",), ("a", "b c"))
NAMES = ("t", "t/1 .+%20", "日本")
KEYS = ("k", "l", "write.format.default")

# few names, so that requests meet what others made
namespaces = st.sampled_from(NAMESPACES)
names = st.sampled_from(NAMES)
identifiers = st.tuples(namespaces, names)
properties = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("1", "", "ß")), max_size=2)
removals = st.lists(st.sampled_from(KEYS), max_size=2, unique=True)
choice = st.integers(0, 1 << 30)

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
WRONG_UUID = {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}


class CatalogMachine(RuleBasedStateMachine):
    """Rules are requests. After each, the catalog is compared with the model as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="floecat-fuzz-"))
        self.service = InProcessService(self.folder)
        self.model = Model()
        self.snapshot_ids = 0
        self.columns = 0
        self.create_namespace_a()

    def teardown(self) -> None:
        try:
            self.service.reopen()
            self.catalog_is_the_model()
        finally:
            self.service.close()
            shutil.rmtree(self.folder)

    def create_namespace_a(self) -> None:
        """Most requests need one."""
        assert self.service.send("POST", "/namespaces", {"namespace": ["a"]}).outcome == DONE
        self.model.create_namespace(("a",), {})

    @rule(namespace=namespaces, given=properties)
    def create_namespace(self, namespace: tuple[str, ...], given: dict[str, str]) -> None:
        body = {"namespace": list(namespace), "properties": given}
        answer = self.service.send("POST", "/namespaces", body)
        assert answer.outcome == self.model.create_namespace(namespace, given)

    @rule(namespace=namespaces)
    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        answer = self.service.send("DELETE", namespace_path(namespace))
        assert answer.outcome == self.model.drop_namespace(namespace)

    @rule(namespace=namespaces, removed=removals, updated=properties)
    def change_namespace(
        self, namespace: tuple[str, ...], removed: list[str], updated: dict[str, str]
    ) -> None:
        before = self.model.namespaces.get(namespace, {})
        body = {"removals": removed, "updates": updated}
        answer = self.service.send("POST", f"{namespace_path(namespace)}/properties", body)
        assert answer.outcome == self.model.change_namespace(namespace, removed, updated)
        if answer.status == 200:
            assert sorted(answer.body["updated"]) == sorted(updated)
            assert sorted(answer.body["removed"]) == sorted(key for key in removed if key in before)
            assert sorted(answer.body["missing"] or []) == sorted(key for key in removed if key not in before)

    @rule(name=identifiers, given=properties, staged=st.booleans())
    def create_table(self, name: Name, given: dict[str, str], staged: bool) -> None:
        path = f"{namespace_path(name[0])}/tables"
        body = {"name": name[1], "schema": SCHEMA, "properties": given, "stage-create": staged}
        answer = self.service.send("POST", path, body)
        assert answer.outcome == self.model.may_create(name)
        if answer.status == 200 and staged:
            made = answer.body["metadata"]
            assert self.service.send("HEAD", entry_path("tables", *name)).status == 404
            completion = {"requirements": [{"type": "assert-create"}], "updates": creation_of(made)}
            answer = self.service.send("POST", entry_path("tables", *name), completion)
            assert answer.outcome == DONE
            assert table_of(answer.body["metadata"]) == table_of(made)
        if answer.status == 200:
            self.remember(name, answer)
            # the specification has new tables write zstd unless they say otherwise
            defaults = {"write.parquet.compression-codec": "zstd"}
            assert self.model.tables[name].properties == defaults | given

    @rule(name=identifiers, updated=properties, removed=removals, right=st.booleans(), keyed=st.booleans())
    def commit_properties(
        self, name: Name, updated: dict[str, str], removed: list[str], right: bool, keyed: bool
    ) -> None:
        removed = [key for key in removed if key not in updated]
        updates = [
            {"action": "remove-properties", "removals": removed},
            {"action": "set-properties", "updates": updated},
        ]
        table = self.model.tables.get(name)
        requirement = {"type": "assert-table-uuid", "uuid": table.uuid} if table and right else WRONG_UUID
        if self.commit(name, updates, requirement, right, keyed):
            self.model.set_properties(name, updated, removed)

    @rule(name=identifiers, stale=st.booleans(), keyed=st.booleans())
    def append(self, name: Name, stale: bool, keyed: bool) -> None:
        updates, requirement = self.appending(name, stale)
        if self.commit(name, updates, requirement, not stale, keyed):
            self.model.append(name, self.snapshot_ids)

    @rule(name=identifiers, which=choice, kind=st.sampled_from(("branch", "tag")))
    def set_ref(self, name: Name, which: int, kind: str) -> None:
        table = self.model.tables.get(name)
        if table is None or not table.snapshots:
            return
        snapshot_id = table.snapshots[which % len(table.snapshots)][0]
        update = {"action": "set-snapshot-ref", "ref-name": kind, "type": kind, "snapshot-id": snapshot_id}
        if self.commit(name, [update], None, True, False):
            self.model.set_ref(name, kind, kind, snapshot_id)

    @rule(name=identifiers, ref=st.sampled_from(("branch", "tag")))
    def remove_ref(self, name: Name, ref: str) -> None:
        if self.commit(name, [{"action": "remove-snapshot-ref", "ref-name": ref}], None, True, False):
            self.model.remove_ref(name, ref)

    @rule(name=identifiers, right=st.booleans())
    def add_column(self, name: Name, right: bool) -> None:
        table = self.model.tables.get(name)
        columns = table.columns if table else ("id",)
        self.columns += 1
        fields = [
            {"id": number, "name": column, "required": False, "type": "long"}
            for number, column in enumerate((*columns, f"c{self.columns}"), 1)
        ]
        updates = [
            {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        last = len(columns) if right else len(columns) + 7
        requirement = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": last}
        if self.commit(name, updates, requirement, right, False):
            self.model.add_column(name, f"c{self.columns}")

    @rule(name=identifiers, purge=st.booleans())
    def drop_table(self, name: Name, purge: bool) -> None:
        answer = self.service.send("DELETE", entry_path("tables", *name), purgeRequested=str(purge).lower())
        assert answer.outcome == self.model.drop_table(name, purge=purge)

    @rule(name=identifiers)
    def unregister(self, name: Name) -> None:
        held = self.model.tables.get(name)
        answer = self.service.send("POST", f"{entry_path('tables', *name)}/unregister")
        if answer.status == 200:
            assert table_of(answer.body["metadata"]) == held
            assert self.model.files[answer.body["metadata-location"]] == held
        expected = self.model.drop_table(name)
        assert answer.outcome == (DONE if held else expected)

    @rule(kind=st.sampled_from(("tables", "views")), source=identifiers, destination=identifiers)
    def rename(self, kind: str, source: Name, destination: Name) -> None:
        body = {
            side: {"namespace": list(name[0]), "name": name[1]}
            for side, name in (("source", source), ("destination", destination))
        }
        answer = self.service.send("POST", f"/{kind}/rename", body)
        assert answer.outcome == self.model.rename(kind, source, destination)

    @rule(name=identifiers, which=choice, overwrite=st.booleans())
    def register(self, name: Name, which: int, overwrite: bool) -> None:
        if not self.model.files:
            return
        location = sorted(self.model.files)[which % len(self.model.files)]
        body = {"name": name[1], "metadata-location": location, "overwrite": overwrite}
        answer = self.service.send("POST", f"{namespace_path(name[0])}/register", body)
        assert answer.outcome == self.model.may_register(name, location, overwrite=overwrite)
        if answer.status == 200:
            assert answer.body["metadata-location"] == location
            assert table_of(answer.body["metadata"]) == self.model.files[location]
            self.remember(name, answer)

    @rule(chosen=st.lists(identifiers, min_size=1, max_size=3), stale=st.integers(0, 4), keyed=st.booleans())
    def commit_transaction(self, chosen: list[Name], stale: int, keyed: bool) -> None:
        changes, expected, appended = [], set(), []
        for position, name in enumerate(chosen):
            updates, requirement = self.appending(name, position == stale)
            appended.append(self.snapshot_ids)
            identifier = {"namespace": list(name[0]), "name": name[1]}
            changes.append({"identifier": identifier, "requirements": [requirement], "updates": updates})
            expected.add(self.model.may_commit(name, position != stale))
        if len(set(chosen)) < len(chosen):
            expected = {(400, "BadRequestException")}
        expected -= {DONE} if len(expected) > 1 else set()
        answer = self.twice(keyed, "/transactions/commit", {"table-changes": changes})
        assert answer.outcome in {(204, "") if each == DONE else each for each in expected}
        if answer.status == 204:
            for name, snapshot_id in zip(chosen, appended, strict=True):
                self.model.append(name, snapshot_id)
                loaded = self.service.send("GET", entry_path("tables", *name))
                self.model.files[loaded.body["metadata-location"]] = self.model.tables[name]

    @rule(name=identifiers, given=properties)
    def create_view(self, name: Name, given: dict[str, str]) -> None:
        version = view_version(name[0], timestamp_ms=now_ms())
        body = {
            "name": name[1],
            "schema": SCHEMA | {"schema-id": 0},
            "view-version": version,
            "properties": given,
        }
        answer = self.service.send("POST", f"{namespace_path(name[0])}/views", body)
        assert answer.outcome == self.model.may_create(name)
        if answer.status == 200:
            self.model.views[name] = view_of(answer.body["metadata"])
            assert self.model.views[name].properties == given

    @rule(name=identifiers, updated=properties)
    def replace_view(self, name: Name, updated: dict[str, str]) -> None:
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": updated}]}
        answer = self.service.send("POST", entry_path("views", *name), body)
        view = self.model.views.get(name)
        assert answer.outcome == (DONE if view else (404, "NoSuchViewException"))
        if view:
            view.properties.update(updated)

    @rule(name=identifiers)
    def drop_view(self, name: Name) -> None:
        answer = self.service.send("DELETE", entry_path("views", *name))
        assert answer.outcome == self.model.drop_view(name)

    @rule()
    def restart(self) -> None:
        self.service.reopen()

    @invariant()
    def catalog_is_the_model(self) -> None:
        assert self.namespaces_below(()) == set(self.model.namespaces)
        tables, views = set(), set()
        for namespace, held in self.model.namespaces.items():
            path = namespace_path(namespace)
            properties = self.service.send("GET", path).body["properties"]
            assert properties.pop("location")  # the default one; the model sets none
            assert properties == held
            tables |= self.listed(f"{path}/tables")
            views |= self.listed(f"{path}/views")
        assert tables == set(self.model.tables)
        assert views == set(self.model.views)
        for name, table in self.model.tables.items():
            loaded = self.service.send("GET", entry_path("tables", *name)).body
            assert table_of(loaded["metadata"]) == table
            assert self.model.files[loaded["metadata-location"]] == table
        for name, view in self.model.views.items():
            assert view_of(self.service.send("GET", entry_path("views", *name)).body["metadata"]) == view

    def namespaces_below(self, parent: tuple[str, ...]) -> set[tuple[str, ...]]:
        """All namespaces, level by level."""
        params = {"parent": "\x1f".join(parent)} if parent else {}
        answer = self.service.send("GET", "/namespaces", **params)
        found = {tuple(levels) for levels in answer.body["namespaces"]}
        assert found == set(self.model.children(parent))
        return found.union(*(self.namespaces_below(child) for child in found))

    def listed(self, path: str) -> set[Name]:
        """A listing, page by page."""
        found: list[Name] = []
        token = ""
        while True:
            answer = self.service.send("GET", path, pageSize=2, pageToken=token)
            found += [(tuple(each["namespace"]), each["name"]) for each in answer.body["identifiers"]]
            token = answer.body.get("next-page-token")
            if not token:
                assert len(found) == len(set(found))
                return set(found)

    def commit(self, name: Name, updates: list[Any], requirement: Any, holds: bool, keyed: bool) -> bool:
        """Commits, and says whether the model must follow."""
        body = {"requirements": [requirement] if requirement else [], "updates": updates}
        answer = self.twice(keyed, entry_path("tables", *name), body)
        assert answer.outcome == self.model.may_commit(name, holds)
        if answer.status == 200:
            self.model.files[answer.body["metadata-location"]] = table_of(answer.body["metadata"])
        return answer.status == 200

    def twice(self, keyed: bool, path: str, body: Any) -> Answer:
        """Sends once, or twice under one idempotency key, which must not make a difference."""
        if not keyed:
            return self.service.send("POST", path, body)
        key = str(uuid.uuid4())
        answer = self.service.send("POST", path, body, key=key)
        assert self.service.send("POST", path, body, key=key) == answer
        return answer

    def appending(self, name: Name, stale: bool) -> tuple[list[Any], Any]:
        """The updates and the requirement of an append on main."""
        table = self.model.tables.get(name)
        self.snapshot_ids += 1
        head = table.head if table else None
        snapshot = {
            "snapshot-id": self.snapshot_ids,
            "sequence-number": len(table.snapshots) + 1 if table else 1,
            "timestamp-ms": now_ms(),
            "summary": {"operation": "append"},
            "manifest-list": f"file:///nowhere/snap-{self.snapshot_ids}.avro",
            "schema-id": 0,
        }
        if head is not None:
            snapshot["parent-snapshot-id"] = head
        updates = [
            {"action": "add-snapshot", "snapshot": snapshot},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": self.snapshot_ids,
            },
        ]
        expected = self.snapshot_ids + 1000 if stale else head
        return updates, {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": expected}

    def remember(self, name: Name, answer: Answer) -> None:
        """Takes over what the server decided."""
        table = table_of(answer.body["metadata"])
        self.model.tables[name] = self.model.files[answer.body["metadata-location"]] = table


def creation_of(metadata: Any) -> list[Any]:
    """The updates by which clients commit a table that they staged."""
    return [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": metadata["properties"]},
    ]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
