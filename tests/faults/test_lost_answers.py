"""The connection to PostgreSQL is cut in a change: before COMMIT gets there, or after it was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.answers import Answer, Sender
from tests.faults.consistency import check_consistency, local_path
from tests.faults.deployment import Deployment
from tests.faults.requests import appending, creating, setting, table_path, transaction, unique_key
from tests.services.cut import COMMIT_ANSWER, COMMIT_REQUEST, CutProxy
from tests.view_documents import view_version

WRITTEN = {"create": 1, "commit": 1, "transaction": 2, "view": 1}
"""How many metadata files a change writes, for those that write any."""

CHANGES = (
    *WRITTEN,
    "register",
    "drop",
    "purge",
    "rename",
    "unregister",
    "rename view",
    "drop view",
    "namespace",
    "properties",
    "drop namespace",
)


class Bench(NamedTuple):
    """A service behind a proxy.

    It has the tables `t` and `u`, the view `v`, the empty namespace `spare` and the file of a dropped table.
    """

    sender: Sender
    proxy: CutProxy
    deployment: Deployment
    metadata_file: str

    def change(self, kind: str, key: str | None = None) -> Answer:
        """One change; the same one each time."""
        send = self.sender.send
        match kind:
            case "create":
                return send("POST", "/namespaces/ns/tables", creating("made"), key=key)
            case "commit":
                return send("POST", table_path("t"), setting({"mark": "1"}), key=key)
            case "transaction":
                body = transaction({name: setting({"mark": "1"}) for name in ("t", "u")})
                return send("POST", "/transactions/commit", body, key=key)
            case "register":
                body = {"name": "made", "metadata-location": self.metadata_file}
                return send("POST", "/namespaces/ns/register", body, key=key)
            case "view":
                return send("POST", "/namespaces/ns/views", creating_view("made"), key=key)
            case "drop":
                return send("DELETE", table_path("t"), key=key)
            case "purge":
                return send("DELETE", table_path("t"), key=key, purgeRequested="true")
            case "rename":
                return send("POST", "/tables/rename", renaming("t", "made"), key=key)
            case "rename view":
                return send("POST", "/views/rename", renaming("v", "made"), key=key)
            case "drop view":
                return send("DELETE", "/namespaces/ns/views/v", key=key)
            case "drop namespace":
                return send("DELETE", "/namespaces/spare", key=key)
            case "namespace":
                return send("POST", "/namespaces", {"namespace": ["made"]}, key=key)
            case "properties":
                return send("POST", "/namespaces/ns/properties", {"updates": {"mark": "1"}}, key=key)
            case "unregister":
                return send("POST", f"{table_path('t')}/unregister", key=key)
        raise AssertionError(kind)

    def is_made(self, kind: str) -> bool:
        """Whether the change is there, as a whole."""
        match kind:
            case "create" | "register":
                return self.sender.send("HEAD", table_path("made")).status == 204
            case "view":
                return self.sender.send("HEAD", "/namespaces/ns/views/made").status == 204
            case "commit":
                return "mark" in self.sender.metadata(table_path("t"))["properties"]
            case "transaction":
                marks = {
                    "mark" in self.sender.metadata(table_path(name))["properties"] for name in ("t", "u")
                }
                assert len(marks) == 1, "half a transaction"
                return marks.pop()
            case "drop" | "purge" | "unregister":
                return self.sender.send("HEAD", table_path("t")).status == 404
            case "rename":
                return self._has_moved(table_path("t"), table_path("made"))
            case "rename view":
                return self._has_moved("/namespaces/ns/views/v", "/namespaces/ns/views/made")
            case "drop view":
                return self.sender.send("HEAD", "/namespaces/ns/views/v").status == 404
            case "drop namespace":
                return self.sender.send("HEAD", "/namespaces/spare").status == 404
            case "namespace":
                return self.sender.send("HEAD", "/namespaces/made").status == 204
            case "properties":
                return "mark" in self.sender.send("GET", "/namespaces/ns").body["properties"]
        raise AssertionError(kind)

    def _has_moved(self, source: str, destination: str) -> bool:
        statuses = [self.sender.send("HEAD", path).status for path in (source, destination)]
        assert sorted(str(status) for status in statuses) == ["204", "404"]
        return statuses[0] == 404


def creating_view(name: str) -> Any:
    """A `CreateViewRequest`."""
    return {
        "name": name,
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "properties": {},
        "view-version": view_version(),
    }


def renaming(source: str, destination: str) -> Any:
    """A `RenameTableRequest` within `ns`."""
    names = {"source": source, "destination": destination}
    return {side: {"namespace": ["ns"], "name": name} for side, name in names.items()}


@pytest.fixture
def bench(behind_proxy: Deployment, postgres_proxy: CutProxy) -> Bench:
    # the looks for a lost COMMIT are over soon: connections that were cut come back at once
    environment = {
        "FLOECAT_PURGE_ENABLED": "false",
        "FLOECAT_GATEWAY_COMMIT_CONFIRM_INITIAL_SLEEP_MS": "2",
        "FLOECAT_GATEWAY_COMMIT_CONFIRM_MAX_SLEEP_MS": "20",
    }
    sender = Sender(behind_proxy.start(**environment).base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    for name in ("t", "u"):
        assert sender.send("POST", "/namespaces/ns/tables", creating(name)).status == 200
    assert sender.send("POST", "/namespaces/ns/views", creating_view("v")).status == 200
    assert sender.send("POST", "/namespaces", {"namespace": ["spare"]}).status == 200
    made = sender.send("POST", "/namespaces/ns/tables", creating("gone"))
    assert sender.send("DELETE", table_path("gone")).status == 204
    return Bench(sender, postgres_proxy, behind_proxy, made.body["metadata-location"])


def reset(bench: Bench, kind: str) -> None:
    """Takes a change back, so that it can be made once more."""
    send = bench.sender.send
    if not bench.is_made(kind):
        return
    match kind:
        case "create" | "register":
            assert send("DELETE", table_path("made")).status == 204
        case "view":
            assert send("DELETE", "/namespaces/ns/views/made").status == 204
        case "commit" | "transaction":
            removal = {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["mark"]}]}
            for name in ("t", "u"):
                assert send("POST", table_path(name), removal).status == 200
        case "drop" | "purge" | "unregister":
            assert send("POST", "/namespaces/ns/tables", creating("t")).status == 200
        case "rename":
            assert send("POST", "/tables/rename", renaming("made", "t")).status == 204
        case "rename view":
            assert send("POST", "/views/rename", renaming("made", "v")).status == 204
        case "drop view":
            assert send("POST", "/namespaces/ns/views", creating_view("v")).status == 200
        case "drop namespace":
            assert send("POST", "/namespaces", {"namespace": ["spare"]}).status == 200
        case "namespace":
            assert send("DELETE", "/namespaces/made").status == 204
        case "properties":
            assert send("POST", "/namespaces/ns/properties", {"removals": ["mark"]}).status == 200


def test_a_change_whose_answer_is_lost_is_confirmed(bench: Bench) -> None:
    for number, kind in enumerate(CHANGES, 1):
        bench.proxy.cut(COMMIT_ANSWER)
        answer = bench.change(kind)
        assert bench.proxy.happened == number, kind
        assert answer.fate == "done", (kind, answer)
        assert bench.is_made(kind), kind
        check_consistency(bench.deployment.store_url)
        reset(bench, kind)


def test_a_change_that_never_arrived_is_unknown_and_keeps_its_files(bench: Bench) -> None:
    for number, kind in enumerate(CHANGES, 1):
        before = metadata_files(bench)
        bench.proxy.cut(COMMIT_REQUEST)
        answer = bench.change(kind)
        assert bench.proxy.happened == number, kind
        assert answer.status == 500, (kind, answer)
        assert answer.error_type == "CommitStateUnknownException"
        assert not bench.is_made(kind), kind
        assert len(metadata_files(bench) - before) == WRITTEN.get(kind, 0), kind
        check_consistency(bench.deployment.store_url)
        assert bench.change(kind).fate == "done", kind
        reset(bench, kind)


@pytest.mark.parametrize("moment", [COMMIT_ANSWER, COMMIT_REQUEST], ids=["answer", "request"])
@pytest.mark.parametrize("nth", [1, 2], ids=["claim", "change"])
def test_a_retry_with_its_key_has_one_effect_wherever_the_connection_is_cut(
    bench: Bench, moment: object, nth: int
) -> None:
    for kind in CHANGES:
        key = unique_key()
        bench.proxy.cut(moment, nth=nth)  # type: ignore[arg-type]
        first = bench.change(kind, key)
        assert first.fate != "refused", (kind, first)
        answers = [bench.change(kind, key) for _ in range(2)]
        assert [answer.fate for answer in answers] == ["done", "done"], (kind, answers)
        assert answers[0] == answers[1]
        if first.fate == "done":
            assert first == answers[0]
        assert bench.is_made(kind)
        check_consistency(bench.deployment.store_url)
        bench.proxy.restore()
        reset(bench, kind)


def test_an_append_is_there_once_after_retries_under_cuts(bench: Bench) -> None:
    for number in range(1, 13):
        body = appending(number, bench.sender.metadata(table_path("t")))
        bench.proxy.cut((COMMIT_ANSWER, COMMIT_REQUEST)[number % 2], nth=1 + number % 3)
        key = unique_key()
        answers = [bench.sender.send("POST", table_path("t"), body, key=key) for _ in range(3)]
        assert answers[-1].fate == "done", answers
        bench.proxy.restore()
    snapshots = bench.sender.metadata(table_path("t"))["snapshots"]
    assert [each["snapshot-id"] for each in snapshots] == list(range(1, 13))
    check_consistency(bench.deployment.store_url)


def metadata_files(bench: Bench) -> set[Path]:
    """All metadata files of the warehouse."""
    return set(local_path(f"file://{bench.deployment.data_dir}/warehouse").rglob("*.metadata.json"))
