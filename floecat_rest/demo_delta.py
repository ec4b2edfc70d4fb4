"""A small Delta table for the demo data, written file by file, so that no writer of Delta is needed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO

__all__ = ["make_delta_table"]

_NAME = "stations"
_ID = "a3f8f2f4-6f0b-4c11-9d52-5c1f2f7d3e10"
_CREATED_AT_MS = 1_767_600_000_000
_TIMEOUT_S = 30
_SCHEMA = pa.schema([("station_id", pa.int64()), ("city_id", pa.int32()), ("name", pa.string())])
_DELTA_TYPES = {pa.int64(): "long", pa.int32(): "integer", pa.string(): "string"}
_STATIONS = [
    ("Central", "North", "Harbour", "Park", "Market", "Airport"),
    ("Museum", "Stadium", "Campus", "Bridge", "Garden", "Lake"),
]
"""Stations of each version."""


def make_delta_table(catalog: RestCatalog, namespace: tuple[str, ...], beside: str) -> None:
    """Writes the table, with two versions, and registers it, unless the namespace has one of this name.

    Args:
        namespace: of the table.
        beside: a table of the namespace; the new one is in the same folder, by the same file IO.

    Raises:
        OSError: the service does not answer, or refuses.
    """
    if catalog.table_exists((*namespace, _NAME)):
        return
    table = catalog.load_table((*namespace, beside))
    location = f"{table.location().rpartition('/')[0]}/{_NAME}"
    for version, names in enumerate(_STATIONS):
        _write_version(table.io, location, version, names)
    _register(catalog, namespace, location)


def _write_version(files: FileIO, location: str, version: int, names: tuple[str, ...]) -> None:
    first = version * len(names)
    numbers = range(first, first + len(names))
    columns = [[number + 1 for number in numbers], [number % len(names) + 1 for number in numbers], names]
    rows = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )
    data = BytesIO()
    pq.write_table(rows, data)
    name = f"part-{version:05}.parquet"
    _write(files, f"{location}/{name}", data.getvalue())
    actions = [
        {"commitInfo": {"timestamp": _CREATED_AT_MS + version, "operation": "WRITE"}},
        *(_first_actions() if version == 0 else []),
        {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": data.tell(),
                "modificationTime": _CREATED_AT_MS + version,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows.num_rows}),
            }
        },
    ]
    log = "\n".join(map(json.dumps, actions))
    _write(files, f"{location}/_delta_log/{version:020}.json", log.encode())


def _first_actions() -> list[dict[str, Any]]:
    fields = [
        {"name": field.name, "type": _DELTA_TYPES[field.type], "nullable": True, "metadata": {}}
        for field in _SCHEMA
    ]
    metadata = {
        "id": _ID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": _CREATED_AT_MS,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _write(files: FileIO, location: str, data: bytes) -> None:
    with files.new_output(location).create(overwrite=True) as stream:
        stream.write(data)


def _register(catalog: RestCatalog, namespace: tuple[str, ...], location: str) -> None:
    warehouse = quote(catalog.properties["warehouse"], safe="")
    levels = quote("\x1f".join(namespace), safe="")
    token = catalog.properties.get("token")
    request = urllib.request.Request(  # noqa: S310 - the URL of the service
        f"{catalog.uri.rstrip('/')}/management/v1/catalogs/{warehouse}/namespaces/{levels}/tables",
        data=json.dumps({"name": _NAME, "format": "delta", "location": location}).encode(),
        headers={
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        },
    )
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        # Delta tables may be turned off
        if error.code != HTTPStatus.NOT_ACCEPTABLE:
            raise
