from __future__ import annotations

import pytest

from floecat.delta.log.partition_columns import physical_partition_names
from floecat.delta.protocol.actions import Metadata
from floecat.errors import InvalidDeltaTableError
from tests.unit.delta.log_lines import schema_string

MAPPED = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 4}


def test_names_of_a_table_without_mapping() -> None:
    schema = schema_string("a", "b", "c", b=MAPPED)
    assert physical_partition_names(Metadata("id", schema, ("c", "b"))) == ("c", "b")
    assert physical_partition_names(Metadata("id", schema, ())) == ()


@pytest.mark.parametrize("mode", ["name", "id", "NAME"])
def test_names_of_a_mapped_table(mode: str) -> None:
    metadata = Metadata("id", schema_string("a", "b", b=MAPPED), ("b",), {"delta.columnMapping.mode": mode})
    assert physical_partition_names(metadata) == ("col-1",)


def test_a_mapping_that_was_never_turned_on() -> None:
    metadata = Metadata("id", schema_string("b", b=MAPPED), ("b",), {"delta.columnMapping.mode": "none"})
    assert physical_partition_names(metadata) == ("b",)


def test_broken_metadata() -> None:
    with pytest.raises(InvalidDeltaTableError, match="one column twice"):
        physical_partition_names(Metadata("id", schema_string("a"), ("a", "a")))
    with pytest.raises(InvalidDeltaTableError, match="'z' is not in the schema"):
        physical_partition_names(Metadata("id", schema_string("a"), ("z",)))
    with pytest.raises(InvalidDeltaTableError, match="'a' of a mapped table has no physical name"):
        physical_partition_names(
            Metadata("id", schema_string("a"), ("a",), {"delta.columnMapping.mode": "id"})
        )
    with pytest.raises(InvalidDeltaTableError, match="not valid JSON") as raised:
        physical_partition_names(Metadata("id", "{secret", ("a",)))
    assert "secret" not in raised.value.message
