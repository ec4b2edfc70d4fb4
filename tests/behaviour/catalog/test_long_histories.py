"""Commits on tables with long histories: what they compress and write. Counts, no times."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from floecat.compression.pieces import Piece, PieceCompressor, gzip_blocks, gzip_member
from floecat.entries.calls import Call, LoadedTable
from floecat.runtime import Kernel
from floecat.store.entries import documents
from tests.behaviour.catalog.changes import append, change, create, set_property, table

SNAPSHOTS = 10_000
MOST_COMPRESSIONS = 6
MOST_BYTES = 600_000


def path_of(location: str | None) -> Path:
    return Path(urlparse(location or "").path)


def long_history(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a new table, with so many snapshots."""
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": document["last-updated-ms"] + number,
            "summary": {"operation": "append", "total-records": str(number)},
            "manifest-list": f"{document['location']}/metadata/snap-{number}.avro",
            "schema-id": 0,
        }
        for number in range(1, SNAPSHOTS + 1)
    ]
    return document | {
        "snapshots": snapshots,
        "snapshot-log": [{key: s[key] for key in ("snapshot-id", "timestamp-ms")} for s in snapshots],
        "refs": {"main": {"snapshot-id": SNAPSHOTS, "type": "branch"}},
        "current-snapshot-id": SNAPSHOTS,
        "last-sequence-number": SNAPSHOTS,
        "last-updated-ms": document["last-updated-ms"] + SNAPSHOTS,
    }


@pytest.fixture
def location(kernel: Kernel, call: Call) -> str:
    """Location of the table `long`, which is registered from a plain file that another client wrote."""
    made = create(kernel, call, "other")
    document = long_history(json.loads(made.metadata))
    file = path_of(made.metadata_location).with_name("00007-other.metadata.json")
    file.write_text(json.dumps(document, separators=(",", ":")))
    kernel.commits.registration.register_table(call, ("ns",), "long", file.as_uri())
    return str(document["location"])


@pytest.fixture
def compressed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Sizes of what is compressed from now on, for the file and for the store."""
    seen: dict[str, list[int]] = {}

    def watch(name: str, compressor: PieceCompressor[Any]) -> None:
        seen[name] = []
        compress: Callable[[Piece], Any] = compressor._compress

        def counting(piece: Piece) -> Any:
            seen[name].append(len(piece))
            return compress(piece)

        monkeypatch.setattr(compressor, "_compress", counting)

    watch("file", gzip_blocks)
    watch("store", documents.stored_frames)
    return seen


def check_file(kernel: Kernel, call: Call, committed: LoadedTable) -> None:
    assert gzip.decompress(path_of(committed.metadata_location).read_bytes()) == committed.metadata
    assert kernel.catalog.tables.load(call, table("long")).metadata == committed.metadata
    # as another process reads it from the store
    other = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    assert other.catalog.tables.load(call, table("long")).metadata == committed.metadata


def test_a_commit_compresses_what_it_changes(
    kernel: Kernel, call: Call, location: str, compressed: dict[str, list[int]]
) -> None:
    first = kernel.commits.tables.commit(call, set_property("long", "n", "0"))
    assert first.metadata_location is not None
    assert first.metadata_location.endswith(".gz.metadata.json")
    assert len(compressed["file"]) > 2 * MOST_COMPRESSIONS
    check_file(kernel, call, first)
    for number in range(1, 30):
        for sizes in compressed.values():
            sizes.clear()
        if number % 2:
            made = set_property("long", "n", str(number))
        else:
            snapshot = SNAPSHOTS + number // 2
            made = append("long", snapshot, snapshot - 1, location)
        committed = kernel.commits.tables.commit(call, made)
        for name, sizes in compressed.items():
            assert 0 < len(sizes) <= MOST_COMPRESSIONS, name
            assert sum(sizes) <= MOST_BYTES, name
        # the answer of a commit is compressed from the same pieces
        compressed["file"].clear()
        answer = gzip_member([b'{"metadata":', *committed.pieces, b"}"])
        assert gzip.decompress(answer) == b'{"metadata":' + committed.metadata + b"}"
        assert len(compressed["file"]) <= MOST_COMPRESSIONS
    check_file(kernel, call, committed)
    assert len(json.loads(committed.metadata)["snapshots"]) == SNAPSHOTS + 14


def test_the_log_names_files_of_either_form(kernel: Kernel, call: Call, location: str) -> None:
    before = kernel.catalog.tables.load(call, table("long"))
    first = kernel.commits.tables.commit(call, set_property("long", "n", "1"))
    plain = kernel.commits.tables.commit(
        call, set_property("long", "write.metadata.compression-codec", "none")
    )
    assert plain.metadata_location is not None
    assert not plain.metadata_location.endswith(".gz.metadata.json")
    assert path_of(plain.metadata_location).read_bytes() == plain.metadata
    log = [entry["metadata-file"] for entry in json.loads(plain.metadata)["metadata-log"]]
    assert log == [before.metadata_location, first.metadata_location]


def test_expiry_leaves_a_document_that_is_compressed_anew(kernel: Kernel, call: Call, location: str) -> None:
    kernel.commits.tables.commit(call, set_property("long", "n", "1"))
    gone = list(range(1, 5000, 3))
    removed = kernel.commits.tables.commit(
        call, change("long", [{"action": "remove-snapshots", "snapshot-ids": gone}])
    )
    check_file(kernel, call, removed)
    kept = [snapshot["snapshot-id"] for snapshot in json.loads(removed.metadata)["snapshots"]]
    assert kept == [number for number in range(1, SNAPSHOTS + 1) if number not in set(gone)]
    check_file(kernel, call, kernel.commits.tables.commit(call, set_property("long", "n", "2")))
