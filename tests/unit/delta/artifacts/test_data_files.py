from collections import deque

import pyarrow as pa
import pytest

from floecat.delta.artifacts.artifact_paths import as_uri
from floecat.delta.artifacts.data_files import all_locations, data_file_locations
from floecat.errors import InvalidDeltaTableError, LocationNotAllowedError, UnsupportedDeltaTableError
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


@pytest.mark.parametrize("path", ["../other/a", "a/../../b", "a/..", ".", "..\\a", "a\\..\\b"])
def test_paths_that_lead_out_of_the_table_are_refused(path):
    with pytest.raises(InvalidDeltaTableError, match="leads out of the table"):
        locations("a", path)


def test_names_with_dots_are_names():
    assert locations("..a/b..c/.hidden") == ["s3://lake/t/..a/b..c/.hidden"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("dbfs:/x/p.parquet", "a dbfs: location"),
        ("hdfs://nn:8020/x/p.parquet", "an? hdfs: location"),
        ("s3:/x", "a s3: location"),
        ("s3://user:s3cr3t@lake/x", "a s3: location"),
        ("https://host/p?sig=s3cr3t", "a https: location"),
    ],
)
def test_files_in_other_storages_are_a_matter_of_the_table(path, text):
    with pytest.raises(UnsupportedDeltaTableError, match=text) as raised:
        locations("a", path)
    assert "s3cr3t" not in raised.value.message


def test_names_that_are_only_compared_are_left_as_they_are():
    paths = ["dbfs:/x/p", "hdfs://nn:8020/x", "s3:/x", "file:///a\\b", "s3a://elsewhere/a//b", "a"]
    found = data_file_locations(pa.chunked_array([paths], pa.string()), "s3://lake/t", None)
    assert found.to_pylist() == [*paths[:5], "s3://lake/t/a"]
    found = data_file_locations(pa.chunked_array([["s3a://lake/a", "../b"]]), "s3://lake/t", None)
    assert found.to_pylist() == ["s3://lake/a", "s3://lake/t/../b"]


def test_any_character_may_be_in_a_name():
    names = ["a\\b", "a#b", "a?b", "a\tb", "a%23b"]
    assert locations(*names, "s3a://lake/x/a#b") == [
        *(f"s3://lake/t/{name}" for name in names),
        "s3://lake/x/a#b",
    ]


def test_files_on_the_local_disk_that_uri_parsers_cut_are_spelled_as_paths():
    allowed = AllowedLocations(["/w"])
    names = ["a", "b#c", "b?c", "p=\t/c", "d\r\n", "e\\f", "file:///w/u/a%23#", "file:///w/u/a"]
    found = data_file_locations(pa.chunked_array([names]), "file:///w/t", allowed).to_pylist()
    assert found == [
        "file:///w/t/a",
        "/w/t/b#c",
        "/w/t/b?c",
        "/w/t/p=\t/c",
        "/w/t/d\r\n",
        "file:///w/t/e\\f",
        "/w/u/a%23#",
        "file:///w/u/a",
    ]
    assert [as_uri(location) for location in found[:2]] == ["file:///w/t/a", "file:///w/t/b#c"]


def test_locations_of_more_text_than_an_arrow_array_holds() -> None:
    """The parts of the column share their bytes, 1.1 GiB as the column counts them."""
    names = pa.array([f"{number}-" + "x" * 2_000 for number in range(1_000)])
    paths = pa.chunked_array([names] * 1_100)
    [last] = deque(enumerate(all_locations(paths, "s3://lake/t", None), 1), maxlen=1)
    assert last == (1_100_000, f"s3://lake/t/{names[-1].as_py()}")
