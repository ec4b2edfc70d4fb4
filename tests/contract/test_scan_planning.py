"""Scan planning over HTTP (Iceberg REST specification, `planTableScan` and what belongs to it)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.delta import DV_TABLE, UNKNOWN_FEATURE, copy_in, register
from tests.contract.files import write_metadata
from tests.contract.lakes import FolderLake
from tests.contract.updates import set_location
from tests.scan_files import Appends, paths_of
from tests.services.catalog import CatalogServer

_PATIENCE_S = 120
LESS_THAN_20 = {"type": "lt", "term": "id", "value": 20}


class Scanned:
    """A table with files, and its routes."""

    def __init__(self, table: Table, *manifests: int) -> None:
        self.catalog, self.path = table.catalog, table.path
        self.files = Appends(table.metadata()["location"])
        if manifests:
            self.append(*manifests)

    def append(self, *manifests: int) -> None:
        answer = self.catalog.post(self.path, {"requirements": [], "updates": self.files.append(*manifests)})
        assert answer.status_code == 200, answer.text

    def ask(self, path: str, body: Any, **headers: str) -> Any:
        return self.catalog.post(f"{self.path}/{path}", body, headers=headers)

    def submit(self, body: Any = None, **headers: str) -> Any:
        answer = self.ask("plan", body or {}, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def plan(self, body: Any = None, **headers: str) -> Any:
        """A completed plan; on a busy machine any plan may take longer than a request."""
        answer = self.submit(body, **headers)
        if answer["status"] == "submitted":
            answer |= self.waited(answer["plan-id"])
        assert answer["status"] == "completed"
        return answer

    def result(self, plan_id: str) -> Any:
        return self.catalog.get(f"{self.path}/plan/{plan_id}")

    def waited(self, plan_id: str) -> Any:
        """The outcome of a plan that was submitted."""
        deadline = time.monotonic() + _PATIENCE_S
        while (answer := self.result(plan_id).json())["status"] == "submitted":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return answer

    def all_paths(self, answer: Any, **headers: str) -> list[str]:
        found = list(paths_of([answer]))
        for task in answer.get("plan-tasks", ()):
            fetched = self.ask("tasks", {"plan-task": task}, **headers)
            assert fetched.status_code == 200, fetched.text
            found += self.all_paths(fetched.json(), **headers)
        return found


@pytest.fixture
def scanned(local_catalog: Catalog, local_namespace: Namespace) -> Scanned:
    """A table of 300 files in 3 manifests."""
    return Scanned(local_catalog.create_table(local_namespace), 128, 100, 72)


def test_fields_of_the_answers(scanned: Scanned) -> None:
    answer = scanned.plan({"filter": LESS_THAN_20})
    assert set(answer) == {"status", "plan-id", "file-scan-tasks"}
    assert answer["status"] == "completed"
    assert set(answer["file-scan-tasks"][0]) == {"data-file", "residual-filter"}
    assert answer["file-scan-tasks"][0]["residual-filter"] == LESS_THAN_20
    again = scanned.result(answer["plan-id"])
    assert again.json() == {name: value for name, value in answer.items() if name != "plan-id"}
    large = scanned.plan()
    assert set(large) == {"status", "plan-id", "plan-tasks"}
    fetched = scanned.ask("tasks", {"plan-task": large["plan-tasks"][0]}).json()
    assert set(fetched) == {"file-scan-tasks"}
    assert scanned.all_paths(scanned.plan()) == scanned.files.paths


def test_both_spellings_and_bare_booleans(scanned: Scanned) -> None:
    reference = {"type": "reference", "name": "id"}
    spelled = {"type": "lt", "left": reference, "right": {"type": "literal", "value": 20}}
    assert scanned.plan({"filter": spelled})["file-scan-tasks"][0]["residual-filter"] == LESS_THAN_20
    assert scanned.plan({"filter": False})["file-scan-tasks"] == []
    assert len(scanned.plan({"filter": True})["plan-tasks"]) == 3
    assert len(scanned.plan({"filter": {"type": "true"}})["plan-tasks"]) == 3


def test_names_in_any_case(scanned: Scanned) -> None:
    filter = {"type": "lt", "term": "ID", "value": 20}
    assert_error(scanned.ask("plan", {"filter": filter}), 400, "BadRequestException")
    assert len(scanned.plan({"filter": filter, "case-sensitive": False})["file-scan-tasks"]) == 2


def test_statistics_that_are_asked_for(scanned: Scanned) -> None:
    [task, _] = scanned.plan({"filter": LESS_THAN_20, "stats-fields": ["id"]})["file-scan-tasks"]
    assert task["data-file"]["lower-bounds"] == {"keys": [1], "values": ["0000000000000000"]}
    assert task["data-file"]["value-counts"] == {"keys": [1], "values": [10]}
    [bare, _] = scanned.plan({"filter": LESS_THAN_20})["file-scan-tasks"]
    assert not {"lower-bounds", "value-counts"} & set(bare["data-file"])


def test_names_with_question_marks_and_hashes_are_names_of_files(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path
) -> None:
    """On the local disk. Beside it lies what is left when a client cuts the name, a table of its own."""
    cut = warehouse_folder / unique("cut")
    for name, folder in (("whole", Path(f"{cut}?a=b#c")), ("cut", cut)):
        document = local_catalog.create_table(local_namespace).metadata() | {"location": f"file://{folder}"}
        write_metadata(folder, document)
        location = f"file://{folder}/metadata/00000-made.metadata.json"
        body = {"name": name, "metadata-location": location}
        answer = local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/register", body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata-location"] == location
        table = Table(local_catalog, local_namespace, name, answer.json())
        found = Scanned(table, 3)
        assert table.get()["metadata-location"].startswith(f"file://{folder}/metadata/00001-")
        assert list(paths_of([found.plan()])) == [
            f"file://{folder}/data/{number}.parquet" for number in (0, 10, 20)
        ]
    answer = table.commit([set_location(f"file://{cut}?a=b#c")])
    assert_error(answer, 400, "BadRequestException")


def test_few_rows_need_few_files(scanned: Scanned) -> None:
    answer = scanned.plan({"min-rows-requested": 25, "filter": True})
    found = scanned.all_paths(answer)
    assert found == scanned.files.paths[: len(found)]
    assert 3 <= len(found) < 300


BAD_REQUESTS: list[Any] = [
    {"snapshot-id": 99},
    {"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 1},
    {"start-snapshot-id": 1},
    {"start-snapshot-id": 99, "end-snapshot-id": 1},
    {"filter": {"type": "lt", "term": "nothing", "value": 1}},
    {"filter": {"type": "lt", "term": "id", "value": "x"}},
    {"filter": {"type": "lt", "term": "id"}},
    {"filter": {"type": "and", "left": True}},
    {"filter": 7},
    {"select": "id"},
    {"select": [1]},
    {"stats-fields": ["nothing"]},
    {"snapshot-id": "1"},
    {"case-sensitive": "yes"},
    [],
]


ODD_SELECTS: list[list[str]] = [
    ["id", "_file", "_pos", "_spec_id", "_partition", "_partition.s"],
    ["nothing", "id", "id", "", "ID", "id.nothing"],
    [f"c{number}" for number in range(10_000)],
    ["x" * 1_000_000],
]


def test_select_chooses_no_files(scanned: Scanned) -> None:
    every = scanned.all_paths(scanned.plan())
    for select in ODD_SELECTS:
        assert scanned.all_paths(scanned.plan({"select": select})) == every


def test_bad_requests(scanned: Scanned) -> None:
    for body in BAD_REQUESTS:
        assert_error(scanned.ask("plan", body), 400, "BadRequestException")


def test_what_does_not_exist(scanned: Scanned, local_namespace: Namespace) -> None:
    table = "NoSuchTableException"
    nothing = f"{scanned.catalog.tables_path(local_namespace)}/nothing"
    assert_error(scanned.catalog.post(f"{nothing}/plan", {}), 404, table)
    assert_error(scanned.catalog.post(f"{nothing}/tasks", {"plan-task": "x"}), 404, "NoSuchPlanTaskException")
    for plan_id in (uuid.uuid4(), "x"):
        assert_error(scanned.result(str(plan_id)), 404, "NoSuchPlanIdException")
        answer = scanned.catalog.delete(f"{scanned.path}/plan/{plan_id}")
        assert_error(answer, 404, "NoSuchPlanIdException")
    for body in ({"plan-task": "x"}, {"plan-task": f"{uuid.uuid4()}-task-0"}):
        assert_error(scanned.ask("tasks", body), 404, "NoSuchPlanTaskException")
    assert_error(scanned.ask("tasks", {}), 400, "BadRequestException")


def test_cancelled(scanned: Scanned) -> None:
    answer = scanned.plan()
    path = f"{scanned.path}/plan/{answer['plan-id']}"
    for _ in range(2):
        assert scanned.catalog.delete(path).status_code == 204
    assert scanned.catalog.get(path).json() == {"status": "cancelled"}
    task = {"plan-task": answer["plan-tasks"][0]}
    assert_error(scanned.ask("tasks", task), 404, "NoSuchPlanTaskException")


def test_an_expired_snapshot_is_planned_no_more_and_its_tasks_go_on(scanned: Scanned) -> None:
    before = scanned.files.paths
    answer = scanned.plan({"snapshot-id": 1})
    scanned.append(5)
    gone = {"action": "remove-snapshots", "snapshot-ids": [1]}
    removed = scanned.catalog.post(scanned.path, {"requirements": [], "updates": [gone]})
    assert removed.status_code == 200
    for path in scanned.files.manifest_paths:
        path.unlink()
    assert scanned.all_paths(answer) == before
    assert_error(scanned.ask("plan", {"snapshot-id": 1}), 400, "BadRequestException")
    assert_error(scanned.ask("plan", {}), 404, "NotFoundException")


def test_the_conversation_of_duckdb(scanned: Scanned) -> None:
    """As its source has it: a key with each request, each task once, and bounds as hex."""

    def keyed() -> dict[str, str]:
        return {"idempotency-key": str(uuid.uuid4()), "x-iceberg-access-delegation": "vended-credentials"}

    request = {
        "snapshot-id": 1,
        "select": ["id"],
        "filter": {
            "type": "and",
            "left": {"type": "gt-eq", "term": "id", "value": 100},
            "right": LESS_THAN_20 | {"value": 2000},
        },
        "case-sensitive": False,
        "use-snapshot-schema": True,
        "stats-fields": ["id"],
        "min-rows-requested": 10**9,
    }
    headers = keyed()
    answer = scanned.plan(request, **headers)
    assert scanned.plan(request, **headers) == answer
    # a name that it has seen before fails its query
    assert len(set(answer["plan-tasks"])) == len(answer["plan-tasks"]) == 2
    found = []
    for task in answer["plan-tasks"]:
        headers = keyed()
        fetched = scanned.ask("tasks", {"plan-task": task}, **headers).json()
        assert scanned.ask("tasks", {"plan-task": task}, **headers).json() == fetched
        for each in fetched["file-scan-tasks"]:
            assert len(bytes.fromhex(each["data-file"]["lower-bounds"]["values"][0])) == 8
        assert "plan-tasks" not in fetched
        found += paths_of([fetched])
    assert found == scanned.files.paths[10:200]
    assert "storage-credentials" not in answer
    assert_error(
        scanned.ask("plan", {}, **{"idempotency-key": headers["idempotency-key"] * 9}),
        400,
        "BadRequestException",
    )


def test_duckdb_comes_again_after_the_time_that_it_is_told(
    start_catalog: Callable[..., CatalogServer], connect: Callable[[CatalogServer], Catalog]
) -> None:
    catalog = connect(start_catalog(FLOECAT_LIMITS_OPEN_QUERIES="1"))
    scanned = Scanned(catalog.create_table(catalog.create_namespace((unique("full"),))), 128, 100)
    open_plan = scanned.plan()
    refused = scanned.ask("plan", {}, **{"idempotency-key": (key := str(uuid.uuid4()))})
    assert "floecat.limits.open-queries" in assert_error(refused, 503, "ServiceUnavailableException")
    assert int(refused.headers["retry-after"]) >= 1
    assert scanned.all_paths(open_plan) == scanned.files.paths
    assert scanned.all_paths(scanned.plan(**{"idempotency-key": key})) == scanned.files.paths


def test_duckdb_plans_itself_after_a_406(
    local_catalog: Catalog, local_namespace: Namespace, local_lake: FolderLake
) -> None:
    location = copy_in(local_lake, UNKNOWN_FEATURE)
    register(local_catalog, local_namespace, "future", location).raise_for_status()
    answer = local_catalog.post(f"{local_catalog.tables_path(local_namespace)}/future/plan", {})
    assert "blahabl" in assert_error(answer, 406, "UnsupportedOperationException")


def test_the_spark_client_of_delta_means_the_current_snapshot_by_0(
    local_catalog: Catalog, local_namespace: Namespace, local_lake: FolderLake
) -> None:
    """Version 0 of a Delta table is a snapshot for every other client."""
    made = register(local_catalog, local_namespace, "d", copy_in(local_lake, DV_TABLE)).raise_for_status()
    scanned = Scanned(Table(local_catalog, local_namespace, "d", made))

    def deletes(**headers: str) -> int:
        return len(scanned.plan({"snapshot-id": 0}, **headers).get("delete-files", ()))

    assert deletes(**{"user-agent": "Delta/4.0.0 Spark/4.0.0 Java/17 Scala/2.13"}) == 1
    assert deletes() == 0


def test_a_plan_is_explained(scanned: Scanned, local_namespace: Namespace) -> None:
    name = scanned.path.rpartition("/")[2]
    namespace = "%1F".join(local_namespace)
    path = f"/management/v1/catalogs/{scanned.catalog.prefix}/namespaces/{namespace}/tables/{name}/plan"
    answer = scanned.catalog.http.post(path, json={"filter": "id >= 15 and id < 1500"})
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made["snapshot-id"] == 1
    assert (made["data-manifests"], made["files-in-manifests"], made["files-by-metrics"]) == (3, 300, 149)
    assert (made["rows"], made["size-bytes"]) == (1490, 149_000)
    assert made["residuals"] == [{"filter": "(id >= 15 and id < 1500)", "files": 149}]
    for body in ({"filter": "id >"}, {"filter": "nothing = 1"}, {"snapshot-id": 99}, {"filters": "x"}):
        assert_error(scanned.catalog.http.post(path, json=body), 400, "BadRequestException")


class TestMode:
    """Who plans: told in the configuration of tables and of the catalog."""

    def test_nothing_is_said_by_default(self, scanned: Scanned) -> None:
        assert "scan-planning-mode" not in scanned.catalog.config["overrides"]
        assert "scan-planning-mode" not in scanned.catalog.get(scanned.path).json()["config"]

    def test_a_table_says(self, local_catalog: Catalog, local_namespace: Namespace) -> None:
        for mode, told in (("Server", "server"), ("client", "client"), ("other", None)):
            table = local_catalog.create_table(local_namespace, properties={"scan-planning-mode": mode})
            for config in (table.created.json()["config"], local_catalog.get(table.path).json()["config"]):
                assert config.get("scan-planning-mode") == told
            # from memory
            assert local_catalog.get(table.path).json()["config"].get("scan-planning-mode") == told

    def test_the_service_says(
        self, start_catalog: Callable[..., CatalogServer], connect: Callable[[CatalogServer], Catalog]
    ) -> None:
        catalog = connect(start_catalog(FLOECAT_GATEWAY_SCAN_PLANNING_MODE="server"))
        assert catalog.config["overrides"]["scan-planning-mode"] == "server"
        namespace = catalog.create_namespace((unique("mode"),))
        told = catalog.create_table(namespace).created.json()["config"]
        own = catalog.create_table(namespace, properties={"scan-planning-mode": "client"}).created.json()
        assert told["scan-planning-mode"] == "server"
        assert own["config"]["scan-planning-mode"] == "client"

    def test_tables_with_row_lineage_are_left_to_clients(
        self, start_catalog: Callable[..., CatalogServer], connect: Callable[[CatalogServer], Catalog]
    ) -> None:
        """Unless they ask for it: a compaction from a plan would lose when a row was last changed."""
        catalog = connect(start_catalog(FLOECAT_GATEWAY_SCAN_PLANNING_MODE="server"))
        namespace = catalog.create_namespace((unique("mode"),))
        for mode, told in ((None, "client"), ("server", "server")):
            properties = {"format-version": "3"} | ({"scan-planning-mode": mode} if mode else {})
            table = catalog.create_table(namespace, properties=properties)
            answers = [table.created, catalog.get(table.path), catalog.get(table.path)]
            assert [each.json()["config"]["scan-planning-mode"] for each in answers] == [told] * 3
            plan = {"select": ["id", "_last_updated_sequence_number"]}
            refused = catalog.post(f"{table.path}/plan", plan)
            assert_error(refused, 406, "UnsupportedOperationException")
            assert catalog.post(f"{table.path}/plan", {"select": ["id", "_row_id"]}).is_success


class TestLongPlans:
    """Plans that are made after their request was answered."""

    @pytest.fixture
    def own(
        self, start_catalog: Callable[..., CatalogServer], connect: Callable[[CatalogServer], Catalog]
    ) -> tuple[CatalogServer, Scanned]:
        server = start_catalog(
            FLOECAT_GATEWAY_PLAN_SYNC_BUDGET="PT0S",
            FLOECAT_PLANNING_LEASE_MS="1000",
            FLOECAT_PLANNING_POLL_INTERVAL_MS="100",
        )
        catalog = connect(server)
        namespace = catalog.create_namespace((unique("long"),))
        return server, Scanned(catalog.create_table(namespace), *[64] * 40)

    def test_polled(self, own: tuple[CatalogServer, Scanned]) -> None:
        _, scanned = own
        answer = scanned.submit({"filter": {"type": "gt-eq", "term": "id", "value": 0}})
        assert set(answer) == {"status", "plan-id"}
        assert answer["status"] == "submitted"
        assert scanned.all_paths(scanned.waited(answer["plan-id"])) == scanned.files.paths

    def test_pyiceberg_waits(self, own: tuple[CatalogServer, Scanned]) -> None:
        _, scanned = own
        answer = scanned.submit(**{"user-agent": "PyIceberg/0.12.0"})
        assert scanned.all_paths(answer) == scanned.files.paths
        assert scanned.submit(**{"user-agent": "PyIceberg/0.13.0"})["status"] == "submitted"

    def test_a_failure_has_the_body_of_an_error(self, own: tuple[CatalogServer, Scanned]) -> None:
        _, scanned = own
        gone = scanned.files.manifest_paths[-1]
        gone.unlink()
        answer = scanned.waited(scanned.submit()["plan-id"])
        assert answer["status"] == "failed"
        assert (answer["error"]["type"], answer["error"]["code"]) == ("NotFoundException", 404)
        assert gone.name in answer["error"]["message"]

    def test_any_process_makes_it(
        self, start_catalog: Callable[..., CatalogServer], connect: Callable[[CatalogServer], Catalog]
    ) -> None:
        settings = {"FLOECAT_GATEWAY_PLAN_SYNC_BUDGET": "PT0S", "FLOECAT_PLANNING_POLL_INTERVAL_MS": "100"}
        asked = start_catalog(FLOECAT_PLANNING_WORKERS="0", **settings)
        catalog = connect(asked)
        table = catalog.create_table(catalog.create_namespace((unique("shared"),)))
        scanned = Scanned(table, 100, 100)
        plan_id = scanned.submit()["plan-id"]
        assert scanned.result(plan_id).json() == {"status": "submitted"}
        start_catalog(data_dir=asked.data_dir, **settings)
        assert scanned.all_paths(scanned.waited(plan_id)) == scanned.files.paths
