"""Below a storage authority no file of another table is read for a table that names it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.errors import BadRequestError, UnavailableError
from floecat.fileio.base import FileIO
from floecat.iceberg.manifests.lists import write_manifest_list
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.settings import PlanningSettings
from tests.behaviour.catalog.changes import change, set_property, table
from tests.behaviour.catalog.lakes import Lakes, opened
from tests.behaviour.catalog.test_costs import cost_of
from tests.scan_files import Appends, paths_of
from tests.services.s3 import S3Server

REFUSAL = r"names files in a folder of another table .*floecat\.storage\.overlapping-locations"
PATIENT, HURRIED = PlanClient(60_000), PlanClient(0)


class BucketAppends(Appends):
    """Appends in a bucket, whose data files may lie beside the table."""

    def __init__(self, files: FileIO, location: str, data: str | None = None) -> None:
        super().__init__(location)
        self._files_io = files
        self._data = data or f"{location}/data"

    def _path(self, number: int) -> str:
        return f"{self._data}/{number * 10}.parquet"

    def _write(self, location: str, data: bytes) -> None:
        self._files_io.write_new(location, data)


class Neighbours:
    """A table `t` with files, and one of somebody else, `mine`, in the same bucket."""

    def __init__(self, lakes: Lakes, *, theirs: str = "theirs/t") -> None:
        self.lakes = lakes
        self.lists = 0
        self.files = lakes.call.catalog.storage.files(lakes.at("x"))
        self.appends = self._made("t", theirs)
        self.commit("t", self.appends.append(3))
        self.planned = self.plan("t")
        assert len(self.planned) == 3
        self.mine = self._made("mine", "mine/t")

    def _made(self, name: str, folder: str) -> BucketAppends:
        self.lakes.create(name, folder)
        return BucketAppends(self.files, self.lakes.at(folder))

    def commit(self, name: str, updates: list[dict[str, Any]]) -> None:
        self.lakes.kernel.commits.tables.commit(self.lakes.call, change(name, updates))

    def commit_list(self, manifest_list: str) -> None:
        """Commits a snapshot of `mine` that names a list."""
        self.lists += 1
        snapshot = {
            "snapshot-id": 100 + self.lists,
            "sequence-number": 100 + self.lists,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "summary": {"operation": "append"},
            "manifest-list": manifest_list,
            "schema-id": 0,
        }
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot["snapshot-id"]}
        add = {"action": "add-snapshot", "snapshot": snapshot}
        self.commit("mine", [add, {"action": "set-snapshot-ref", **ref}])

    def list_of(self, *manifests: BucketAppends, folder: str = "mine/t") -> str:
        """A list in the folder of `mine` that names manifests of others."""
        path = self.lakes.at(f"{folder}/metadata/snap-of-others.avro")
        listed = [each for appends in manifests for each in appends.manifests]
        data = write_manifest_list(
            listed, snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=2
        )
        self.files.write_new(path, data)
        return path

    def plan(self, name: str = "mine", client: PlanClient = PATIENT) -> list[str]:
        answer = self.lakes.kernel.planning.plans.plan(self.lakes.call, table(name), PlanTableScan(), client)
        assert answer.status == "completed"
        return list(paths_of([json.loads(b"{" + (answer.fields or b"") + b"}")]))

    def is_refused(self, name: str = "mine") -> None:
        """Whether plans and explanations of a table are refused, and those of the neighbour are as before."""
        explain = self.lakes.kernel.planning.explanations.explain
        for ask in (partial(self.plan, name), lambda: explain(self.lakes.call, table(name))):
            with pytest.raises(BadRequestError, match=REFUSAL) as refused:
                ask()
            assert "theirs" not in str(refused.value)
        assert self.plan("t") == self.planned


@pytest.fixture
def neighbours(lakes: Lakes) -> Neighbours:
    return Neighbours(lakes)


def of_list(found: Neighbours) -> None:
    found.commit_list(found.lakes.at("theirs/t/metadata/snap-1.avro"))


def of_list_that_is_not_there(found: Neighbours) -> None:
    found.commit_list(found.lakes.at("theirs/t/metadata/guessed.avro"))


def of_list_spelled_otherwise(found: Neighbours) -> None:
    found.commit_list(found.lakes.at("theirs/t/metadata/snap-1.avro").replace("s3://", "S3A://"))


def of_manifest(found: Neighbours) -> None:
    found.commit_list(found.list_of(found.appends))


def of_manifest_behind_own(found: Neighbours) -> None:
    found.mine.append(2)
    found.commit_list(found.list_of(found.mine, found.appends))


WAYS = [
    of_list, of_list_that_is_not_there, of_list_spelled_otherwise, of_manifest, of_manifest_behind_own
]  # fmt: skip


@pytest.mark.parametrize("borrow", WAYS)
def test_files_of_another_table_are_not_planned(
    neighbours: Neighbours, borrow: Callable[[Neighbours], None]
) -> None:
    neighbours.lakes.authority()
    borrow(neighbours)
    neighbours.is_refused()


@pytest.mark.parametrize("borrow", WAYS)
def test_nor_in_another_process(
    store_url: str,
    s3_server: S3Server,
    s3_bucket: str,
    tmp_path: Path,
    borrow: Callable[[Neighbours], None],
) -> None:
    kernel = opened(
        store_url, s3_server, tmp_path, planning=PlanningSettings(processes=1, in_process_bytes=0)
    )
    neighbours = Neighbours(Lakes(kernel, s3_bucket))
    neighbours.lakes.authority()
    borrow(neighbours)
    neighbours.is_refused()
    kernel.close()


def test_nor_where_they_are_in_memory_from_before(neighbours: Neighbours) -> None:
    of_manifest(neighbours)
    assert neighbours.plan() == neighbours.planned  # nobody makes keys there
    neighbours.lakes.authority("/elsewhere")
    assert neighbours.plan() == neighbours.planned
    neighbours.lakes.authority("/theirs")
    neighbours.is_refused()


def test_nor_for_a_document_that_is_registered(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    lakes.authority()
    loaded = lakes.kernel.catalog.tables.load(lakes.call, table("t"))
    document = json.loads(loaded.metadata) | {"location": lakes.at("mine/copy")}
    place = lakes.at("mine/copy/metadata/00000-x.metadata.json")
    neighbours.files.write_new(place, json.dumps(document).encode())
    lakes.kernel.commits.registration.register_table(lakes.call, ("ns",), "copy", place)
    neighbours.is_refused("copy")


def test_nor_by_a_job(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    of_manifest(neighbours)
    plans = lakes.kernel.planning.plans
    submitted = plans.plan(lakes.call, table("mine"), PlanTableScan(), HURRIED)
    assert submitted.status == "submitted"
    lakes.authority()
    lakes.kernel.planning.queue.drain_once()
    found = plans.result(lakes.call, table("mine"), submitted.plan_id)
    assert found.status == "failed"
    assert "in a folder of another table" in str(found.error)


def test_nor_of_another_account(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    other = lakes.kernel.access.accounts.create("other").id
    theirs = lakes.catalog("theirs", other)
    lakes.create("s", "secret/s", theirs)
    strange = BucketAppends(neighbours.files, lakes.at("secret/s"))
    lakes.kernel.commits.tables.commit(theirs, change("s", strange.append(1)))
    neighbours.commit_list(lakes.at("secret/s/metadata/snap-1.avro"))
    assert neighbours.plan() == strange.paths  # neither has an authority
    lakes.authority(account=other)
    with pytest.raises(BadRequestError, match=REFUSAL):
        neighbours.plan()


def test_own_files_are_planned_wherever_they_are(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    lakes.authority()
    mine = neighbours.mine
    neighbours.commit("mine", mine.append(2))
    assert neighbours.plan() == mine.paths
    lakes.kernel.commits.tables.commit(
        lakes.call, set_property("mine", "write.metadata.path", lakes.at("names/mine"))
    )
    neighbours.commit_list(neighbours.list_of(mine, folder="names/mine"))
    assert neighbours.plan() == mine.paths
    # a place of nobody
    neighbours.commit_list(neighbours.list_of(mine, folder="landing"))
    assert neighbours.plan() == mine.paths


def test_a_table_that_lies_in_another_one_reads_its_own_folder(lakes: Lakes) -> None:
    neighbours = Neighbours(lakes, theirs="mine/t/inner")
    neighbours.commit("mine", neighbours.mine.append(2))
    lakes.authority()
    assert neighbours.plan() == neighbours.mine.paths
    assert neighbours.plan("t") == neighbours.planned
    assert lakes.is_outer("mine")


def test_the_setting_allows_them(store_url: str, s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    kernel = opened(store_url, s3_server, tmp_path, overlapping_locations="allow")
    neighbours = Neighbours(Lakes(kernel, s3_bucket))
    neighbours.lakes.authority()
    of_manifest(neighbours)
    assert neighbours.plan() == neighbours.planned
    kernel.close()


def test_what_the_rule_costs(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    neighbours.commit("mine", neighbours.mine.append(2))
    before = cost_of(lakes.kernel, neighbours.plan).statements
    lakes.authority()
    assert cost_of(lakes.kernel, neighbours.plan).statements == before
    # files that lie elsewhere take one statement, however many they are
    elsewhere = BucketAppends(neighbours.files, lakes.at("landing"))
    neighbours.commit_list(elsewhere.append(1, 2)[0]["snapshot"]["manifest-list"])
    assert cost_of(lakes.kernel, neighbours.plan).statements == before + 1


class WrittenBucketAppends(BucketAppends):
    """The same with the data files."""

    def _file_size(self, number: int) -> int:
        out = BytesIO()
        schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
        pq.write_table(pa.table([list(range(number * 10, number * 10 + 10))], schema=schema), out)
        if f"{self.location}/data" == self._data:
            self._write(self._path(number), out.getvalue())
        return out.tell()


def test_data_files_of_another_table_are_not_captured(neighbours: Neighbours) -> None:
    lakes = neighbours.lakes
    lakes.authority()
    lakes.create("own", "theirs/own")
    own = WrittenBucketAppends(neighbours.files, lakes.at("theirs/own"))
    neighbours.commit("own", own.append(1))
    # the manifests are its own, so plans tell what it wrote itself
    borrowed = WrittenBucketAppends(neighbours.files, lakes.at("mine/t"), own.paths[0].rpartition("/")[0])
    neighbours.commit("mine", borrowed.append(1))
    assert neighbours.plan() == own.paths
    captures = lakes.kernel.statistics.captures
    done = captures.capture(lakes.call, table("own"), wait_ms=60_000)
    assert done.state == "succeeded"
    with pytest.raises(UnavailableError, match="in a folder of another table"):
        captures.capture(lakes.call, table("mine"), wait_ms=2_000)
    assert lakes.kernel.statistics.targets.list(lakes.call, table("mine"), None, None)[1].items == []
