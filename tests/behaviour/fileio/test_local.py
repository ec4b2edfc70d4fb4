"""What only the local disk can do wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    FileMissingError,
    LocationNotAllowedError,
    StorageRefusedError,
    StorageUnavailableError,
)
from floecat.fileio import local
from floecat.fileio.base import FileEntry
from floecat.fileio.local import LocalFileIO, local_failure
from floecat.fileio.locations import AllowedLocations, Location, normalize_location


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    return tmp_path / "root"


@pytest.fixture
def files(root: Path) -> LocalFileIO:
    return LocalFileIO([str(root)])


def test_the_spellings_of_a_path_are_one_file(root: Path, files: LocalFileIO) -> None:
    files.write_new(f"{root}/a/b", b"x")
    for spelling in (f"file:{root}/a/b", f"file://{root}/a/b", f"FILE://localhost{root}//a//b"):
        assert files.read(spelling) == b"x"


def test_question_marks_and_hashes_belong_to_names(root: Path, files: LocalFileIO) -> None:
    names = ["a", "a?b", "a#b", "d?e/f", "d#e/f"]
    for name in names:
        files.write_new(f"{root}/{name}", name.encode())
    assert sorted(entry.location for entry in files.list(str(root))) == sorted(
        f"file://{root}/{name}" for name in names
    )
    assert [files.read(f"file:{root}/{name}").decode() for name in names] == names
    assert files.list_folders(str(root)) == [f"file://{root}/d#e", f"file://{root}/d?e"]
    assert files.delete_many([f"{root}/{name}" for name in ("a?b", "d#e/f")]).failures == ()
    files.delete(f"{root}/a#b")
    assert [files.exists(f"{root}/{name}") for name in names] == [True, False, False, True, False]


def test_paths_outside_the_roots_are_refused(root: Path, files: LocalFileIO) -> None:
    neighbour = root.with_name("root2")
    neighbour.mkdir()
    for folder in (neighbour, root.parent / "outside"):
        with pytest.raises(LocationNotAllowedError):
            files.read(f"{folder}/secret")
        with pytest.raises(LocationNotAllowedError):
            files.write_new(f"{folder}/new", b"")
        with pytest.raises(LocationNotAllowedError):
            files.list(str(folder))
        assert [failure.location for failure in files.delete_many([f"{folder}/secret"]).failures] == [
            f"{folder}/secret"
        ]
    assert (root.parent / "outside" / "secret").exists()


def test_links_that_lead_outside_are_refused(root: Path, files: LocalFileIO) -> None:
    (root / "folder").symlink_to(root.parent / "outside")
    (root / "file").symlink_to(root.parent / "outside" / "secret")
    (root / "chain").symlink_to(root / "folder")
    for path in ("folder/secret", "file", "chain/secret"):
        for call in (files.read, files.exists, files.delete):
            with pytest.raises(LocationNotAllowedError, match="leads outside"):
                call(f"{root}/{path}")
    with pytest.raises(LocationNotAllowedError):
        files.write_new(f"{root}/folder/new", b"")
    with pytest.raises(LocationNotAllowedError):
        files.make_directory(f"{root}/folder/new/folder")
    assert os.listdir(root.parent / "outside") == ["secret"]


def test_links_that_lead_outside_are_refused_by_the_allowed_locations_too(root: Path) -> None:
    (root / "folder").symlink_to(root.parent / "outside")
    allowed = AllowedLocations([str(root), "s3://bucket/x"])
    assert str(allowed.check(f"{root}/a")) == f"file://{root}/a"
    assert str(allowed.check("s3a://bucket/x/y")) == "s3://bucket/x/y"
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        allowed.check(f"{root}/folder/secret")


def test_a_listing_follows_no_links(root: Path, files: LocalFileIO) -> None:
    (root / "folder").symlink_to(root.parent / "outside")
    (root / "file").symlink_to(root.parent / "outside" / "secret")
    (root / "loop").symlink_to(root)
    (root / "real").write_bytes(b"")
    assert [entry.location for entry in files.list(str(root))] == [f"file://{root}/real"]


def test_a_listing_does_not_look_at_files_before_its_start(
    root: Path, files: LocalFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1", "2", "3"):
        (root / name).write_bytes(b"")
    (root / "0").mkdir()
    (root / "0" / "1").write_bytes(b"")
    looked_at = []
    entry = local._entry

    def look(child: os.DirEntry[str], location: Location) -> Iterator[FileEntry]:
        looked_at.append(child.name)
        return entry(child, location)

    monkeypatch.setattr(local, "_entry", look)
    assert len(list(files.list(str(root), start_after="2"))) == 1
    assert looked_at == ["3"]
    assert files.counters.counts.lists == 1


def test_parts_are_not_read_through_links_that_lead_outside(root: Path, files: LocalFileIO) -> None:
    (root / "file").symlink_to(root.parent / "outside" / "secret")
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        files.read_range(f"{root}/file", 0, 1)
    os.mkfifo(root / "pipe")
    with pytest.raises(FileMissingError):
        files.read_ranges(f"{root}/pipe", [(0, 1)])


def test_a_root_may_itself_be_a_link(root: Path) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    files = LocalFileIO([str(link)])
    files.write_new(f"{link}/t/a", b"x")
    assert files.read(f"{link}/t/a") == b"x"
    assert [entry.location for entry in files.list(f"{link}/t")] == [f"file://{link}/t/a"]
    assert (root / "t" / "a").read_bytes() == b"x"


def test_links_inside_the_roots_are_followed_and_deleted_themselves(root: Path, files: LocalFileIO) -> None:
    (root / "target").write_bytes(b"x")
    (root / "link").symlink_to(root / "target")
    assert files.read(f"{root}/link") == b"x"
    with pytest.raises(AlreadyExistsError):
        files.write_new(f"{root}/link", b"y")
    files.delete(f"{root}/link")
    assert os.listdir(root) == ["target"]


def test_a_dangling_link_is_not_written_through(root: Path, files: LocalFileIO) -> None:
    (root / "link").symlink_to(root / "target")
    with pytest.raises(AlreadyExistsError):
        files.write_new(f"{root}/link", b"y")
    assert not (root / "target").exists()


def test_without_roots_callers_check(root: Path) -> None:
    files = LocalFileIO(fsync=False)
    files.write_new(f"{root}/a", b"x")
    assert files.read(f"{root}/a") == b"x"


def test_a_pipe_does_not_hold_the_reader(root: Path, files: LocalFileIO) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(FileMissingError):
        files.read(f"{root}/pipe")
    assert not files.exists(f"{root}/pipe")


def test_a_failed_write_leaves_nothing_behind(root: Path, files: LocalFileIO) -> None:
    (root / "taken").mkdir()
    with pytest.raises(AlreadyExistsError):
        files.write_new(f"{root}/taken", b"x")
    assert os.listdir(root) == ["taken"]
    assert os.listdir(root / "taken") == []


def test_a_file_is_no_folder(root: Path, files: LocalFileIO) -> None:
    (root / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailableError, match=r"a file where a folder of .*/file/below belongs"):
        files.write_new(f"{root}/file/below", b"")
    with pytest.raises(StorageUnavailableError, match=r"a file where a folder of .*/file/below/deep belongs"):
        files.make_directory(f"{root}/file/below/deep")
    with pytest.raises(BadRequestError, match="is a folder"):
        files.delete(str(root))
    with pytest.raises(StorageUnavailableError, match=r"a file where a folder of .*/file/below belongs"):
        files.delete(f"{root}/file/below")
    assert not files.exists(f"{root}/file/below")


def test_a_name_that_is_too_long(root: Path, files: LocalFileIO) -> None:
    with pytest.raises(BadRequestError):
        files.write_new(f"{root}/{'x' * 300}", b"")
    assert os.listdir(root) == []


def test_other_schemes_are_not_local(files: LocalFileIO) -> None:
    with pytest.raises(LocationNotAllowedError):
        files.read("s3://bucket/key")
    with pytest.raises(BadRequestError, match="not on the local disk"):
        LocalFileIO().read("s3://bucket/key")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, StorageUnavailableError, "no space left"),
        (errno.EDQUOT, StorageUnavailableError, "no space left"),
        (errno.EACCES, StorageRefusedError, "refuses access"),
        (errno.EROFS, StorageRefusedError, "refuses access"),
        (errno.EIO, StorageUnavailableError, "failed (EIO)"),
        (errno.ESTALE, StorageUnavailableError, "failed (ESTALE)"),
    ],
)
def test_failures_of_the_system_name_the_location_only(number: int, kind: type[Exception], text: str) -> None:
    failure = local_failure(OSError(number, "internal", "/internal/path"), normalize_location("/w/t/1.json"))
    assert type(failure) is kind
    assert text in failure.message
    assert "file:///w/t/1.json" in failure.message
    assert "internal" not in failure.message


@pytest.mark.parametrize("unique_name", [False, True])
def test_a_write_that_ends_half_way_leaves_nothing_behind(root: Path, unique_name: bool) -> None:
    # A process that may write files of 1,000 bytes only is a disk that is full for the rest.
    script = f"""
