from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError


def read(*paths: str, table: str = "s3://bucket/t") -> list[str]:
    found = PathReader(table).read(pa.chunked_array([list(paths)], pa.string()), location="log")
    assert found.type == pa.string()
    result: list[str] = found.to_pylist()
    return result


def test_plain_paths_are_left_as_they_are() -> None:
    paths = pa.chunked_array([["a.parquet", "p=1/b.parquet"], [], ["p=a+b/c=d"]], pa.string())
    found = PathReader("s3://bucket/t").read(paths, location="log")
    assert found.equals(paths)
    assert found.chunk(0).buffers()[2].address == paths.chunk(0).buffers()[2].address


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        ("special%20p@%23h", "special p@#h"),
        ("_2=bar+%252521/part-0", "_2=bar+%2521/part-0"),
        ("p=a%2Fb/f", "p=a/b/f"),
        ("p=%3a%3A/f", "p=::/f"),
        ("p=%25252525/f", "p=%252525/f"),
        ("p=%C3%BC%e8%A1%a8/%F0%9F%98%80", "p=ü表/\U0001f600"),
        ("p=ü/%C3%BC%2520", "p=ü/ü%20"),
        ("100%/f%zz%2", "100%/f%zz%2"),
        ("%%20%2%30", "% %20"),
        ("", ""),
    ],
)
def test_paths_are_decoded_once(encoded: str, decoded: str) -> None:
    assert read(encoded) == [decoded]
    assert read("x", encoded, "y%20z") == ["x", decoded, "y z"]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="/.:\0"), min_size=1, max_size=20), max_size=5
    )
)
def test_decoding_undoes_encoding(names: list[str]) -> None:
    assert read(*(f"f/{quote(name, safe='')}" for name in names)) == [f"f/{name}" for name in names]


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidDeltaTableError, match="A file path in log is not UTF-8") as raised:
        read("a", "secret%FF")
    assert "secret" not in raised.value.message


@pytest.mark.parametrize("path", ["a%00b", "a\0b", "%C3%BC%00"])
def test_null_characters_are_refused(path: str) -> None:
    with pytest.raises(InvalidDeltaTableError, match="A file path in log holds a null character"):
        read("x", path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x/a%20b/f", "file:///x/a b/f"),
        ("//x//f", "file:///x/f"),
        ("file:/x/f", "file:///x/f"),
        ("file:///x/f", "file:///x/f"),
        ("FILE://localhost/x/f", "file:///x/f"),
        ("/w/t/p=1/f", "p=1/f"),
        ("file:/w/t/f", "f"),
        ("/w/t2/f", "file:///w/t2/f"),
        ("/w/t/../t2/f", "file:///w/t2/f"),
        ("s3a://other/x", "s3://other/x"),
    ],
)
def test_spellings_of_a_local_file(path: str, expected: str) -> None:
    assert read(path, table="file:///w/t") == [expected]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3a://bucket/t/p=1/f", "p=1/f"),
        ("s3n://bucket/t/f", "f"),
        ("s3://bucket/t2/f", "s3://bucket/t2/f"),
        ("s3://bucket/x//f", "s3://bucket/x//f"),
        ("/t/f", "f"),
        ("/x/f", "s3://bucket/x/f"),
        ("file:/x/f", "file:///x/f"),
        ("hdfs://host/x/f%20", "hdfs://host/x/f "),
        ("WASBS://C@a.blob.core.windows.net/x/f", "abfss://c@a.dfs.core.windows.net/x/f"),
        ("p=a:/b", "p=a:/b"),
        ("p:q/b", "p:q/b"),
        ("a%3A/b", "a:/b"),
    ],
)
def test_spellings_of_an_object(path: str, expected: str) -> None:
    assert read(path) == [expected]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./f", "f"),
        ("a/./b/../f", "a/f"),
        ("../f", "../f"),
        ("a/../../f", "../f"),
        ("s3://bucket/../other/f", "s3://bucket/../other/f"),
        ("s3://bucket/a/../b/f", "s3://bucket/b/f"),
        ("s3://bucket/t/../t/f", "f"),
        ("file:///../f", "file:///../f"),
        ("a/..b/.c/d..", "a/..b/.c/d.."),
    ],
)
def test_dots_are_resolved_within_the_table(path: str, expected: str) -> None:
    assert read(path) == [expected]


def test_many_encoded_paths() -> None:
    paths = pa.chunked_array(
        [[f"p=a%20{n % 100}/q=%3A/part-{n}.parquet" for n in range(100_000)]], pa.string()
    )
    found = PathReader("s3://bucket/t").read(paths, location="log")
    assert found[99_999].as_py() == "p=a 99/q=:/part-99999.parquet"


def test_paths_have_the_bounds_of_locations() -> None:
    longest = "x" * 8192
    assert read(longest, "%25" * 1000) == [longest, "%" * 1000]
    with pytest.raises(InvalidDeltaTableError, match=r"in log is refused: .*floecat\.limits\.location-bytes"):
        read("a", longest + "x")
    assert read("%" + "25" * 4) == ["%" + "25" * 3]
    with pytest.raises(InvalidDeltaTableError, match=r"floecat\.limits\.percent-decoding-levels"):
        read("%" + "25" * 4 + "20")
