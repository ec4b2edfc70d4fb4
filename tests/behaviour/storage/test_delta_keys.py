"""Keys to Delta tables: they read the files of the table and what was made of them, and write nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import FloecatError
from tests.behaviour.delta.conftest import delta_table
from tests.behaviour.delta.test_bad_input import edit_newest
from tests.behaviour.storage.conftest import start_lake
from tests.services.authorities import add_authority
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("compat", [None, "compat"])
def test_keys_read_the_table_and_its_artifacts(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, compat: str | None
) -> None:
    folder = tmp_path / "d"
    delta_table(folder)
    for path in filter(Path.is_file, folder.rglob("*")):
        key = f"wh/d/{path.relative_to(folder)}"
        s3_server.client().put_object(Bucket=s3_bucket, Key=key, Body=path.read_bytes())
    settings = (
        {} if compat is None else {"floecat.gateway.delta-compat.location": f"s3://{s3_bucket}/{compat}"}
    )
    with ExitStack() as running:
        lake = start_lake(tmp_path, s3_server, s3_bucket, running, **settings)
        add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}")
        account = lake.kernel.settings.gateway.default_account_id
        catalog = lake.kernel.catalog.calls.open(Principal("tester", account), "floecat").catalog
        call = Call(Principal("tester", account), AllowAll(), catalog)
        location = f"s3://{s3_bucket}/wh/d"
        lake.kernel.delta.registration.register(call, ("ns",), "d", location)
        loaded = lake.load("d").json()
        [credential] = loaded["storage-credentials"]
        files = lake.files(credential["config"])
        [newest] = [
            each["manifest-list"]
            for each in loaded["metadata"]["snapshots"]
            if each["snapshot-id"] == loaded["metadata"]["current-snapshot-id"]
        ]
        assert newest.startswith(f"s3://{s3_bucket}/{compat}/" if compat else f"{location}/metadata/")
        assert files.read(newest)
        for path in folder.glob("*.parquet"):
            assert files.read(f"{location}/{path.name}") == path.read_bytes()
        for place in (location, newest.rpartition("/")[0], f"s3://{s3_bucket}/compat"):
            with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
                files.write_new(f"{place}/new", b"x")
        with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
            files.read(f"s3://{s3_bucket}/compat/another")


@pytest.mark.parametrize("what", ["data file", "deletion vector"])
def test_a_log_that_names_files_of_another_table(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, what: str
) -> None:
    with ExitStack() as running:
        lake = start_lake(tmp_path, s3_server, s3_bucket, running)
        theirs = lake.create("theirs").json()["metadata"]["location"]
        writer = delta_table(tmp_path / "d")
        vectors = {"storageType": "p", "pathOrInlineDv": f"{theirs}/dv.bin", "offset": 1}

        def borrow(add: dict[str, Any]) -> None:
            if what == "data file":
                add["path"] = f"{theirs}/{add['path']}"
            else:
                add["deletionVector"] = {**vectors, "sizeInBytes": 40, "cardinality": 1}

        edit_newest(writer, borrow)
        for path in filter(Path.is_file, writer.folder.rglob("*")):
            for folder in ("wh/d", theirs.removeprefix(f"s3://{s3_bucket}/")):
                key = f"{folder}/{path.relative_to(writer.folder)}"
                s3_server.client().put_object(Bucket=s3_bucket, Key=key, Body=path.read_bytes())
        add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}")
        location = f"s3://{s3_bucket}/wh/d"
        lake.kernel.delta.registration.register(lake.call(), ("ns",), "d", location)
        answer = lake.load("d")
        assert answer.status_code == 406
        assert "in a folder of another table" in answer.text
        assert theirs not in answer.text