import resource
from floecat.errors import StorageUnavailableError
from floecat.fileio.local import LocalFileIO
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    LocalFileIO().write_new("{root}/new/file", b"x" * 2000, unique_name={unique_name})
except StorageUnavailableError as error:
    print(error.message)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told == f"Storage failed (EFBIG) at file://{root}/new/file\n"
    assert os.listdir(root / "new") == []


def test_nothing_is_left_of_a_unique_file_if_the_process_is_killed_before_it_has_its_name(root: Path) -> None:
    script = f"""
import os, signal
from floecat.fileio.local import LocalFileIO
os.link = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
LocalFileIO().write_new("{root}/new/file", b"x", unique_name=True)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert os.listdir(root / "new") == []


@pytest.mark.parametrize("unique_name", [False, True])
def test_a_file_its_name_and_the_names_of_all_new_folders_are_synced(
    root: Path, files: LocalFileIO, monkeypatch: pytest.MonkeyPatch, unique_name: bool
) -> None:
    synced = _watch_syncs(monkeypatch)
    deep = "/".join(f"{number}" for number in range(40))
    for folder, above in (("a/b", ["", "/a"]), ("a/b", []), ("a/c", ["/a"])):
        synced.clear()
        files.write_new(f"{root}/{folder}/{len(above)}", b"x", unique_name=unique_name)
        assert synced.keys() - {"file"} == {f"{root}{name}" for name in (*above, f"/{folder}")}
        assert synced["file"] == b"x"
        synced.clear()
        files.make_directory(f"{root}/m/{folder}/x", f"{root}/m/{folder}/y")
        assert synced.keys() >= {f"{root}/m{name}" for name in (*above, f"/{folder}")}
    synced.clear()
    files.write_new(f"{root}/{deep}/file", b"x", unique_name=unique_name)
    assert len(synced) == 42


def _watch_syncs(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Fills with what is synced while it has a name: folders by their path, and the content of a file."""
    synced: dict[str, bytes] = {}
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            synced[path] = b""
        elif os.fstat(descriptor).st_nlink:
            synced["file"] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    monkeypatch.setattr(os, "fsync", watched)
    return synced


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_a_file_system_without_unnamed_files(
    root: Path, files: LocalFileIO, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    open_ = os.open

    def open_named(path: str, flags: int, *arguments: int, **options: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, os.strerror(number))
        return open_(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", open_named)
    files.write_new(f"{root}/t/a", b"x", unique_name=True)
    with pytest.raises(AlreadyExistsError):
        files.write_new(f"{root}/t/a", b"y", unique_name=True)
    assert (os.listdir(root / "t"), (root / "t" / "a").read_bytes()) == (["a"], b"x")


def test_a_bulk_delete_takes_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "a").touch()
    (tmp_path / "b").touch()
    (tmp_path / "real" / "link").symlink_to(tmp_path / "b")
    (tmp_path / "real" / "below").mkdir()
    asked = [f"{tmp_path}/folder/{name}" for name in ("a", "link", "below", "missing", "odd name")]
    outcome = LocalFileIO(fsync=False).delete_many([*asked, f"{tmp_path}/missing/a", f"{tmp_path}/b/a"])
    assert outcome.deleted == 5
    assert [failure.location for failure in outcome.failures] == [
        f"{tmp_path}/folder/below",
        f"{tmp_path}/b/a",
    ]
    assert "is a folder" in outcome.failures[0].reason
    assert "a file where a folder" in outcome.failures[1].reason
    assert sorted(os.listdir(tmp_path)) == ["b", "folder", "real"]
    assert os.listdir(tmp_path / "real") == ["below"]


@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_becomes_a_link_after_the_check_is_not_deleted_in(root: Path, above: bool) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir()
    (outside / "deep" / "secret").touch()
    (root / "t" / "deep").mkdir(parents=True)
    allowed = AllowedLocations([str(root)])
    location = f"{root}/t/deep/secret" if above else f"{root}/t/secret"
    allowed.check(location)
    (root / "t").rename(root / "moved")
    (root / "t").symlink_to(outside)
    (failure,) = LocalFileIO(fsync=False).delete_many([location], allowed).failures
    assert "leads outside the allowed locations" in failure.reason
    assert not failure.passing
    assert sorted(os.listdir(outside)) == ["deep", "secret"]
    assert os.listdir(outside / "deep") == ["secret"]


@pytest.mark.parametrize("missing", [False, True])
def test_a_folder_that_becomes_a_link_while_it_is_opened_is_not_written_in(
    root: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    outside, folder, open_ = root.parent / "outside", root / "t", os.open
    (folder / "metadata").mkdir(parents=True)
    if not missing:
        (outside / "metadata").mkdir()
    before = sorted(map(str, outside.rglob("*")))

    def replacing(path: str, *arguments: int, **options: int) -> int:
        if folder.is_dir() and not folder.is_symlink():
            folder.rename(root / "moved")
            folder.symlink_to(outside)
        return open_(path, *arguments, **options)

    monkeypatch.setattr(os, "open", replacing)
    files, allowed = LocalFileIO(fsync=False), AllowedLocations([str(root)])
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        files.write_new(f"{folder}/metadata/a", b"x", unique_name=True, allowed=allowed)
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        files.make_directory(f"{folder}/metadata/a", allowed=allowed)
    assert sorted(map(str, outside.rglob("*"))) == before
    assert os.listdir(root / "moved" / "metadata") == []


def test_links_in_the_place_of_new_folders(root: Path) -> None:
    outside, allowed, files = root.parent / "outside", AllowedLocations([str(root)]), LocalFileIO(fsync=False)
    (root / "away").symlink_to(outside)
    (root / "nowhere").symlink_to(outside / "missing")
    (root / "here").symlink_to(root / "real")
    (root / "real").mkdir()
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        files.make_directory(f"{root}/away", allowed=allowed)
    for path in ("nowhere", "nowhere/below"):
        with pytest.raises(StorageUnavailableError):
            files.make_directory(f"{root}/{path}", allowed=allowed)
        with pytest.raises(StorageUnavailableError):
            files.write_new(f"{root}/{path}/a", b"x", allowed=allowed)
    files.make_directory(f"{root}/here", f"{root}/here/below", allowed=allowed)
    files.write_new(f"{root}/here/below/a", b"x", allowed=allowed)
    assert os.listdir(outside) == ["secret"]
    assert (root / "real" / "below" / "a").read_bytes() == b"x"


def test_what_is_written_is_checked_by_the_allowed_locations(root: Path) -> None:
    files, allowed = LocalFileIO(fsync=False), AllowedLocations([f"{root}/catalog"])
    with pytest.raises(LocationNotAllowedError):
        files.write_new(f"{root}/catalog2/a", b"x", allowed=allowed)
    with pytest.raises(LocationNotAllowedError):
        files.make_directory(f"{root}/catalog/a", f"{root}/catalog2", allowed=allowed)
    assert os.listdir(root) == []


def test_a_bulk_delete_follows_a_root_that_is_a_link(root: Path) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    (root / "a").touch()
    outcome = LocalFileIO(fsync=False).delete_many([f"{link}/a"], AllowedLocations([str(link)]))
    assert (outcome.deleted, os.listdir(root)) == (1, [])


def test_a_file_that_is_replaced_while_it_is_looked_up(
    root: Path, files: LocalFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, other, open_ = root / "a (deleted)", root / "b", os.open
    target.write_bytes(b"new")

    def replacing(path: str, *arguments: int, **options: int) -> int:
        descriptor = open_(path, *arguments, **options)
        if path == str(target):
            other.write_bytes(b"new")
            other.replace(target)
        return descriptor

    monkeypatch.setattr(os, "open", replacing)
    assert files.exists(str(target))
    assert files.read(str(target)) == b"new"
    assert files.read_range(str(target), 0, 3) == b"new"


def test_a_path_of_which_a_thousand_folders_are_missing(root: Path, files: LocalFileIO) -> None:
    deep = str(root) + "/a" * 1500
    assert not files.exists(deep)
    (root / "inside").symlink_to(root / "missing")
    (root / "outwards").symlink_to(root.parent / "missing")
    assert not files.exists(f"{root}/inside{'/a' * 1500}")
    with pytest.raises(LocationNotAllowedError):
        files.exists(f"{root}/outwards{'/a' * 1500}")
