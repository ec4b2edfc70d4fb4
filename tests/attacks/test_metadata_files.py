"""Metadata files of other writers: small ones that inflate to gigabytes."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import count

from tests.attacks.attacked_service import AttackedService

SEGMENT_BYTES = 32 << 20
SCHEMA = b'{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x","required":false,"type":"long"}]}'
SCHEMAS = 1_000_000
HEAD = bytes([31, 139, 8, 0, 0, 0, 0, 0, 0, 255])


def _zeros(segments: int) -> bytes:
    """A gzip member of zeros, with a wrong checksum: a reader within its bounds does not reach that."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    segment = deflater.compress(bytes(SEGMENT_BYTES)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return HEAD + segment * segments + deflater.flush() + bytes(8)


def _files() -> list[bytes]:
    """2 GiB in one member, 1 GiB in sixteen, nothing in very many, and schemas that take 18 times as much."""
    schemas = b'{"format-version":2,"schemas":[' + b",".join([SCHEMA] * SCHEMAS) + b"]}"
    return [
        _zeros(64),
        gzip.compress(bytes(2 * SEGMENT_BYTES)) * 16,
        gzip.compress(b"") * 500_000,
        gzip.compress(schemas, 1),
    ]


def test_small_files_that_inflate_to_gigabytes(attacked_service: AttackedService) -> None:
    folder = attacked_service.warehouse / "attack"
    folder.mkdir()
    locations = [folder / f"{number}.gz.metadata.json" for number in range(4)]
    for location, data in zip(locations, _files(), strict=True):
        location.write_bytes(data)
    names = count()

    def send() -> None:
        number = next(names)
        body = {"name": f"t{number}", "metadata-location": locations[number % len(locations)].as_uri()}
        path = "/v1/floecat/namespaces/used0/register"
        answer = attacked_service.send("POST", path, json.dumps(body).encode())
        assert answer.is_refusal, answer
        assert b"floecat.limits" in answer.body, answer

    attacked_service.attack(send, at_once=6)
