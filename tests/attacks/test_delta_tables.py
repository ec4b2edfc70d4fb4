"""Delta tables that are small, and large to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from tests.attacks.attacked_service import AttackedService
from tests.clients.delta.writer import DeltaWriter, z85_encode

SCHEMA = pa.schema([("id", pa.int64())])
REGISTER = "/management/v1/catalogs/floecat/namespaces/delta/tables"
TABLES = 4
MAGIC = (1681511377).to_bytes(4, "little")


def footer(structs: int) -> bytes:
    """A Parquet file of a footer alone, with this many empty row groups of one byte each."""
    count, rest = b"", structs
    while rest > 0x7F:
        count += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    count += bytes([rest])
    root, column = b"\x48\x01r\x15\x02\x00", b"\x15\x04\x25\x02\x18\x02id\x00"
    schema = b"\x19\x2c" + root + column
    metadata = b"\x15\x02" + schema + b"\x16\x02" + b"\x19\xfc" + count + b"\x00" * structs + b"\x00"
    return b"PAR1" + metadata + len(metadata).to_bytes(4, "little") + b"PAR1"


def vector(rows: int) -> dict[str, Any]:
    """An inline deletion vector of all rows from the first on, in a few kilobytes."""
    payload = MAGIC + BitMap64(range(rows)).serialize()
    text = z85_encode(payload + b"\0" * (-len(payload) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(payload), "cardinality": rows}


def add(writer: DeltaWriter, path: str, data: bytes, **fields: Any) -> None:
    """Commits a data file without statistics."""
    (writer.folder / path).write_bytes(data)
    action = {
        "path": path,
        "size": len(data),
        "partitionValues": {},
        "modificationTime": 0,
        "dataChange": True,
    }
    writer.commit([{"add": action | fields}])


def with_footer(folder: Path, structs: int) -> None:
    """A file whose footer is a long list."""
    add(DeltaWriter(folder, SCHEMA), "a.parquet", footer(structs))


def with_deleted_rows(folder: Path, rows: int) -> None:
    """A file of which a vector deletes all rows."""
    stats = json.dumps({"numRecords": rows})
    add(DeltaWriter(folder, SCHEMA), "a.parquet", b"PAR1", stats=stats, deletionVector=vector(rows))


def test_tables_are_registered_and_loaded(start_attacked: Callable[..., AttackedService]) -> None:
    """A decoded footer takes 70 times its size, and a deleted row is a byte of position deletes."""
    service = start_attacked(FLOECAT_GATEWAY_DELTA_COMPAT_WAIT="PT1S")
    register_honest(service)
    with_footer(service.warehouse / "footer", 20_000_000)
    with_footer(service.warehouse / "footer-within-the-bound", 1_000_000)
    with_deleted_rows(service.warehouse / "rows", 134_000_000)

    def send() -> None:
        for name in ("footer", "footer-within-the-bound", "rows"):
            assert register(service, name) in (201, 409)
            loaded = service.send("GET", f"/v1/floecat/namespaces/delta/tables/{name}")
            assert loaded.is_refusal, loaded

    service.attack(send, at_once=8)


def register_honest(service: AttackedService) -> None:
    """Registers and loads a table, by which the service imports what reads Delta tables: 110 MiB."""
    assert service.send("POST", "/v1/floecat/namespaces", b'{"namespace": ["delta"]}').status == 200
    DeltaWriter(service.warehouse / "honest", SCHEMA).append(pa.table({"id": [1]}, schema=SCHEMA))
    assert register(service, "honest") == 201
    while (loaded := service.send("GET", "/v1/floecat/namespaces/delta/tables/honest")).status == 503:
        continue  # the first load may wait longer than the service does
    assert loaded.status == 200, loaded


def register(service: AttackedService, name: str) -> int | None:
    """The status of the registration of a table in the folder of its name."""
    body = {"name": name, "format": "delta", "location": (service.warehouse / name).as_uri()}
    return service.send("POST", REGISTER, json.dumps(body).encode()).status
