from __future__ import annotations

import pytest

from floecat.delta.protocol.actions import Metadata, Protocol
from floecat.delta.protocol.table_features import READER_FEATURES, check_readable
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError

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
