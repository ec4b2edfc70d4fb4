from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.delta.artifacts import field_id_copies as numbered_files
from floecat.delta.artifacts.artifact_files import ArtifactFiles, ByteBudget, NameTakenError
from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.artifacts.field_id_copies import FieldIdCopies
from floecat.errors import FileMissingError, InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.parquet.field_ids import RequiredFieldIds
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.encoded_json import encode_json
from floecat.memory_budget import MemoryBudget

NUMBERS = RequiredFieldIds(
    {("l",): 1, ("l", "element"): 2},
    parse_schema(
        encode_json(
            {
                "type": "struct",
                "fields": [
                    {
                        "id": 1,
                        "name": "l",
                        "required": False,
                        "type": {
                            "type": "list",
                            "element-id": 2,
                            "element": "int",
                            "element-required": False,
                        },
                    }
                ],
            }
        )
    ),
    by_id=False,
)


class Place:
    """A folder with a data file, and who copies it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.storage = LocalFileIO(fsync=False)
        self.artifacts = ArtifactFiles(self.storage, AllowedLocations([root.as_uri()]), MemoryBudget())
        self.paths = ArtifactPaths(f"{root.as_uri()}/metadata")

    def write(self, name: str, *, id: str | None = "1") -> tuple[str, int]:
        metadata = {b"PARQUET:field_id": id.encode()} if id else None
        schema = pa.schema([pa.field("l", pa.list_(pa.int32()), metadata=metadata)])
        pq.write_table(pa.table({"l": [[1, None], []]}, schema=schema), self.root / name)
        return f"{self.root.as_uri()}/{name}", (self.root / name).stat().st_size

    def replace(self, *files: tuple[str, int], copies: bool = True) -> tuple[list[str], list[int]]:
        context: Any = SimpleNamespace(
            paths=self.paths,
            required_ids=NUMBERS,
            may_copy_files=copies,
            work=None,
            footer_bytes=1 << 20,
            translated=SimpleNamespace(leaves=()),
        )
        made = FieldIdCopies(context, self.artifacts)
        locations = pa.array([location for location, _ in files], pa.string())
        found, sizes = made.replace(locations, np.array([size for _, size in files], np.int64))
        return found.to_pylist(), sizes.tolist()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.artifacts.close()


def test_files_that_lack_ids_are_copied_and_others_stay(place):
    lacking, plain = place.write("a.parquet"), place.write("b.parquet", id=None)
    locations, sizes = place.replace(lacking, plain)
    assert locations == [place.paths.field_id_copy(lacking[0]), plain[0]]
    assert sizes == [len(place.storage.read(locations[0])), plain[1]]
    copy = pq.read_table(pa.BufferReader(place.storage.read(locations[0])))
    assert copy.to_pylist() == [{"l": [1, None]}, {"l": []}]
    assert copy.schema.field("l").type.value_field.metadata == {b"PARQUET:field_id": b"2"}


def test_a_copy_that_is_there_is_not_written_again(place):
    lacking = place.write("a.parquet")
    first = place.replace(lacking)
    before = place.storage.counters.counts
    assert place.replace(lacking) == first
    spent = place.storage.counters.counts - before
    # the footers of both
    assert (spent.reads, spent.writes) == (2, 0)


@pytest.mark.parametrize("change", [lambda data: data + b"x", lambda data: data[1:], lambda data: data[:-8]])
def test_another_file_of_the_name_is_told(place, change):
    lacking = place.write("a.parquet")
    [copy], _ = place.replace(lacking)
    data = place.storage.read(copy)
    place.storage.delete(copy)
    place.storage.write_new(copy, change(data))
    with pytest.raises(NameTakenError):
        place.replace(lacking)


def test_two_writers_at_once(place, monkeypatch):
    lacking = place.write("a.parquet")
    write_new = place.storage.write_new

    def slower(location: str, data: bytes) -> None:
        write_new(location, data)
        write_new(location, data)

    monkeypatch.setattr(place.storage, "write_new", slower)
    assert place.replace(lacking) == place.replace(lacking)


def test_refusals_name_column_and_file(place, monkeypatch):
    lacking = place.write("a.parquet")
    with pytest.raises(UnsupportedDeltaTableError, match=r"Column l .*a\.parquet.*icebergCompatV2"):
        place.replace(lacking, copies=False)
    monkeypatch.setattr(numbered_files, "MAX_COPIED_BYTES", 10)
    with pytest.raises(UnsupportedDeltaTableError, match=r"Column l .*a\.parquet.*too large"):
        place.replace(lacking)
    assert not list(place.storage.list(place.paths.folder))


def test_broken_and_missing_files(place):
    location, size = place.write("a.parquet")
    with pytest.raises(InvalidDeltaTableError, match=r"a\.parquet"):
        place.replace((location, size - 1))
    with pytest.raises(FileMissingError):
        place.replace((location + "x", size))


def test_what_is_larger_than_a_budget_is_held_all_the_same(place):
    lacking = [place.write(f"{n}.parquet") for n in range(5)]
    place.artifacts.copies = ByteBudget(10)
    locations, _ = place.replace(*lacking)
    assert locations == [place.paths.field_id_copy(location) for location, _ in lacking]
