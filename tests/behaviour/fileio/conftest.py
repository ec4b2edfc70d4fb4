from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from obstore.store import AzureStore, GCSStore, S3Store

from floecat.fileio.base import FileIO
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from tests.services.azure import ACCOUNT, AzureServer
from tests.services.gcs import GcsServer
from tests.services.s3 import PATIENT, S3Server


class Storage(NamedTuple):
    """A `FileIO`, an empty place of its own, and a way to it that does not use the `FileIO`."""

    files: FileIO
    root: str
    put: Callable[[str, bytes], Any]
    keys: Callable[[], set[str]]


def local_storage(root: Path) -> Storage:
    def put(key: str, data: bytes) -> None:
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)

    def keys() -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    return Storage(open_fileio(local_roots=[str(root)]), f"file://{root}", put, keys)


def s3_storage(server: S3Server, bucket: str) -> Storage:
    client = server.client()
    raw = S3Store(
        bucket,
        endpoint=server.endpoint,
        region=server.region,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
        client_options={"allow_http": True},
    )

    def put(key: str, data: bytes) -> None:
        raw.put(key, data)

    def keys() -> set[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {entry["Key"] for page in pages for entry in page.get("Contents", [])}

    return Storage(open_fileio(server.options()), f"s3://{bucket}", put, keys)


def gcs_storage(server: GcsServer) -> Storage:
    root = server.create_bucket()
    raw = GCSStore(
        root.removeprefix("gs://"),
        base_url=server.endpoint,
        credential_provider=lambda: {"token": "any", "expires_at": None},
        client_options={"allow_http": True},
    )
    options = ObjectStoreOptions(gcs=GcsOptions(endpoint=server.endpoint, token="any"), **PATIENT)
    return Storage(open_fileio(options), root, raw.put, lambda: _listed(raw))


def azure_storage(server: AzureServer) -> Storage:
    root = server.create_container()
    raw = AzureStore(
        root.removeprefix("abfss://").partition("@")[0],
        account_name=ACCOUNT,
        account_key=server.account_key,
        endpoint=f"{server.endpoint}/{ACCOUNT}",
        client_options={"allow_http": True},
    )
    options = ObjectStoreOptions(
        adls=AdlsOptions(endpoint=server.endpoint, account_key=server.account_key), **PATIENT
    )
    return Storage(open_fileio(options), root, raw.put, lambda: _listed(raw))


def _listed(raw: GCSStore | AzureStore) -> set[str]:
    return {entry["path"] for page in raw.list() for entry in page}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3), "gcs", "adls"])
def storage(request: pytest.FixtureRequest) -> Storage:
    match request.param:
        case "local":
            return local_storage(request.getfixturevalue("tmp_path"))
        case "s3":
            return s3_storage(request.getfixturevalue("s3_server"), request.getfixturevalue("s3_bucket"))
        case "gcs":
            return gcs_storage(request.getfixturevalue("gcs_server"))
    return azure_storage(request.getfixturevalue("azure_server"))
