from __future__ import annotations

import pytest

from floecat.delta.log.log_files import LogFile, commit_name
from floecat.delta.log.log_listing import LogListing
from floecat.errors import InvalidDeltaTableError

LOCATION = "s3://bucket/t"


def checkpoint_name(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def compaction_name(first: int, last: int) -> str:
    return f"{first:020}.{last:020}.compacted.json"


def listing(*names: str, after: int | None = None) -> LogListing:
    return LogListing([LogFile(name, 10, 20) for name in names], location=LOCATION, after=after)


def commits(*versions: int) -> list[str]:
    return [commit_name(version) for version in versions]


def replayed(found: LogListing, version: int) -> tuple[int | None, list[str]]:
    segment = found.segment(version)
    return segment.checkpoint.version if segment.checkpoint else None, [file.name for file in segment.files]


def test_a_log_from_its_start() -> None:
    found = listing(*commits(0, 1, 2))
    assert (found.latest, found.oldest, found.versions, found.after) == (2, 0, (0, 1, 2), None)
    assert replayed(found, 1) == (None, commits(0, 1))
    assert found.has_commit(2)
    assert not found.has_commit(3)
    assert found.checkpoint(1) is None


def test_the_newest_checkpoint_at_or_before_a_version_is_taken() -> None:
    found = listing(*commits(*range(8)), checkpoint_name(2), checkpoint_name(5))
    assert replayed(found, 1) == (None, commits(0, 1))
    assert replayed(found, 2) == (2, [])
    assert replayed(found, 4) == (2, commits(3, 4))
    assert replayed(found, 7) == (5, commits(6, 7))
    assert found.versions == tuple(range(8))
    assert found.oldest == 0


def test_a_cleaned_log_starts_at_a_checkpoint() -> None:
    found = listing(*commits(3, 4, 5, 6), checkpoint_name(4))
    assert (found.latest, found.oldest, found.versions) == (6, 4, (4, 5, 6))
    with pytest.raises(
        InvalidDeltaTableError, match=r"Version 0 is missing .*s3://bucket/t: version 3 cannot"
    ):
        found.segment(3)


def test_versions_that_only_a_checkpoint_has() -> None:
    found = listing(checkpoint_name(2), checkpoint_name(5), *commits(6))
    assert (found.latest, found.oldest, found.versions) == (6, 5, (2, 5, 6))
    alone = listing(checkpoint_name(2), checkpoint_name(3))
    assert (alone.latest, alone.oldest, alone.versions) == (3, 3, (2, 3))
    assert alone.fingerprint == f"{checkpoint_name(3)}:10:20"
    assert alone.timestamp_ms(3) == 20


def test_a_gap_before_the_newest_checkpoint_only_hides_old_versions() -> None:
    found = listing(*commits(0, 1, 3, 4, 5), checkpoint_name(4))
    assert found.versions == (0, 1, 4, 5)
    assert found.oldest == 4
    with pytest.raises(InvalidDeltaTableError, match="Version 2 is missing"):
        found.segment(3)


def test_a_gap_after_it_is_an_error_that_names_the_version() -> None:
    found = listing(*commits(0, 2))
    assert found.latest == 2
    for look in (lambda: found.versions, lambda: found.oldest, lambda: found.segment(2)):
        with pytest.raises(InvalidDeltaTableError, match=r"Version 1 is missing .* version 2 cannot be read"):
            look()
    assert replayed(found, 0) == (None, commits(0))


def test_a_missing_part_is_named() -> None:
    part = "00000000000000000003.checkpoint.0000000001.0000000002.parquet"
    found = listing(*commits(4), part)
    with pytest.raises(InvalidDeltaTableError, match=r"0000000002\.0000000002\.parquet of a checkpoint"):
        found.segment(4)


def test_what_the_newest_state_needs() -> None:
    found = listing(*commits(*range(6)), checkpoint_name(1), checkpoint_name(4))
    assert [version for version in range(6) if found.needs(version)] == [4, 5]
    assert listing(*commits(0, 1)).needs(0)
    assert listing(*commits(6), after=5).needs(6)


def test_there_is_no_log() -> None:
    with pytest.raises(InvalidDeltaTableError, match="There is no Delta log in s3://bucket/t"):
        listing("_last_checkpoint", compaction_name(0, 3))


def test_there_is_no_such_version() -> None:
    with pytest.raises(InvalidDeltaTableError, match="has no version 5: its newest is 1"):
        listing(*commits(0, 1)).segment(5)
    with pytest.raises(InvalidDeltaTableError, match="-1"):
        listing(*commits(0, 1)).segment(-1)


def test_compactions_stand_for_commits() -> None:
    found = listing(
        *commits(*range(10)),
        compaction_name(1, 3),
        compaction_name(1, 4),
        compaction_name(4, 6),
        compaction_name(5, 9),
    )
    assert replayed(found, 9)[1] == [*commits(0), compaction_name(1, 4), compaction_name(5, 9)]
    assert replayed(found, 8)[1] == [*commits(0), compaction_name(1, 4), *commits(5, 6, 7, 8)]
    assert replayed(found, 3)[1] == [*commits(0), compaction_name(1, 3)]
    assert replayed(found, 2)[1] == commits(0, 1, 2)


def test_compactions_from_before_a_checkpoint_or_back_in_time_are_not_used() -> None:
    found = listing(
        *commits(*range(6)),
        checkpoint_name(2),
        compaction_name(1, 4),
        compaction_name(4, 4),
        compaction_name(5, 3),
    )
    assert replayed(found, 5) == (2, commits(3, 4, 5))


def test_a_compaction_does_not_fill_a_gap() -> None:
    with pytest.raises(InvalidDeltaTableError, match="Version 2 is missing"):
        listing(*commits(0, 1, 3), compaction_name(1, 3)).segment(3)


def test_a_listing_after_a_version() -> None:
    found = listing(*commits(6, 7), after=5)
    assert (found.latest, found.oldest, found.versions) == (7, 6, (6, 7))
    assert not found.reaches(7)
    assert replayed(found, 7) == (None, commits(6, 7))
    assert [file.name for file in found.commits(5, 7)] == commits(6, 7)
    assert found.fingerprint == found.fingerprint_of(7) == f"{commit_name(7)}:10:20"
    assert found.fingerprint_of(5) is None


def test_nothing_came_after_a_version() -> None:
    found = listing(after=5)
    assert (found.latest, found.oldest, found.versions, found.fingerprint) == (5, 5, (), None)
    assert found.timestamp_ms(5) is None


def test_a_listing_after_a_version_with_a_checkpoint() -> None:
    found = listing(*commits(8, 9), checkpoint_name(8), after=5)
    assert found.versions == (8, 9)
    assert found.reaches(8)
    assert not found.reaches(7)
    with pytest.raises(InvalidDeltaTableError, match="Version 6 is missing"):
        found.commits(5, 9)


def test_a_listing_after_a_version_with_a_gap() -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"Version 6 is missing .* version 7"):
        _ = listing(*commits(7), after=5).versions


