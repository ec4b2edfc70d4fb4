from __future__ import annotations

from pathlib import Path

import pytest

from floecat.purge.sharing.location_set import LocationSet, file_key


def test_a_location_is_added_once() -> None:
    with LocationSet() as seen:
        assert seen.add("s3://b/a")
        assert not seen.add("s3://b/a")
        assert seen.add("s3://b/A")
        assert "s3://b/a" in seen
        assert "s3://b/b" not in seen
        assert len(seen) == 2


@pytest.mark.parametrize("alias", ["s3a://b/t/f", "s3n://b/t/f", "S3://b/t/f", "s3://b/t/f/"])
def test_aliases_of_object_storage_are_one_file(alias: str) -> None:
    assert file_key(alias) == file_key("s3://b/t/f")


@pytest.mark.parametrize("other", ["gs://b/t/f", "s3://b2/t/f", "s3://b/t/f2", "s3://b/t/%66", "s3://b/t//f"])
def test_other_files_differ(other: str) -> None:
    assert file_key(other) != file_key("s3://b/t/f")


def test_local_aliases_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real = str(tmp_path / "real" / "f")
    for alias in (f"file://{real}", f"file:{real}", str(tmp_path / "link" / "f"), real.replace("/f", "//f")):
        assert file_key(alias) == file_key(real)


def test_names_with_question_marks_and_hashes(tmp_path: Path) -> None:
    """On the local disk they are names; an object is kept under both names that clients read."""
    local = [f"{tmp_path}/{name}" for name in ("a", "a?b", "a#b", "a?b#c")]
    assert len(set(map(file_key, local))) == 4
    assert all(file_key(f"file://{location}") == file_key(location) for location in local)
    with LocationSet() as kept:
        kept.keep(local[1])
        assert [location in kept for location in local] == [False, True, False, False]
        kept.keep("s3a://b/t/a?b")
        assert "s3://b/t/a" in kept
        assert "s3a://b/t/a?b" in kept
        assert "s3://b/t/a#b" not in kept


def test_malformed_locations_are_only_like_themselves() -> None:
    with LocationSet() as seen:
        assert seen.add("relative/path")
        assert not seen.add("relative/path")
        assert seen.add("other/path")
        assert seen.add("s3://b/\ud800")


def test_holds_more_than_its_memory() -> None:
    with LocationSet() as seen:
        assert all(seen.add(f"s3://b/t/{number}") for number in range(101_000))
        assert not any(seen.add(f"s3://b/t/{number}") for number in range(0, 101_000, 997))
        assert len(seen) == 101_000
        assert all(f"s3://b/t/{number}" in seen for number in range(0, 101_000, 997))
        assert "s3://b/t/101000" not in seen
        assert len(seen.keys(10)) == 10


@pytest.mark.parametrize(
    ("location", "alias"),
    [("s3://b/f", "s3a://b/f"), ("/f", "file:///f"), ("s3://b/a b/ü.parquet", "s3n://b/a b/ü.parquet")],
)
def test_short_and_unusual_names(location: str, alias: str) -> None:
    assert file_key(location) == file_key(alias)
    assert file_key(location) != file_key(location + "x")


def test_a_folder_holds_what_is_and_comes_below_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with LocationSet() as kept:
        kept.add_folder("s3://b/t")
        kept.add_folder((tmp_path / "link").as_uri() + "/")
        kept.add_folder("gs://whole-bucket")
        for inside in (
            "s3://b/t/f",
            "s3a://b/t/deep/er/f",
            (tmp_path / "real" / "f").as_uri(),
            (tmp_path / "link" / "a" / "f").as_uri(),
            "gs://whole-bucket/f",
        ):
            assert inside in kept
        for outside in (
            "s3://b/t2/f",
            "s3://b/f",
            "gs://b/t/f",
            (tmp_path / "f").as_uri(),
            "relative",
            "s3://b/t//f",
        ):
            assert outside not in kept
        assert len(kept) == 0


def test_a_link_made_meanwhile_counts_once_links_are_forgotten(tmp_path: Path) -> None:
    for folder in ("needed", "moved"):
        (tmp_path / folder).mkdir()
    with LocationSet() as kept:
        kept.add((tmp_path / "needed" / "f").as_uri())
        assert (tmp_path / "moved" / "f").as_uri() not in kept
        (tmp_path / "moved").rmdir()
        (tmp_path / "moved").symlink_to(tmp_path / "needed")
        kept.forget_links()
        assert (tmp_path / "moved" / "f").as_uri() in kept
