from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from floecat.errors import InvalidMetadataError
from floecat.statistics.capture.reading.sidecars import (
    FilesSummary,
    Sidecar,
    read_files,
    read_summary,
    write_sidecar,
)
from floecat.statistics.files.summaries import FileSummary
from tests.storages import storage_at

SUMMARY = FilesSummary(1, 2, 3, is_exact=True, columns=())
FILE = FileSummary("file:///f", 2, (), is_exact=True)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    storage = storage_at([tmp_path.as_uri()])
    sidecar = write_sidecar(storage, (tmp_path / "a.stats").as_uri(), SUMMARY, {"f": FILE})
    assert read_summary(storage, sidecar) == SUMMARY
    assert read_files(storage, sidecar, lambda _: True) == {"f": FILE}


@pytest.mark.parametrize("place", [(-1, 2), (0, -1), (0, 1 << 40), (1 << 40, 1)])
def test_places_outside_of_the_file_are_damage(tmp_path: Path, place: tuple[int, int]) -> None:
    storage, path = storage_at([tmp_path.as_uri()]), tmp_path / "a.stats"
    for index in ((place, {}), ((0, 0), {"f": place})):
        encoded = msgspec.msgpack.encode(index)
        path.write_bytes(encoded + len(encoded).to_bytes(4, "little") + b"FCS1")
        sidecar = Sidecar(path.as_uri(), path.stat().st_size)
        with pytest.raises(InvalidMetadataError, match="damaged"):
            read_summary(storage, sidecar)
        with pytest.raises(InvalidMetadataError, match="damaged"):
            read_files(storage, sidecar, lambda _: True)
