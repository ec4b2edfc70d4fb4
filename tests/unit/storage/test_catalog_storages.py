from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.errors import SettingsError
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import ObjectStoreOptions
from floecat.settings import load_settings
from floecat.storage.access import StorageAccess
from floecat.storage.catalog_storages import CatalogStorages, open_storages
from floecat.store.catalogs import accounts, catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Store

DEFAULT, OTHER = uuid.uuid4(), uuid.uuid4()


def row(name: str, location: str = "s3://b", account_id: uuid.UUID = DEFAULT) -> CatalogRow:
    return CatalogRow(uuids.uuid7(), account_id, name, location, (), {}, 0, 1, 1)


def access(endpoint: str) -> StorageAccess:
    return StorageAccess.of(ObjectStoreOptions(endpoint=endpoint))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    opened.upgrade()
    yield opened
    opened.close()


def test_a_name_gets_keys_in_its_account_only() -> None:
    own, far, theirs = (access(f"http://{name}") for name in ("own", "far", "theirs"))
    named = {"far": far, f"{OTHER}/theirs": theirs}
    storages = CatalogStorages(own, named, default_account_id=DEFAULT)
    for catalog, expected in (
        (row("far"), far),
        (row("far", account_id=OTHER), own),
        (row("theirs", account_id=OTHER), theirs),
        (row("theirs"), own),
        (row("near"), own),
    ):
        assert storages.of(catalog).files("s3://b/x") is expected.files


def test_a_storage_is_built_once_for_each_version_of_its_row() -> None:
    storages = CatalogStorages(access("http://own"), shared_locations=["s3://shared"])
    first = row("a")
    built = storages.of(first)
    assert storages.of(msgspec.structs.replace(first, commit_version=7)) is built
    wider = storages.of(msgspec.structs.replace(first, allowed_locations=("s3://more",)))
    assert [str(root) for root in wider.allowed.roots] == ["s3://b", "s3://more", "s3://shared"]


def test_catalogs_see_the_locations_of_others_on_their_store(store: Store) -> None:
    storages = CatalogStorages(
        access("http://own"), {"far": access("http://far")}, default_account_id=DEFAULT
    )
    rows = [row("near"), row("far", "s3://far"), row("disk", "file:///disk", OTHER)]
    with store.write() as conn:
        for account_id in (DEFAULT, OTHER):
            accounts.ensure(conn, account_id, 1)
        for one in rows:
            catalogs.insert(conn, one)
    with store.read() as conn:
        assert storages.all(conn) == {one.id: storages.of(one) for one in rows}
        widened = storages.all_widened(conn)
        assert storages.by_id(conn, rows[0].id) is storages.of(rows[0])
        assert storages.by_id(conn, uuid.uuid4()) is None
    roots = [{str(root) for root in widened[one.id].allowed.roots} for one in rows]
    assert roots == [
        {"s3://b", "file:///disk"},
        {"s3://far", "file:///disk"},
        {"s3://b", "file:///disk"},
    ]


def test_settings_name_stores_of_catalogs() -> None:
    settings = load_settings(
        environ={},
        overrides={
            "floecat.storage.aws.s3.endpoint": "http://own:9000",
            "floecat.storage.aws.s3.access-key-id": "own",
            "floecat.storage.aws.s3.secret-access-key": "own",
            "floecat.storage.catalogs": {"far": {"region": "r", "s3": {"endpoint": "http://far:9000"}}},
        },
    )
    files = open_fileio()
    storages = open_storages(settings, files)
    account = settings.gateway.default_account_id
    near, far = (storages.of(row(name, account_id=account)) for name in ("near", "far"))
    assert near.files("s3://b") is files
    assert far.files("s3://b").counters is files.counters
    # keys of one store never sign for another one
    assert (near.options("s3://b").access_key_id, far.options("s3://b").access_key_id) == ("own", None)
    assert far.client_config("s3://b")["s3.endpoint"] == "http://far:9000"


def test_half_a_key_is_refused_by_name() -> None:
    settings = load_settings(
        environ={}, overrides={"floecat.storage.catalogs": {"far": {"s3": {"access-key-id": "a"}}}}
    )
    with pytest.raises(SettingsError, match=r"floecat\.storage\.catalogs\.far: An S3 access key"):
        open_storages(settings, open_fileio())
