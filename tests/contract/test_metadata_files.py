"""Metadata files: their names, the log of them, compression, and what is left behind."""

from __future__ import annotations

import gzip
import json
import re
import uuid

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.files import files_below, path_of
from tests.contract.updates import (
    append,
    assert_current_schema_id,
    remove_properties,
    set_properties,
    set_ref,
    update,
)

NAME = re.compile(r"(\d{5})-([0-9a-f-]{36})(\.gz)?\.metadata\.json")


def _file(table: Table) -> str:
    return table.get()["metadata-location"].rpartition("/")[2]


def test_file_holds_the_document_that_is_answered(local_table: Table):
    for number in range(3):
        match = NAME.fullmatch(_file(local_table))
        assert match is not None
        assert int(match[1]) == number
        assert str(uuid.UUID(match[2])) == match[2]
        body = local_table.get()
        assert json.loads(path_of(body["metadata-location"]).read_bytes()) == body["metadata"]
        local_table.committed([set_properties(n=str(number))])


def test_every_commit_writes_one_file(local_table: Table):
    for number in range(1, 4):
        local_table.committed(append(number, number, number - 1 or None))
        assert len(files_below(local_table.metadata()["location"])) == number + 1


def test_commit_without_effect_writes_no_file(local_table: Table):
    location = local_table.metadata()["location"]
    before = files_below(location)
    local_table.committed([])
    local_table.committed([update("upgrade-format-version", format_version=2)])
    assert files_below(location) == before


def test_refused_commit_leaves_no_file(local_table: Table):
    location = local_table.metadata()["location"]
    before = files_below(location)
    assert local_table.commit([set_properties(a="1")], [assert_current_schema_id(7)]).status_code == 409
    assert local_table.commit([set_properties(a="1"), set_ref(99)]).status_code == 400
    assert files_below(location) == before


def test_log_of_metadata_files(table: Table):
    first = table.get()
    assert first["metadata"]["metadata-log"] == []
    table.committed([set_properties(a="1")])
    second = table.get()
    assert second["metadata"]["metadata-log"] == [
        {
            "metadata-file": first["metadata-location"],
            "timestamp-ms": first["metadata"]["last-updated-ms"],
        }
    ]
    table.committed([set_properties(a="2")])
    third = table.get()
    assert third["metadata"]["metadata-log"] == [
        *second["metadata"]["metadata-log"],
        {
            "metadata-file": second["metadata-location"],
            "timestamp-ms": second["metadata"]["last-updated-ms"],
        },
    ]


def test_several_updates_of_one_commit_are_one_entry(table: Table):
    table.committed([set_properties(a="1"), *append(1, 1), set_ref(1, "b"), set_properties(b="2")])
    assert len(table.metadata()["metadata-log"]) == 1


@pytest.mark.parametrize(("setting", "kept"), [("3", 3), ("1", 1), ("0", 1), ("-5", 1)])
def test_log_is_trimmed(catalog: Catalog, namespace: Namespace, setting: str, kept: int):
    table = catalog.create_table(namespace, properties={"write.metadata.previous-versions-max": setting})
    locations = [table.get()["metadata-location"]]
    for number in range(5):
        table.committed([set_properties(n=str(number))])
        locations.append(table.get()["metadata-location"])
    log = [entry["metadata-file"] for entry in table.metadata()["metadata-log"]]
    assert log == locations[-1 - kept : -1]


def test_log_keeps_100_files_by_default(table: Table):
    for number in range(103):
        table.committed([set_properties(n=str(number))])
    assert len(table.metadata()["metadata-log"]) == 100


def test_old_files_are_kept_unless_asked_for(local_catalog: Catalog, local_namespace: Namespace):
    properties = {"write.metadata.previous-versions-max": "2"}
    table = local_catalog.create_table(local_namespace, properties=properties)
    for number in range(5):
        table.committed([set_properties(n=str(number))])
    assert len(files_below(table.metadata()["location"])) == 6


def test_old_files_are_deleted_after_commits_when_asked_for(
    local_catalog: Catalog, local_namespace: Namespace
):
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    table = local_catalog.create_table(local_namespace, properties=properties)
    locations = [table.get()["metadata-location"]]
    for number in range(5):
        table.committed([set_properties(n=str(number))])
        locations.append(table.get()["metadata-location"])
    names = sorted(f"metadata/{location.rpartition('/')[2]}" for location in locations[-3:])
    assert files_below(table.metadata()["location"]) == names


