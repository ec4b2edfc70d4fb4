from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from obstore.store import S3Store

from floecat.fileio.base import FileIO
from floecat.fileio.buckets import ObjectStoreOptions
from floecat.fileio.opening import open_fileio
from tests.services.s3 import S3Server


class Storage(NamedTuple):
    """A `FileIO`, an empty place of its own, and a way to it that does not use the `FileIO`."""

    files: FileIO
    root: str
    put: Callable[[str, bytes], Any]
    keys: Callable[[], set[str]]


def s3_options(server: S3Server, **changes: Any) -> ObjectStoreOptions:
    given = {
        "region": server.region,
        "endpoint": server.endpoint,
        "path_style_access": True,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    return ObjectStoreOptions(**{**given, **changes})


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

    return Storage(open_fileio(s3_options(server)), f"s3://{bucket}", put, keys)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def storage(request: pytest.FixtureRequest) -> Storage:
    if request.param == "local":
        return local_storage(request.getfixturevalue("tmp_path"))
    return s3_storage(request.getfixturevalue("s3_server"), request.getfixturevalue("s3_bucket"))