def test_times_grow_with_versions() -> None:
    at_ms = {0: 100, 1: 100, 2: 90, 3: 500, 4: 499}
    found = LogListing(
        [LogFile(commit_name(version), 1, at) for version, at in at_ms.items()], location=LOCATION
    )
    assert [found.timestamp_ms(version) for version in range(5)] == [100, 101, 102, 500, 501]


def test_ways_without_damaged_files() -> None:
    found = listing(
        *commits(*range(7)),
        checkpoint_name(2),
        checkpoint_name(5),
        compaction_name(0, 4),
        compaction_name(3, 6),
        compaction_name(3, 4),
    )
    assert replayed(found, 6) == (5, commits(6))
    assert found.leave_out([checkpoint_name(5)], "it is damaged")
    assert not found.leave_out([checkpoint_name(5), "_sidecars/x"], "it is damaged")
    assert replayed(found, 6) == (2, [compaction_name(3, 6)])
    found.leave_out([compaction_name(3, 6)], "damaged too")
    assert replayed(found, 6) == (2, [compaction_name(3, 4), *commits(5, 6)])
    found.leave_out([checkpoint_name(2)], "and this")
    assert replayed(found, 6) == (None, [compaction_name(0, 4), *commits(5, 6)])
    found.leave_out([compaction_name(0, 4), compaction_name(3, 4)], "all of them")
    assert replayed(found, 6) == (None, commits(*range(7)))
    assert (found.versions, found.latest, found.oldest) == (tuple(range(7)), 6, 0)
    assert found.needs(0)
    found.leave_out(commits(5), "5 is damaged")
    assert replayed(found, 4) == (None, commits(*range(5)))
    assert not found.has_commit(5)
    with pytest.raises(InvalidDeltaTableError, match=r"^5 is damaged; it is damaged; damaged too$"):
        found.segment(6)
    with pytest.raises(InvalidDeltaTableError, match=r"^5 is damaged$"):
        found.commits(4, 6)


def test_a_compaction_that_is_shorter_leads_past_a_damaged_commit() -> None:
    found = listing(*commits(*range(8)), compaction_name(0, 4), compaction_name(1, 2), compaction_name(3, 6))
    found.leave_out(commits(5), "damaged")
    assert replayed(found, 7) == (
        None,
        [*commits(0), compaction_name(1, 2), compaction_name(3, 6), *commits(7)],
    )
    with pytest.raises(InvalidDeltaTableError, match=r"^damaged$"):
        found.segment(5)


def test_a_replaced_file_is_another_one() -> None:
    found = listing(*commits(0), checkpoint_name(0))
    names = [checkpoint_name(0), "_sidecars/x"]
    assert found.fingerprint_of_files(names) == f"{checkpoint_name(0)}:10:20|_sidecars/x:missing"
