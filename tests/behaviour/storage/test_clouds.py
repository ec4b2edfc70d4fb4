"""Catalogs on Google Cloud Storage and on Azure Data Lake Storage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.catalog.request_files import RequestFiles
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, FileMissingError
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.delta.conftest import delta_table
from tests.services.azure import ACCOUNT, AzureServer
from tests.services.catalog import PATIENT_STORAGE
from tests.services.gcs import GcsServer
from tests.unit.purge.table_files import TableFiles

SECRET = "a-secret-of-the-tests"


class Lake:
    """A catalog whose locations are in an empty bucket or container."""

    def __init__(self, kernel: Kernel, root: str, told: dict[str, str], secrets: list[str]) -> None:
        self.secrets = secrets
        self.kernel = kernel
        self.root = root
        self.told = told
        self.account = kernel.settings.gateway.default_account_id
        catalog = kernel.catalog.catalogs.create(self.account, "lake", f"{root}/lake", try_writing=True)
        self.call = Call(Principal("tester", self.account), AllowAll(), catalog)
        self.files = catalog.storage.files(root)
        kernel.catalog.namespaces.create(self.call, ("ns",), {})

    def keys(self, folder: str = "") -> set[str]:
        place = f"{self.root}/{folder}".rstrip("/")
        return {entry.location.removeprefix(f"{self.root}/") for entry in self.files.list(place)}


@pytest.fixture(params=["gcs", "adls"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    server: GcsServer | AzureServer = request.getfixturevalue(
        {"gcs": "gcs_server", "adls": "azure_server"}[request.param]
    )
    if isinstance(server, GcsServer):
        root = server.create_bucket()
        given = {"project-id": "lakes", "endpoint": server.endpoint, "token": SECRET}
        overrides = {f"floecat.storage.gcs.{key}": value for key, value in given.items()}
        told = {"gcs.project-id": "lakes", "gcs.service.host": server.endpoint}
    else:
        root = server.create_container()
        # this time the settings are those of single catalogs
        own = {"adls": {"endpoint": server.endpoint, "account-key": server.account_key}}
        overrides = {"floecat.storage.catalogs": {"lake": own, "other": own}}
        address = server.endpoint.removeprefix("http://")
        told = {
            "adls.account-name": ACCOUNT,
            f"adls.connection-string.{ACCOUNT}.dfs.core.windows.net": f"{server.endpoint}/{ACCOUNT}",
            "adls.blob-storage-authority": address,
            "adls.blob-storage-scheme": "http",
            "adls.dfs-storage-authority": address,
            "adls.dfs-storage-scheme": "http",
        }
    settings = load_settings(
        environ=PATIENT_STORAGE,
        overrides={
            "floecat.data-dir": str(tmp_path / "data"),
            "floecat.gateway.delta-compat.refresh-after": "PT0S",
            **overrides,
        },
    )
    prepare_store(settings)
    kernel = open_kernel(settings)
    secrets = [SECRET] if isinstance(server, GcsServer) else [server.account_key]
    yield Lake(kernel, root, told, secrets)
    kernel.close()


def test_a_table_is_created_committed_to_and_loaded(lake: Lake) -> None:
    made = create(lake.kernel, lake.call, "t", location=f"{lake.root}/lake/t")
    lake.kernel.commits.tables.commit(lake.call, set_property("t", "colour", "blue"))
    loaded = lake.kernel.catalog.tables.load(lake.call, table("t"))
    assert {key: value for key, value in loaded.config.items() if key in lake.told} == lake.told
    assert dict(made.config) == dict(loaded.config)
    shown = str(loaded.config) + repr(lake.call.catalog.storage.options(lake.root))
    assert not any(secret in shown for secret in lake.secrets)
    assert loaded.metadata_location is not None
    assert loaded.metadata_location.removeprefix(f"{lake.root}/") in lake.keys("lake/t/metadata")
    storage = lake.call.catalog.storage
    lake.kernel.parts.files.check_exists(storage, loaded.metadata_location)
    lake.files.delete(loaded.metadata_location)
    with pytest.raises(FileMissingError):
        lake.kernel.parts.files.check_exists(storage, loaded.metadata_location)


def test_a_purge_empties_the_folder_of_the_table_alone(lake: Lake) -> None:
    location = f"{lake.root}/lake/t"
    neighbours = {"lake/t2/data/1.parquet", "lake/t.parquet", "lake/s/data/1.parquet"}
    for key in neighbours:
        lake.files.write_new(f"{lake.root}/{key}", b"x")
    files = TableFiles(lake.files, location)
    files.append(count=3)
    files.append(count=2)
    files.commit(f"{location}/metadata/00000-a.metadata.json")
    lake.kernel.commits.registration.register_table(lake.call, ("ns",), "t", files.metadata_location)
    # a file that is gone already: Google and Azure say so, and the others must go all the same
    lake.files.delete(next(file for file in files.written if file.endswith(".parquet")))
    lake.kernel.purge.drops.drop(lake.call, table("t"), purge=True)
    assert lake.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert lake.keys() == neighbours
    assert list(lake.files.list(location)) == []


def test_a_delta_table_is_registered_found_and_loaded(lake: Lake, tmp_path: Path) -> None:
    writer = delta_table(tmp_path / "d")
    writer.delete({0: [1]})
    for path in writer.folder.rglob("*.*"):
        if path.is_file():
            lake.files.write_new(f"{lake.root}/lake/d/{path.relative_to(writer.folder)}", path.read_bytes())
    assert f"{lake.root}/lake/d/_delta_log" in lake.files.list_folders(f"{lake.root}/lake/d")
    lake.kernel.delta.registration.register(lake.call, ("ns",), "d", f"{lake.root}/lake/d")
    loaded = lake.kernel.catalog.tables.load(lake.call, TableIdentifier(("ns",), "d"))
    assert str(loaded.metadata_location).removeprefix(f"{lake.root}/") in lake.keys("lake/d/metadata")


def test_a_place_that_is_missing_is_no_place_for_a_catalog(lake: Lake) -> None:
    elsewhere = lake.root.replace("://test-", "://missing-")
    with pytest.raises(BadRequestError, match="cannot be written"):
        lake.kernel.catalog.catalogs.create(lake.account, "other", f"{elsewhere}/lake", try_writing=True)


def test_other_spellings_of_a_location_name_the_same_files(lake: Lake) -> None:
    lake.files.write_new(f"{lake.root}/lake/a", b"x")
    scheme, _, rest = lake.root.partition("://")
    spellings: dict[str, Any] = {
        "gs": [lake.root],
        "abfss": [
            f"{alias}://{rest.replace('.dfs.', f'.{kind}.')}"
            for alias, kind in itertools.product(("abfss", "abfs", "wasbs", "wasb"), ("dfs", "blob"))
        ],
    }
    for spelling in spellings[scheme]:
        assert lake.files.read(f"{spelling}/lake/a") == b"x"


def test_a_registration_may_bring_access_to_a_cloud(gcs_server: GcsServer, azure_server: AzureServer) -> None:
    on_google, on_azure = f"{gcs_server.create_bucket()}/m.json", f"{azure_server.create_container()}/m.json"
    azure = f"{azure_server.endpoint}/{ACCOUNT}"
    brought = {
        on_google: {"gcs.service.host": gcs_server.endpoint, "gcs.oauth2.token": SECRET},
        on_azure: {
            f"adls.connection-string.{ACCOUNT}.dfs.core.windows.net": azure,
            "adls.account-key": azure_server.account_key,
        },
    }
    own = ObjectStoreOptions(
        gcs=GcsOptions(service_account_file="/missing.json"),
        adls=AdlsOptions(tenant_id="t", client_id="c", client_secret="s"),
    )
    for location, properties in brought.items():
        files = RequestFiles(enabled=True).open(own, location, properties)
        assert files is not None
        files.write_new(location, b"x")
        assert files.read(location) == b"x"