def test_refused_commit_deletes_no_old_file(local_catalog: Catalog, local_namespace: Namespace):
    properties = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    table = local_catalog.create_table(local_namespace, properties=properties)
    table.committed([set_properties(n="1")])
    before = files_below(table.metadata()["location"])
    assert table.commit([set_properties(n="2")], [assert_current_schema_id(9)]).status_code == 409
    assert files_below(table.metadata()["location"]) == before


def test_gzip_metadata(local_catalog: Catalog, local_namespace: Namespace):
    codec = {"write.metadata.compression-codec": "gzip"}
    table = local_catalog.create_table(local_namespace, properties=codec)
    for number in range(3):
        body = table.get()
        assert NAME.fullmatch(_file(table))[3] == ".gz"  # type: ignore[index]
        data = path_of(body["metadata-location"]).read_bytes()
        assert json.loads(gzip.decompress(data)) == body["metadata"]
        table.committed([set_properties(n=str(number))])


MORE_THAN_A_MEBIBYTE = {"text": "x" * (1 << 20)}


def test_large_metadata_is_compressed(local_table: Table):
    assert not _file(local_table).endswith(".gz.metadata.json")
    local_table.committed([update("set-properties", updates=MORE_THAN_A_MEBIBYTE)])
    body = local_table.get()
    assert NAME.fullmatch(_file(local_table))[3] == ".gz"  # type: ignore[index]
    data = path_of(body["metadata-location"]).read_bytes()
    assert len(data) < 100_000
    assert json.loads(gzip.decompress(data)) == body["metadata"]
    local_table.committed([remove_properties("text")])
    assert not _file(local_table).endswith(".gz.metadata.json")
    assert [entry["metadata-file"] for entry in local_table.metadata()["metadata-log"]][-1] == body[
        "metadata-location"
    ]


def test_a_table_that_wants_plain_metadata_gets_it(local_catalog: Catalog, local_namespace: Namespace):
    properties = {"write.metadata.compression-codec": "none", **MORE_THAN_A_MEBIBYTE}
    table = local_catalog.create_table(local_namespace, properties=properties)
    body = table.get()
    assert json.loads(path_of(body["metadata-location"]).read_bytes()) == body["metadata"]
    table.committed([remove_properties("write.metadata.compression-codec")])
    assert _file(table).endswith(".gz.metadata.json")


def test_old_files_that_are_compressed_are_deleted_like_others(
    local_catalog: Catalog, local_namespace: Namespace
):
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
        **MORE_THAN_A_MEBIBYTE,
    }
    table = local_catalog.create_table(local_namespace, properties=properties)
    for number in range(4):
        table.committed([set_properties(n=str(number))])
    left = files_below(table.metadata()["location"])
    assert len(left) == 3
    assert all(name.endswith(".gz.metadata.json") for name in left)


def test_codec_can_be_changed(local_table: Table):
    local_table.committed([update("set-properties", updates={"write.metadata.compression-codec": "gzip"})])
    assert _file(local_table).endswith(".gz.metadata.json")
    local_table.committed([update("set-properties", updates={"write.metadata.compression-codec": "none"})])
    assert not _file(local_table).endswith(".gz.metadata.json")
    assert NAME.fullmatch(_file(local_table))[1] == "00002"  # type: ignore[index]


def test_unknown_codec_is_400(local_table: Table):
    before = local_table.get()
    answer = local_table.commit(
        [update("set-properties", updates={"write.metadata.compression-codec": "lz4"})]
    )
    assert_error(answer, 400, "IllegalArgumentException")
    assert local_table.get() == before


def test_table_with_a_lost_metadata_file_still_loads_and_commits(local_table: Table):
    # The document lives in the store; the file is for others.
    body = local_table.get()
    path_of(body["metadata-location"]).unlink()
    assert local_table.get() == body
    assert local_table.exists()
    assert local_table.committed([set_properties(a="1")])["properties"]["a"] == "1"


def test_lost_and_broken_files_break_no_listing(local_catalog: Catalog, local_namespace: Namespace):
    tables = [local_catalog.create_table(local_namespace, name) for name in ("a", "b", "c")]
    view = local_catalog.create_view(local_namespace, "v")
    path_of(tables[0].get()["metadata-location"]).unlink()
    path_of(tables[1].get()["metadata-location"]).write_bytes(b"\x00 no metadata")
    path_of(view.get()["metadata-location"]).unlink()
    assert local_catalog.names(local_catalog.tables_path(local_namespace)) == ["a", "b", "c"]
    assert local_catalog.names(local_catalog.views_path(local_namespace)) == ["v"]
    assert local_catalog.head(local_catalog.namespace_path(local_namespace)).status_code == 204
    assert all(table.exists() for table in tables)
