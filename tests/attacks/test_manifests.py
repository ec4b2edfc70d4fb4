"""Manifest lists that inflate to far more than they are, read while another table is purged."""

from __future__ import annotations

import io
import json
import time
import uuid
import zlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

import fastavro

from tests.attacks.attacked_service import AttackedService
from tests.attacks.honest_clients import SCHEMA

TABLES = "/v1/floecat/namespaces/bombs/tables"
FIELDS = [
    {"name": name, "type": kind, "field-id": number}
    for name, kind, number in (
        ("manifest_path", "string", 500),
        ("manifest_length", "long", 501),
        ("partition_spec_id", "int", 502),
        ("content", "int", 517),
        ("sequence_number", "long", 515),
        ("min_sequence_number", "long", 516),
        ("added_snapshot_id", "long", 503),
        ("added_files_count", "int", 504),
        ("existing_files_count", "int", 505),
        ("deleted_files_count", "int", 506),
        ("added_rows_count", "long", 512),
        ("existing_rows_count", "long", 513),
        ("deleted_rows_count", "long", 514),
    )
]
LIST = {"type": "record", "name": "manifest_file", "fields": FIELDS}
SEGMENT_BYTES = 64 << 20
SEGMENTS = 48
REFUSED = "floecat.limits.manifest-block-bytes"


def bomb() -> bytes:
    """A manifest list of one block: 3 MB that inflate to 3 GiB."""
    header = io.BytesIO()
    fastavro.writer(header, LIST, [], codec="deflate")
    deflate = zlib.compressobj(wbits=-15)
    segment = deflate.compress(bytes(SEGMENT_BYTES)) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = segment * SEGMENTS + deflate.flush(zlib.Z_FINISH)
    head = header.getvalue()
    return head + b"\x02" + _long(len(block)) + block + head[-16:]


def _long(value: int) -> bytes:
    written, rest = b"", value << 1
    while rest > 0x7F:
        written += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return written + bytes([rest])


def register_bomb(service: AttackedService, folder: Path) -> None:
    """Registers a table in a folder whose manifest list is a bomb."""
    made = service.send("POST", TABLES, json.dumps({"name": "model", "schema": SCHEMA}).encode())
    metadata = json.loads(made.body)["metadata"]
    file = folder / "metadata" / "bomb.avro"
    file.parent.mkdir(parents=True)
    file.write_bytes(bomb())
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": metadata["last-updated-ms"],
        "manifest-list": file.as_uri(),
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    metadata |= {"table-uuid": str(uuid.uuid4()), "location": folder.as_uri(), "last-sequence-number": 1}
    metadata |= {"snapshots": [snapshot], "current-snapshot-id": 1}
    document = folder / "metadata" / "00000.metadata.json"
    document.write_text(json.dumps(metadata))
    body = {"name": "bomb", "metadata-location": document.as_uri()}
    registered = service.send("POST", f"{TABLES.removesuffix('/tables')}/register", json.dumps(body).encode())
    assert registered.status == 200, registered


def test_other_tables_are_purged_beside_a_bomb(start_attacked: Callable[..., AttackedService]) -> None:
    # one process purges before, during and after the attack: others would count as memory that it left
    service = start_attacked(FLOECAT_PURGE_WORKER_THREADS="1")
    folder = service.warehouse / "bombs"
    assert service.send("POST", "/v1/floecat/namespaces", b'{"namespace": ["bombs"]}').status == 200
    register_bomb(service, folder)

    numbers = count()

    def send() -> None:
        name = f"victim{next(numbers)}"
        location = (folder / name).as_uri()
        body = json.dumps({"name": name, "schema": SCHEMA, "location": location}).encode()
        assert service.send("POST", TABLES, body).status == 200
        dropped = service.send("DELETE", f"{TABLES}/{name}?purgeRequested=true")
        assert dropped.status == 204, dropped

    # what reads manifests is imported by the first purge
    send()
    ends_s = time.monotonic() + 60
    while REFUSED not in service.server.log_tail(1000):
        assert time.monotonic() < ends_s, "no purge has met the bomb"
        time.sleep(0.1)
    service.attack(send, at_once=1)
