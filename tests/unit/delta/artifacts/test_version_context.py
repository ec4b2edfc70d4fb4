from __future__ import annotations

from floecat.delta.artifacts.version_context import partition_names
from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FieldIds, assign_history
from floecat.delta.translation.translated_schema import translate_schema
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec, check_new_names
from tests.unit.delta.delta_metadata import field, mapped, metadata


def names(*history: Metadata) -> dict[int, str]:
    ids = FieldIds()
    assign_history(history, ids)
    schemas = [translate_schema(version, ids) for version in history]
    found = dict(partition_names(schemas))
    for partitioned in schemas:
        fields = tuple(
            PartitionField(found[column.field_id], "identity", column.source_id, column.field_id)
            for column in partitioned.partition_fields
        )
        for schema in schemas:
            check_new_names(PartitionSpec(0, fields), schema.schema)
    return found


def test_fields_are_named_like_their_columns() -> None:
    version = metadata(mapped("day", 1, "col-1"), mapped("x", 2, "col-2"), partitions=["day"], mode="name")
    assert names(version) == {1000: "day"}
    assert names(metadata(field("x"))) == {}


def test_a_renamed_column_renames_its_field_in_all_specs() -> None:
    before = metadata(mapped("day", 1, "day"), mapped("x", 2, "x"), partitions=["day"], mode="name")
    after = metadata(mapped("date", 1, "day"), mapped("x", 2, "x"), partitions=["date"], mode="name")
    dropped = metadata(mapped("x", 2, "x"), mode="name")
    assert names(before, after) == {1000: "date"}
    assert names(before, after, dropped) == {1000: "date"}


def test_a_replaced_table_with_a_partition_column_of_the_same_name() -> None:
    before = metadata(mapped("day", 1, "col-1"), mapped("x", 2, "col-2"), partitions=["day"], mode="name")
    after = metadata(mapped("day", 3, "col-3"), mapped("x", 4, "col-4"), partitions=["day"], mode="name")
    assert names(before, after) == {1000: "day_1000", 1001: "day_1001"}


def test_a_column_that_takes_over_the_name() -> None:
    before = metadata(mapped("a", 1, "a"), mapped("x", 2, "x"), partitions=["a"], mode="name")
    renamed = metadata(mapped("b", 1, "a"), mapped("x", 2, "x"), partitions=["b"], mode="name")
    added = metadata(
        mapped("b", 1, "a"), mapped("x", 2, "x"), mapped("a", 3, "col-3"), partitions=["b"], mode="name"
    )
    assert names(before, renamed, added) == {1000: "b"}
    swapped = metadata(mapped("x", 1, "a"), mapped("b", 2, "x"), partitions=["x"], mode="name")
    assert names(before, swapped) == {1000: "x_1000"}


def test_fields_of_one_column_with_two_types() -> None:
    before = metadata(field("a"), field("a_1000"), field("x"), partitions=["a"])
    after = metadata(field("a", "string"), field("x"), partitions=["a"])
    assert names(before, after) == {1000: "a_1000_2", 1001: "a"}
