"""Catalogs on different S3 services in one process, with the same names of buckets and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floecat.auth.authorizer import AllowAll, Privilege
from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import ConflictError, FileMissingError
from floecat.events.commit_cursor import CommitCursor
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.delta.conftest import delta_table
from tests.services.catalog import PATIENT_STORAGE
from tests.services.s3 import S3Server
from tests.unit.purge.table_files import TableFiles

pytestmark = pytest.mark.s3
TABLE_UUID = "6a1f3a52-2f5e-4c0e-9d5a-0f8f3b6d7c11"


def access(server: S3Server) -> dict[str, Any]:
    return {
        "region": server.region,
        "s3": {
            "endpoint": server.endpoint,
            "path-style-access": True,
            "access-key-id": server.access_key_id,
            "secret-access-key": server.secret_access_key,
        },
    }


class Lakes:
    """`here` and `near` are on one server, `far` on another one; each bucket has the same name."""

    def __init__(self, kernel: Kernel, bucket: str, servers: dict[str, S3Server]) -> None:
        self.kernel = kernel
        self.bucket = bucket
        self.servers = servers
        account = kernel.settings.gateway.default_account_id
        self.calls = {}
        for name in servers:
            catalog = kernel.catalog.catalogs.create(account, name, f"s3://{bucket}")
            self.calls[name] = Call(Principal("tester", account), AllowAll(), catalog)
            kernel.catalog.namespaces.create(self.calls[name], ("ns",), {})

    def table_files(self, name: str) -> TableFiles:
        """A table that is written to the store of a catalog, always under the same names and UUID."""
        location = f"s3://{self.bucket}/t"
        files = TableFiles(self.calls[name].catalog.storage.files(location), location, table_uuid=TABLE_UUID)
        files.append(count=2)
        files.commit(f"{location}/metadata/00000-{TABLE_UUID}.metadata.json")
        return files

    def register(self, name: str, files: TableFiles) -> None:
        self.kernel.commits.registration.register_table(
            self.calls[name], ("ns",), "t", files.metadata_location
        )

    def keys(self, name: str) -> set[str]:
        found = self.servers[name].client().list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {item["Key"] for item in found}

    def purge(self, name: str) -> None:
        self.kernel.purge.drops.drop(self.calls[name], table("t"), purge=True)
        assert self.kernel.purge.queue.drain_once() == Drained(succeeded=1)


@pytest.fixture
def lakes(tmp_path: Path, s3_server: S3Server, other_s3_server: S3Server, s3_bucket: str) -> Iterator[Lakes]:
    other_s3_server.client().create_bucket(Bucket=s3_bucket)
    own = access(s3_server)
    settings = load_settings(
        environ=PATIENT_STORAGE,
        overrides={
            "floecat.data-dir": str(tmp_path / "data"),
            "floecat.gateway.delta-compat.refresh-after": "PT0S",
            "floecat.storage.aws.region": own["region"],
            **{f"floecat.storage.aws.s3.{key}": value for key, value in own["s3"].items()},
            "floecat.storage.catalogs": {"far": access(other_s3_server)},
        },
    )
    prepare_store(settings)
    kernel = open_kernel(settings)
    yield Lakes(kernel, s3_bucket, {"here": s3_server, "near": s3_server, "far": other_s3_server})
    kernel.close()


def test_each_catalog_works_on_its_own_store(lakes: Lakes) -> None:
    location = f"s3://{lakes.bucket}/t"
    for name, call in lakes.calls.items():
        if name == "near":
            continue
        made = create(lakes.kernel, call, "t", location=location)
        lakes.kernel.commits.tables.commit(call, set_property("t", "catalog", name))
        loaded = lakes.kernel.catalog.tables.load(call, table("t"))
        assert loaded.config["s3.endpoint"] == made.config["s3.endpoint"] == lakes.servers[name].endpoint
        assert not any("key" in key or "token" in key for key in loaded.config)
        assert loaded.metadata_location is not None
        assert loaded.metadata_location.removeprefix(f"s3://{lakes.bucket}/") in lakes.keys(name)
    assert not lakes.keys("here") & lakes.keys("far")


@pytest.mark.parametrize(("dropped", "other"), [("here", "far"), ("far", "here")])
def test_a_purge_leaves_the_other_store_alone(lakes: Lakes, dropped: str, other: str) -> None:
    for name in (dropped, other):
        lakes.register(name, lakes.table_files(name))
    before = lakes.keys(other)
    assert before == lakes.keys(dropped)
    lakes.purge(dropped)
    # nothing is shared: equal locations are files of two stores
    assert lakes.keys(dropped) == set()
    assert lakes.keys(other) == before
    assert lakes.kernel.catalog.tables.load(lakes.calls[other], table("t")).table_uuid == TABLE_UUID


def test_catalogs_on_one_store_share_files(lakes: Lakes) -> None:
    files = lakes.table_files("here")
    lakes.register("here", files)
    lakes.register("near", files)
    before = lakes.keys("here")
    lakes.purge("here")
    assert lakes.keys("near") == before
    lakes.purge("near")
    assert lakes.keys("near") == set()


def test_an_unreadable_table_holds_up_purges_on_its_own_store_only(lakes: Lakes) -> None:
    broken = lakes.table_files("far")
    for name in ("here", "far"):
        files = broken if name == "far" else lakes.table_files(name)
        lakes.register(name, files)
    manifest_list = broken.snapshots[-1]["manifest-list"].removeprefix(f"s3://{lakes.bucket}/")
    lakes.servers["far"].client().put_object(Bucket=lakes.bucket, Key=manifest_list, Body=b"broken")
    lakes.purge("here")
    assert lakes.keys("here") == set()


def test_only_a_purge_on_the_same_store_stops_a_registration(lakes: Lakes) -> None:
    here, far = (lakes.table_files(name) for name in ("here", "far"))
    lakes.register("here", here)
    lakes.kernel.purge.drops.drop(lakes.calls["here"], table("t"), purge=True)
    with pytest.raises(ConflictError, match="are being deleted"):
        lakes.register("near", here)
    lakes.register("far", far)
    before = lakes.keys("far")
    assert lakes.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert (lakes.keys("here"), lakes.keys("far")) == (set(), before)


def test_background_work_looks_at_the_store_of_the_catalog(lakes: Lakes) -> None:
    ids = {}
    for name in ("here", "far"):
        lakes.register(name, lakes.table_files(name))
        entry = lakes.kernel.parts.entries.find_table(lakes.calls[name], table("t"), Privilege.READ_TABLE)
        assert entry is not None
        ids[name] = entry.row.id
    described = lakes.kernel.events.commits.after(CommitCursor.parse(None), limit=10).events
    assert [event.undescribed for event in described if event.kind == "table"] == [None, None]
    location = entry.row.metadata_location
    key = location.removeprefix(f"s3://{lakes.bucket}/")
    lakes.servers["far"].client().delete_object(Bucket=lakes.bucket, Key=key)
    lost = lakes.kernel.events.lost_files.among(ids.values())
    assert [one.entry_id for one in lost] == [ids["far"]]
    with pytest.raises(FileMissingError):
        lakes.kernel.parts.files.check_exists(lakes.calls["far"].catalog.storage, location)


def test_delta_tables_of_one_location_are_read_from_their_stores(lakes: Lakes, tmp_path: Path) -> None:
    root = f"s3://{lakes.bucket}/d"
    loaded = {}
    for name, deletes in (("here", False), ("far", True)):
        writer = delta_table(tmp_path / name)
        if deletes:
            writer.delete({0: [1]})
        for path in writer.folder.rglob("*.*"):
            if path.is_file():
                key = f"d/{path.relative_to(writer.folder)}"
                lakes.servers[name].client().upload_file(str(path), lakes.bucket, key)
        call = lakes.calls[name]
        lakes.kernel.delta.registration.register(call, ("ns",), "d", root)
        loaded[name] = lakes.kernel.catalog.tables.load(call, TableIdentifier(("ns",), "d"))
        prefix = f"s3://{lakes.bucket}/"
        assert str(loaded[name].metadata_location).removeprefix(prefix) in lakes.keys(name)
    assert loaded["here"].metadata != loaded["far"].metadata
    before = lakes.keys("far")
    lakes.kernel.purge.drops.drop(lakes.calls["here"], TableIdentifier(("ns",), "d"), purge=True)
    assert lakes.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert not any("/metadata/" in key for key in lakes.keys("here"))
    assert lakes.keys("far") == before
