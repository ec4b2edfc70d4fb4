"""What Dagster calls tables follows their names: partitions, definitions, events of tables that are gone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from floecat.identifiers.namespace import TableIdentifier
from floecat_assets.defs.catalog import table_names
from floecat_assets.defs.catalog.table_names import table_names_sensor
from floecat_assets.defs.resources import KernelResource
from floecat_assets.table_keys import table_asset_key
from tests.orchestration.conftest import Follower, Lakehouse
from tests.services.http_server import QuietHandler, serving

DAY_MS = 86_400_000


class Sensor:
    """Evaluates the sensor, and does what the daemon does with the result."""

    def __init__(self, follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instance = follower.instance
        self.cursor: str | None = None
        self.later_ms = 0
        self._follower = follower
        now_ms = KernelResource.now_ms
        monkeypatch.setattr(KernelResource, "now_ms", lambda kernel: now_ms(kernel) + self.later_ms)

    def tick(self) -> tuple[str, list[Any]]:
        """Its message and its events."""
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"kernel": KernelResource()}
        ) as context:
            result = table_names_sensor(context)
        assert isinstance(result, dg.SensorResult)
        self._follower.store_events(result)
        self._follower.store_partitions(result)
        self.cursor = result.cursor
        assert isinstance(result.skip_reason, dg.SkipReason)
        return str(result.skip_reason.skip_message), list(result.asset_events)

    def partitions(self, name: str) -> list[str]:
        return sorted(self.instance.get_dynamic_partitions(name))


@pytest.fixture
def sensor(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> Sensor:
    return Sensor(follower, monkeypatch)


@pytest.fixture
def reloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a web server of Dagster was asked to load. It has assets unless the list ends with `none`."""
    asked: list[Any] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["query"]
            if "reloadRepositoryLocation" in query:
                asked.append("tables" if '"tables"' in query else query)
                answer = {"__typename": "WorkspaceLocationEntry", "locationOrLoadError": {}}
            else:
                groups = [] if asked[-1:] == ["none"] else [{"groupName": "floecat/sales"}]
                answer = {"__typename": "Repository", "assetGroups": groups}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"answer": answer}}).encode())

    with serving(Handler) as url:
        monkeypatch.setenv("FLOECAT_PIPELINE_WEBSERVER_URL", url)
        yield asked


def key_of(table: TableIdentifier) -> dg.AssetKey:
    return table_asset_key("floecat", table)


def test_keys_of_earlier_releases_are_replaced(lakehouse: Lakehouse, sensor: Sensor) -> None:
    orders = lakehouse.create("orders")
    delta = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    ids = [lakehouse.entry_id(table) for table in (orders, delta)]
    former = f"floecat.sales.orders~{ids[0]}"
    sensor.instance.add_dynamic_partitions("tables", [former, ids[1], str(uuid.uuid4()), "by hand"])
    captured = dg.AssetKey(["statistics", "targets"])
    for version in ("1", "2"):
        sensor.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                captured, partition=former, metadata={"n": version}, tags={"dagster/data_version": version}
            )
        )
    _, (moved,) = sensor.tick()
    assert (moved.asset_key, moved.partition) == (captured, lakehouse.partition(orders))
    assert (moved.metadata["n"].value, moved.tags) == ("2", {"dagster/data_version": "2"})
    wanted = sorted(lakehouse.partition(table) for table in (orders, delta))
    assert sensor.partitions("tables") == ["by hand", *wanted]
    assert sensor.partitions("delta_tables") == [lakehouse.partition(delta)]
    bookings = orders._replace(name="bookings")
    lakehouse.kernel.catalog.tables.rename(lakehouse.call(), orders, bookings)
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), delta)
    sensor.tick()
    assert sensor.partitions("tables") == ["by hand", lakehouse.partition(bookings)]
    assert sensor.partitions("delta_tables") == []


