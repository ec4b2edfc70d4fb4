from __future__ import annotations

from uuid import UUID

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.properties import metadata_version, strip_trailing_slash, table_type
from floecat.iceberg.metadata.table_metadata import metadata_file_location
from tests.unit.iceberg.table_documents import document, parse

ID = UUID("0190a1b2-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, f"s3://lake/db/t/metadata/00007-{ID}.metadata.json"),
        ({"write.metadata.path": "s3://other/meta/"}, f"s3://other/meta/00007-{ID}.metadata.json"),
        (
            {"write.metadata.compression-codec": "GZIP"},
            f"s3://lake/db/t/metadata/00007-{ID}.gz.metadata.json",
        ),
        ({"write.metadata.compression-codec": "none"}, f"s3://lake/db/t/metadata/00007-{ID}.metadata.json"),
    ],
)
def test_names_of_metadata_files(properties: dict[str, str], expected: str) -> None:
    metadata = parse(document(properties=properties, location="s3://lake/db/t/"))
    assert metadata_file_location(metadata, 7, ID) == expected


@pytest.mark.parametrize(
    ("properties", "threshold", "suffix"),
    [
        ({}, 1, ".gz.metadata.json"),
        ({}, 0, ".metadata.json"),
        ({}, 1 << 20, ".metadata.json"),
        ({"write.metadata.compression-codec": "none"}, 1, ".metadata.json"),
        ({"write.metadata.compression-codec": "gzip"}, 0, ".gz.metadata.json"),
    ],
)
def test_large_documents_are_compressed_unless_the_table_says(
    properties: dict[str, str], threshold: int, suffix: str
) -> None:
    metadata = parse(document(properties=properties, location="s3://lake/db/t"))
    named = metadata_file_location(metadata, 7, ID, gzip_above_bytes=threshold)
    assert named == f"s3://lake/db/t/metadata/00007-{ID}{suffix}"


def test_a_document_of_just_the_size_is_not_above_it() -> None:
    metadata = parse(document())
    at, above = (
        metadata_file_location(metadata, 1, ID, gzip_above_bytes=metadata.size_bytes - less)
        for less in (0, 1)
    )
    assert not at.endswith(".gz.metadata.json")
    assert above.endswith(".gz.metadata.json")


def test_refuses_other_codecs() -> None:
    metadata = parse(document(properties={"write.metadata.compression-codec": "lz4"}))
    with pytest.raises(IllegalArgumentError, match="Invalid codec name: lz4"):
        metadata_file_location(metadata, 1, ID)


@pytest.mark.parametrize(
    ("location", "version"),
    [
        (None, -1),
        ("s3://b/t/metadata/00000-a.metadata.json", 0),
        ("s3://b/t/metadata/123456-a.gz.metadata.json", 123456),
        ("s3://b/t/metadata/v3.metadata.json", -1),
        ("s3://b/t-1/metadata/a-1.metadata.json", -1),
        ("00012-a.metadata.json", 12),
    ],
)
def test_versions_of_metadata_files(location: str | None, version: int) -> None:
    assert metadata_version(location) == version


@pytest.mark.parametrize(
    ("location", "stripped"),
    [("s3://b/t//", "s3://b/t"), ("s3://", "s3://"), ("file:///", "file://"), ("/a", "/a")],
)
def test_trailing_slashes_go(location: str, stripped: str) -> None:
    assert strip_trailing_slash(location) == stripped


def test_an_empty_location_is_none() -> None:
    with pytest.raises(IllegalArgumentError):
        strip_trailing_slash("")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("lance", "lance"),
        ("LANCE", "lance"),
        ("x" * 64, "x" * 64),
        ("x" * 65, None),
        ("", None),
        ("a\0", None),
        ("ü", None),
        ("\ud800", None),
    ],
)
def test_type_of_a_table(value: str, expected: str | None) -> None:
    assert table_type({"table_type": value}) == expected
    assert table_type({}) is None
