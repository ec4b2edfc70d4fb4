from __future__ import annotations

import pytest

from floecat.delta.protocol.actions import CommitInfo, Metadata
from floecat.delta.protocol.version_timestamps import commit_timestamp_ms, has_in_commit_timestamps
from floecat.errors import InvalidDeltaTableError


def metadata(value: str | None) -> Metadata:
    return Metadata(
        "id", "{}", configuration={} if value is None else {"delta.enableInCommitTimestamps": value}
    )


def test_the_commit_says_its_time_if_it_must() -> None:
    info = CommitInfo(timestamp_ms=1, in_commit_timestamp_ms=2)
    assert commit_timestamp_ms(metadata("true"), info, 3, location="c") == 2
    assert commit_timestamp_ms(metadata("TRUE"), info, 3, location="c") == 2


@pytest.mark.parametrize("value", [None, "false", ""])
def test_else_it_is_the_time_of_the_file(value: str | None) -> None:
    info = CommitInfo(timestamp_ms=1, in_commit_timestamp_ms=2)
    assert not has_in_commit_timestamps(metadata(value))
    assert commit_timestamp_ms(metadata(value), info, 3, location="c") == 3
    assert commit_timestamp_ms(metadata(value), None, 3, location="c") == 3


@pytest.mark.parametrize("info", [None, CommitInfo(timestamp_ms=1)])
def test_a_time_that_is_missing(info: CommitInfo | None) -> None:
    with pytest.raises(InvalidDeltaTableError, match="some-place lacks the in-commit timestamp"):
        commit_timestamp_ms(metadata("true"), info, 3, location="some-place")
