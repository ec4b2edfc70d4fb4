from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from floecat.delta.protocol.actions import CommitInfo, Metadata, Protocol


def test_actions_can_be_kept_as_json() -> None:
    for action in (
        Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")),
        Metadata("id", "{}", ("p",), {"delta.appendOnly": "true"}, "n", "d", "parquet", 5),
        Metadata("id", "{}"),
        CommitInfo(1, 2, "WRITE"),
    ):
        assert msgspec.json.decode(msgspec.json.encode(action), type=type(action)) == action


def test_actions_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Protocol(1, 2).min_reader_version = 3  # type: ignore[misc]


def test_actions_alone_do_not_load_arrow() -> None:
    modules = "floecat.delta.protocol.actions, floecat.delta.protocol.table_features"
    code = f"import sys, {modules}; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
