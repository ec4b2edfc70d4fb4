from __future__ import annotations

from collections.abc import Callable

import pytest

from floecat.purge.sharing.kept_files import KeptFiles
from floecat.purge.sharing.location_set import LocationSet


class Turns:
    """Announces batches; something is committed while it does."""

    def __init__(self, commit: Callable[[], object], refusals: int = 0) -> None:
        self.commit, self.refusals = commit, refusals
        self.calls: list[str] = []

    def begin(self) -> bool:
        self.calls.append("begin")
        self.refusals -= 1
        if self.refusals >= 0:
            return False
        self.commit()
        return True

    def end(self) -> None:
        self.calls.append("end")


def kept_files(committed: list[str], turns: Turns | None) -> KeptFiles:
    def catch_up(files: LocationSet) -> None:
        for location in committed:
            files.add(location)

    return KeptFiles(LocationSet(), catch_up, turns)


def test_what_is_committed_until_a_batch_is_announced_stays() -> None:
    committed = ["s3://b/early"]
    turns = Turns(lambda: committed.append("s3://b/late"))
    with kept_files(committed, turns) as kept:
        assert "s3://b/early" not in kept
        with kept.batch():
            assert "s3://b/early" in kept
            assert "s3://b/late" in kept
            assert turns.calls == ["begin"]
        assert turns.calls == ["begin", "end"]


def test_a_batch_waits_until_commits_were_made() -> None:
    turns = Turns(lambda: None, refusals=2)
    with kept_files([], turns) as kept, kept.batch():
        assert turns.calls == ["begin"] * 3


def test_a_batch_that_fails_is_ended() -> None:
    turns = Turns(lambda: None)
    with kept_files([], turns) as kept:
        with pytest.raises(PermissionError), kept.batch():
            raise PermissionError
        assert turns.calls == ["begin", "end"]


def test_a_purge_without_a_job_reads_what_was_committed_too() -> None:
    with kept_files(["s3://b/a"], None) as kept, kept.batch():
        assert "s3://b/a" in kept