def test_definitions_are_loaded_again_when_names_changed_and_rest(
    lakehouse: Lakehouse, sensor: Sensor, reloads: list[Any]
) -> None:
    sensor.tick()
    assert reloads == []  # no tables are defined, and there are none
    orders = lakehouse.create("orders")
    assert "loaded" not in sensor.tick()[0]
    message, (counts,) = sensor.tick()
    assert "; the code location tables was loaded again" in message
    assert {key: item.value for key, item in counts.metadata.items()} == {
        "floecat/tables": 1,
        "floecat/delta_tables": 0,
        "floecat/views": 0,
    }
    assert (counts.asset_key.path, counts.partition) == (["catalog", "tables"], None)
    assert reloads == ["tables"]
    lakehouse.append(orders, "1")
    sensor.later_ms = DAY_MS
    sensor.tick()
    sensor.tick()
    assert len(reloads) == 1  # a commit changes no name
    reloads.append("none")  # the store was away while the web server started
    sensor.tick()
    assert reloads == ["tables", "none", "tables"]


def test_definitions_are_not_loaded_too_often_nor_put_off_for_ever(
    lakehouse: Lakehouse, sensor: Sensor, reloads: list[Any]
) -> None:
    lakehouse.create("orders")
    sensor.tick()
    sensor.tick()
    loaded_at_s = []
    for step in range(30):  # each tick sees another new table
        lakehouse.create(f"t{step}")
        sensor.later_ms += 30_000
        sensor.tick()
        if len(reloads) > 1 + len(loaded_at_s):
            loaded_at_s.append((step + 1) * 30)
    assert loaded_at_s == [600]
    sensor.later_ms += 300_000
    sensor.tick()
    assert len(reloads) == 3


def test_without_a_web_server_it_says_what_to_do(
    lakehouse: Lakehouse, sensor: Sensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse.create("orders")
    sensor.tick()
    message, events = sensor.tick()
    assert "reload the code location tables, or set floecat.pipeline.webserver-url" in message
    assert events == []
    assert "names changed" not in sensor.tick()[0]
    monkeypatch.setenv("FLOECAT_PIPELINE_WEBSERVER_URL", "http://127.0.0.1:9")
    lakehouse.create("more")
    sensor.tick()
    assert "the web server at http://127.0.0.1:9 is not up" in sensor.tick()[0]
    with serving(QuietHandler) as url:
        monkeypatch.setenv("FLOECAT_PIPELINE_WEBSERVER_URL", url)
        assert "the code location tables was not loaded again: HTTPError: HTTP Error 501" in sensor.tick()[0]


def test_the_dead_are_wiped_after_a_while(
    lakehouse: Lakehouse, follower: Follower, sensor: Sensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [lakehouse.create(name) for name in ("dropped", "again", "renamed", "alive", "unregistered")]
    dropped, again, renamed, alive, unregistered = tables
    theirs = dg.AssetKey(["their", "own", "asset"])
    sensor.instance.report_runless_asset_event(dg.AssetMaterialization(theirs))
    follower.tick()
    service = lakehouse.kernel.catalog.tables
    for table in (dropped, again):
        service.drop(lakehouse.call(), table)
    service.unregister(lakehouse.call(), unregistered)
    lakehouse.create("again")
    service.rename(lakehouse.call(), renamed, renamed._replace(name="new_name"))
    follower.tick()
    ended = sensor.instance.report_runless_asset_event
    ended(
        dg.AssetObservation(key_of(dropped), metadata={"floecat/table_id": "x"})
    )  # of a run that ended later

    known = set(sensor.instance.get_asset_keys())
    sensor.later_ms = 6 * DAY_MS
    sensor.tick()
    assert set(sensor.instance.get_asset_keys()) == known
    monkeypatch.setattr(table_names, "WIPES_PER_TICK", 2)
    sensor.later_ms = 8 * DAY_MS
    for _ in range(3):
        sensor.tick()
    assert set(sensor.instance.get_asset_keys()) == known - {
        key_of(each) for each in (dropped, renamed, unregistered)
    }
    assert {key_of(alive), key_of(again), theirs} <= known


def test_a_table_whose_end_was_not_reported_is_not_wiped(
    lakehouse: Lakehouse, follower: Follower, sensor: Sensor
) -> None:
    table = lakehouse.create("orders")
    follower.tick()
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table)
    sensor.later_ms = 30 * DAY_MS
    sensor.tick()
    assert key_of(table) in sensor.instance.get_asset_keys()
