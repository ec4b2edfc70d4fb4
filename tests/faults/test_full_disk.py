"""The disk is full: what cannot be done is said, nothing is lost, and room mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.answers import Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.disks import Disk, FileSizeLimit, Tmpfs, can_mount, mounted
from tests.faults.requests import appending, creating, setting, table_path, unique_key
from tests.services.catalog import CatalogServer


@pytest.fixture(params=["file size limit", "small file system"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, Path]]:
    """A disk and the folder on it; where nothing can be mounted, the limit stands in for the file system."""
    if request.param == "small file system" and can_mount(tmp_path / "probe"):
        with mounted(tmp_path / "disk") as folder:
            yield Tmpfs(folder), folder / "data"
    else:
        yield FileSizeLimit(), tmp_path / "data"


def test_a_full_disk_loses_nothing(
    disk: tuple[Disk, Path], start_catalog: Callable[..., CatalogServer]
) -> None:
    device, folder = disk
    deployment = Deployment(folder, start_catalog)
    server = deployment.start()
    sender = Sender(server.base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    for name in ("t", "u"):
        assert sender.send("POST", "/namespaces/ns/tables", creating(name)).status == 200
    assert sender.send("POST", table_path("t"), setting({"kept": "1"})).status == 200
    before = {name: sender.metadata(table_path(name)) for name in ("t", "u")}
    key, append = unique_key(), appending(1, before["u"])

    device.fill(server)
    answers = [
        sender.send("POST", table_path("t"), setting({"lost": "x" * 100_000})),
        sender.send("POST", "/namespaces/ns/tables", creating("other")),
        sender.send("POST", table_path("u"), append, key=key),
    ]
    # the log of SQLite may have room for what needs no file
    namespace = sender.send("POST", "/namespaces", {"namespace": ["other"]})
    assert namespace.fate in ("done", "not applied", "unknown")
    # a file that SQLite cannot write to its end is no proof that a restart will not find it whole
    wanted = {503} if isinstance(device, Tmpfs) else {503, 500}
    assert {answer.status for answer in answers} <= wanted, answers
    assert {name: sender.metadata(table_path(name)) for name in ("t", "u")} == before
    assert sender.send("GET", "/namespaces/ns/tables").status == 200

    device.free(server)
    assert {name: sender.metadata(table_path(name)) for name in ("t", "u")} == before
    assert sender.send("POST", table_path("t"), setting({"after": "1"})).status == 200
    assert sender.send("POST", "/namespaces/ns/tables", creating("other")).status == 200
    assert sender.send("POST", table_path("u"), append, key=key).status == 200
    assert sender.send("POST", table_path("u"), append, key=key).status == 200
    if namespace.fate != "unknown":
        found = sender.send("HEAD", "/namespaces/other").status
        assert found == (204 if namespace.fate == "done" else 404)
    kept = sender.metadata(table_path("t"))["properties"]
    assert {"kept", "after"} <= kept.keys()
    assert "lost" not in kept
    assert [each["snapshot-id"] for each in sender.metadata(table_path("u"))["snapshots"]] == [1]
    leftovers = [path for path in (folder / "warehouse").rglob("*") if path.name.endswith(".tmp")]
    assert leftovers == []
    check_consistency(deployment.store_url)
    server.kill()
    server.start()
    check_consistency(deployment.store_url)
    server.stop()
