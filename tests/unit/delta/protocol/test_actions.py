from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from floecat.delta.protocol.actions import (
    READER_FEATURES,
    CommitInfo,
    Metadata,
    Protocol,
    check_readable,
    commit_timestamp_ms,
    has_in_commit_timestamps,
)
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError


def test_actions_can_be_kept_as_json() -> None:
    for action in (
        Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")),
        Metadata("id", "{}", ("p",), {"delta.appendOnly": "true"}, "n", "d", "parquet", 5),
        Metadata("id", "{}"),
        CommitInfo(1, 2, "WRITE"),
    ):
        assert msgspec.json.decode(msgspec.json.encode(action), type=type(action)) == action


def test_actions_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Protocol(1, 2).min_reader_version = 3  # type: ignore[misc]


def test_actions_alone_do_not_load_arrow() -> None:
    modules = "floecat.delta.protocol.actions"
    code = f"import sys, {modules}; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


METADATA = Metadata("id", '{"type":"struct","fields":[]}')


def table_features(*names: str, writer: tuple[str, ...] = ()) -> Protocol:
    return Protocol(3, 7, names, (*names, *writer))


@pytest.mark.parametrize(
    "protocol", [Protocol(1, 1), Protocol(1, 2), Protocol(2, 5), Protocol(1, 7, (), ("x",))]
)
def test_tables_from_before_table_features(protocol: Protocol) -> None:
    check_readable(protocol, METADATA)


def test_known_features() -> None:
    check_readable(table_features(*READER_FEATURES), METADATA)
    check_readable(Protocol(3, 7), METADATA)


def test_features_for_writers_do_not_matter() -> None:
    writer = (
        "appendOnly",
        "checkConstraints",
        "clustering",
        "domainMetadata",
        "icebergCompatV2",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "somethingNew",
    )
    check_readable(table_features("deletionVectors", writer=writer), METADATA)


def test_unknown_features_are_all_named() -> None:
    with pytest.raises(UnsupportedDeltaTableError) as raised:
        check_readable(table_features("deletionVectors", "someFutureFeature", "another"), METADATA)
    assert raised.value.message == (
        "Reading the table needs table features that are not supported: another, someFutureFeature"
    )


@pytest.mark.parametrize(
    "name", ["catalogManaged", "catalogOwned-preview", "variantShredding", "variantShredding-preview"]
)
def test_features_that_cannot_be_read_exactly(name: str) -> None:
    with pytest.raises(UnsupportedDeltaTableError, match=name):
        check_readable(table_features(name), METADATA)


def test_a_catalog_that_is_named_to_writers_only() -> None:
    with pytest.raises(UnsupportedDeltaTableError, match="catalogManaged"):
        check_readable(Protocol(1, 7, (), ("catalogManaged",)), METADATA)


def test_unknown_reader_versions() -> None:
    with pytest.raises(UnsupportedDeltaTableError) as raised:
        check_readable(Protocol(99, 7, ("new",)), METADATA)
    assert raised.value.message == (
        "Reading the table needs Delta reader version 99 and table features that are not supported: new"
    )
    with pytest.raises(InvalidDeltaTableError, match="no Delta reader version 0"):
        check_readable(Protocol(0, 0), METADATA)


def test_other_file_formats() -> None:
    with pytest.raises(UnsupportedDeltaTableError, match="'orc', not in Parquet"):
        check_readable(Protocol(1, 2), Metadata("id", "{}", format_provider="orc"))
    check_readable(Protocol(1, 2), Metadata("id", "{}", format_provider="PARQUET"))


def test_a_table_without_a_schema() -> None:
    with pytest.raises(InvalidDeltaTableError, match="no schema"):
        check_readable(Protocol(1, 2), Metadata("id", ""))


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
