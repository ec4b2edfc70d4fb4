"""Listing the folders directly below a folder."""

from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import BadRequestError
from floecat.fileio.base import FileIO

NAMES = ["a", "a b", "a%20b", "a+b", "B", "p=1", "_delta_log", ".hidden", "ü", "日本", "{x}"]


def test_folders_come_in_order_without_what_is_in_them(storage: Any) -> None:
    for name in NAMES:
        storage.put(f"lake/{name}/deep/er/file", b"x")
    storage.put("lake/file", b"x")
    storage.put("lake2/other/file", b"x")
    wanted = [f"{storage.root}/lake/{name}" for name in sorted(NAMES)]
    assert list(storage.files.list_folders(f"{storage.root}/lake")) == wanted
    assert list(storage.files.list_folders(f"{storage.root}/lake/")) == wanted
    assert list(storage.files.list_folders(f"{storage.root}/lake/a/deep")) == [
        f"{storage.root}/lake/a/deep/er"
    ]


def test_no_folder_no_folders(storage: Any) -> None:
    storage.put("lake/file", b"x")
    for place in ("lake", "lake/file", "none"):
        assert list(storage.files.list_folders(f"{storage.root}/{place}")) == []


def test_of_a_whole_bucket(storage: Any) -> None:
    storage.put("a/file", b"x")
    storage.put("b/file", b"x")
    assert list(storage.files.list_folders(storage.root)) == [f"{storage.root}/a", f"{storage.root}/b"]


def test_what_is_in_the_folders_costs_nothing(storage: Any) -> None:
    for number in range(1100):
        storage.put(f"lake/t/{number}", b"")
    files: FileIO = storage.files
    before = files.counters.counts
    assert len(files.list_folders(f"{storage.root}/lake")) == 1
    assert (files.counters.counts - before).calls == 1


def test_a_malformed_location_is_refused(storage: Any) -> None:
    with pytest.raises(BadRequestError):
        storage.files.list_folders("lake")


def test_links_are_not_folders(tmp_path: Any) -> None:
    from tests.behaviour.fileio.conftest import local_storage

    storage = local_storage(tmp_path)
    storage.put("lake/a/file", b"x")
    (tmp_path / "lake" / "b").symlink_to(tmp_path / "lake" / "a")
    assert list(storage.files.list_folders(f"{storage.root}/lake")) == [f"{storage.root}/lake/a"]
