import pyarrow as pa
import pytest

from floecat.compat.data_files import data_file_locations
from floecat.errors import InvalidDeltaTableError, LocationNotAllowedError
from floecat.fileio.locations import AllowedLocations

ALLOWED = AllowedLocations(["s3://lake/"])


def locations(*paths, root="s3://lake/t"):
    return data_file_locations(pa.chunked_array([list(paths)], pa.string()), root, ALLOWED).to_pylist()


def test_relative_paths_lie_in_the_table():
    assert locations("p=1/a.parquet", "b c%d.parquet") == [
        "s3://lake/t/p=1/a.parquet",
        "s3://lake/t/b c%d.parquet",
    ]
    assert locations("a", root="s3://lake/t/") == ["s3://lake/t/a"]
    assert locations() == []


def test_absolute_paths_are_taken_in_their_one_spelling():
    assert locations("s3a://lake/other/a.parquet", "b") == ["s3://lake/other/a.parquet", "s3://lake/t/b"]


@pytest.mark.parametrize("path", ["s3://elsewhere/a.parquet", "file:///etc/passwd", "/etc/passwd"])
def test_absolute_paths_outside_the_allowed_locations_are_refused(path):
    with pytest.raises(LocationNotAllowedError):
        locations("a", path)


@pytest.mark.parametrize("path", ["../other/a", "a/../../b", "a/..", ".", "a\\b"])
def test_paths_that_lead_out_of_the_table_are_refused(path):
    with pytest.raises(InvalidDeltaTableError, match="leads out of the table"):
        locations("a", path)


def test_names_with_dots_are_names():
    assert locations("..a/b..c/.hidden") == ["s3://lake/t/..a/b..c/.hidden"]
