from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError, LocationNotAllowedError
from floecat.fileio.locations import (
    AllowedLocations,
    FileLocation,
    Location,
    check_new_location,
    cut_location,
    normalize_location,
)
from floecat.iceberg.values.bounds import process_bounds
from floecat.settings.limits import LimitSettings


@pytest.mark.parametrize(
    ("location", "normalized"),
    [
        ("s3://b/t", "s3://b/t"),
        ("s3://b/t/", "s3://b/t"),
        ("s3a://b/t", "s3://b/t"),
        ("S3N://b/t", "s3://b/t"),
        ("s3://b", "s3://b"),
        ("s3://b/", "s3://b"),
        ("s3://b/a%20b/p=1/ü", "s3://b/a%20b/p=1/ü"),
        ("s3://b/..a/b..", "s3://b/..a/b.."),
        ("gs://b/t", "gs://b/t"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("WASBS://C@A.blob.core.windows.net/T/", "abfss://c@a.dfs.core.windows.net/T"),
        ("/w/t", "file:///w/t"),
        ("file:/w/t", "file:///w/t"),
        ("file:///w/t/", "file:///w/t"),
        ("FILE://localhost/w/t", "file:///w/t"),
        ("/w//t", "file:///w/t"),
        ("//w/t", "file:///w/t"),
        ("/w/t?x", "file:///w/t?x"),
        ("file:/w/a#b/c?d=e/", "file:///w/a#b/c?d=e"),
        ("/", "file:///"),
        ("file:///", "file:///"),
    ],
)
def test_spellings(location: str, normalized: str) -> None:
    assert str(normalize_location(location)) == normalized
    assert str(normalize_location(normalized)) == normalized


@pytest.mark.parametrize(
    "location",
    [
        "",
        "t",
        "spark-warehouse/t",
        "./t",
        "file:t",
        "file://host/t",
        "s3:/b/t",
        "s3:b/t",
        "s3://",
        "s3:///t",
        "s3://-b/t",
        "s3://b c/t",
        "s3://b:9000/t",
        "abfss://c/t",
        "abfss://c@a/t",
        "http://h/t",
        "ftp://h/t",
        "hdfs://n/t",
        "C:\\t",
        "C:/t",
        "s3://b/a//t",
        "s3://b//t",
        "s3://b/t//",
        "s3://b/./t",
        "s3://b/../t",
        "s3://b/t/..",
        "/w/../t",
        "/w/./t",
        "file:///..",
        "s3://b/%2e%2e/t",
        "s3://b/%2E./t",
        "s3://b/%252e%252e/t",
        "s3://b/a%2F..%2Ft",
        "s3://b/a%5c..%5Ct",
        "s3://b/a\\t",
        "/w\\t",
        "s3://b/a\x00",
        "s3://b/a\nb",
        "s3://b/a\x7f",
        "s3://b/a\x85",
        "s3://b/\ud800",
        "s3://b/t?versionId=1",
        "s3://b/t#x",
        "gs://b/t?x",
        "abfss://c@a.dfs.core.windows.net/t#x",
        "/w/t?/../x",
        "/w/t#%2F..%2Fx",
    ],
)
def test_what_could_lead_elsewhere_is_refused(location: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid location"):
        normalize_location(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA:hunter2@b/t",
        "s3://hunter2@b/t",
        "http://me:hunter2@host/t",
        "hunter2@b",
        "abfss://x:hunter2@c@a.dfs.core.windows.net/t",
        "s3://b/../t?X-Amz-Signature=hunter2",
        "s3://b/t#hunter2",
    ],
)
def test_credentials_are_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        normalize_location(location)
    assert "hunter2" not in raised.value.message


def test_a_message_names_the_location_and_the_reason() -> None:
    with pytest.raises(BadRequestError) as raised:
        normalize_location("hdfs://n/t")
    assert raised.value.message == (
        "Invalid location 'hdfs://n/t': the scheme must be one of "
        "abfs, abfss, file, gs, s3, s3a, s3n, wasb, wasbs"
    )


def test_parts() -> None:
    assert normalize_location("s3a://b/t/1") == Location("s3", "b", "/t/1")
    assert normalize_location("s3a://b/t/1").key == "t/1"
    assert normalize_location("s3://b/").key == ""


@pytest.mark.parametrize(
    ("root", "location", "contained"),
    [
        ("s3://b/a", "s3://b/a", True),
        ("s3://b/a", "s3://b/a/", True),
        ("s3://b/a", "s3://b/a/b/c", True),
        ("s3://b/a/", "s3a://b/a/b", True),
        ("s3://b/a", "s3://b/ab", False),
        ("s3://b/a", "s3://b", False),
        ("s3://b/a", "s3://b/A/x", False),
        ("s3://b", "s3://b/anything", True),
        ("s3://b", "s3://bb/anything", False),
        ("s3://b/a", "gs://b/a", False),
        ("/", "/w", True),
        ("file:/w", "/w/t", True),
        ("/w", "/w2", False),
        ("/w/a#b", "file:///w/a#b/c?d", True),
        ("/w/a", "file:///w/a?b", False),
        ("/w/a?b", "file:///w/a", False),
        ("wasbs://c@a.blob.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/t/1", True),
    ],
)
def test_containment_ends_at_a_separator(root: str, location: str, contained: bool) -> None:
    assert normalize_location(root).contains(normalize_location(location)) is contained
    if contained:
        assert AllowedLocations([root]).check(location) == normalize_location(location)
    else:
        with pytest.raises(LocationNotAllowedError, match="not within the allowed locations"):
            AllowedLocations([root]).check(location)


def test_without_roots_nothing_is_allowed() -> None:
    with pytest.raises(LocationNotAllowedError):
        AllowedLocations([]).check("s3://b/t")


def test_a_malformed_location_is_malformed_before_it_is_forbidden() -> None:
    with pytest.raises(BadRequestError):
        AllowedLocations(["s3://b"]).check("s3://b/../c")
    with pytest.raises(BadRequestError):
        AllowedLocations(["s3://b/../c"])


def test_roots_are_normalized_and_not_repeated() -> None:
    roots = AllowedLocations(["s3a://b/a/", "s3://b/a", "/w"]).roots
    assert [str(root) for root in roots] == ["s3://b/a", "file:///w"]


SEGMENT = st.text("ab.%2eE-_ =+@ü", min_size=1, max_size=6)


@given(st.sampled_from(["s3://b", "gs://b", "file://"]), st.lists(SEGMENT, min_size=1, max_size=5))
def test_what_is_accepted_keeps_its_key(root: str, segments: list[str]) -> None:
    location = f"{root}/{'/'.join(segments)}"
    try:
        normalized = normalize_location(location)
    except BadRequestError:
        assert any(set(segment) <= set(".%2eE5") for segment in segments)
        return
    assert str(normalized) == location
    assert normalized.key == "/".join(segments)
    assert not {".", ".."} & set(segments)


@pytest.mark.parametrize("name", ["a\\b", "a#b", "a?b", "a\nb", "a\x7f\x85", "a%5Cb"])
def test_names_of_files_that_others_gave(name: str) -> None:
    location = FileLocation(f"s3a://b/t/{name}/f")
    assert normalize_location(location) == Location("s3", "b", f"/t/{name}/f")
    assert AllowedLocations(["s3://b/t"]).check(location).key == f"t/{name}/f"
    with pytest.raises(LocationNotAllowedError):
        AllowedLocations(["s3://b/u"]).check(location)


@pytest.mark.parametrize(
    "location", ["s3://b/a/../c", "s3://b/a\\..\\c", "s3://b/%2e%2e/c", "s3://b?x/c", "s3://b/a\0", ""]
)
def test_names_of_files_do_not_lead_elsewhere(location: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid location"):
        normalize_location(FileLocation(location))


@pytest.mark.parametrize(
    ("location", "cut"),
    [
        ("s3://b/t/a?b", "s3://b/t/a"),
        ("s3a://b/t/a#b?c/d", "s3a://b/t/a"),
        ("gs://b/t?a#b", "gs://b/t"),
        ("s3://b/t/a", None),
        ("/w/t/a?b", None),
        ("file:///w/a#b/c", None),
        ("hdfs://n/a?b", None),
        ("relative?x", None),
    ],
)
def test_what_clients_cut_off_an_object(location: str, cut: str | None) -> None:
    assert cut_location(location) == cut


def test_no_new_files_where_a_client_would_cut_the_name() -> None:
    for location in ("/w/t?x", "file:///w/a#b/c", "s3://b/t?x"):
        with pytest.raises(BadRequestError, match="must not carry a query or a fragment"):
            check_new_location(location)
    check_new_location("file:///w/t")


def test_control_characters_in_messages() -> None:
    assert FileLocation("s3://b/a\nb\x01é").shown == "s3://b/a\\nb\\x01é"


class TestBounds:
    """Of `floecat.limits`."""

    def test_defaults(self) -> None:
        longest = "s3://b/" + "x" * (8192 - len("s3://b/"))
        assert str(normalize_location(longest)) == longest
        with pytest.raises(
            BadRequestError, match=r"longer than 8192 bytes \(floecat\.limits\.location-bytes\)"
        ):
            normalize_location(longest + "x")
        assert normalize_location("s3://b/%" + "25" * 3 + "20/t").authority == "b"
        with pytest.raises(BadRequestError, match=r"4 times \(floecat\.limits\.percent-decoding-levels\)"):
            normalize_location("s3://b/%" + "25" * 4 + "20/t")

    @pytest.mark.parametrize("levels", range(6))
    def test_dots_are_found_at_every_level_that_is_decoded(self, levels: int) -> None:
        with pytest.raises(
            BadRequestError, match="path segment" if levels < 4 else "percent-decoding-levels"
        ):
            normalize_location("s3://b/" + f"%{'25' * levels}2e" * 2 + "/t")

    def test_bytes_are_counted_and_other_programs_names_too(self) -> None:
        with pytest.raises(BadRequestError, match="location-bytes"):
            normalize_location(FileLocation("s3://b/" + "ü" * 4093))

    def test_the_settings_of_the_process_count(self) -> None:
        process_bounds.limits = LimitSettings(location_bytes=20, percent_decoding_levels=1)
        try:
            assert str(normalize_location("s3://b/%20")) == "s3://b/%20"
            with pytest.raises(BadRequestError, match="more than 1 times"):
                normalize_location("s3://b/%2520")
            with pytest.raises(BadRequestError, match="longer than 20 bytes"):
                normalize_location("s3://b/" + "x" * 14)
        finally:
            process_bounds.limits = LimitSettings()
