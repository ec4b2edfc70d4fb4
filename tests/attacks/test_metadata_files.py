"""Metadata files of other writers: small ones that inflate to gigabytes."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import count

from tests.attacks.attacked_service import AttackedService

MIB = 1 << 20


def _zeros(size_bytes: int) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(deflater.compress(bytes(MIB)) for _ in range(size_bytes // MIB)), deflater.flush()])


def _files() -> list[bytes]:
    return [_zeros(2 << 30), _zeros(64 << 20) * 16, gzip.compress(b"") * 500_000]


def test_small_files_that_inflate_to_gigabytes(attacked_service: AttackedService, seconds: float) -> None:
    folder = attacked_service.warehouse / "attack"
    folder.mkdir()
    locations = [folder / f"{number}.gz.metadata.json" for number in range(3)]
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

    attacked_service.attack(send, at_once=6, least_s=seconds)
