"""Updates of schemas, partition specs and sort orders (case O11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import ID_AND_DATA, column, order, schema, sort_field, spec, spec_field
from tests.contract.updates import (
    add_schema,
    add_sort_order,
    add_spec,
    append,
    remove_snapshot_ref,
    set_current_schema,
    set_default_sort_order,
    set_default_spec,
    update,
)

ID, DATA = ID_AND_DATA["fields"]
MORE = column(3, "more", "int")


def refused(table: Table, *updates: Any) -> str:
    """Commits what must be refused; nothing of it may be there afterwards. Returns the message."""
    before = table.get()
    answer = table.commit(updates)
    assert answer.status_code == 400, answer.text
    message = assert_error(answer, 400, answer.json()["error"]["type"])
    assert table.get() == before
    return message


class TestSchemas:
    def test_added_schema_gets_the_next_id_whatever_it_carries(self, table: Table):
        made = table.committed([add_schema(schema(ID, DATA, MORE, schema_id=77))])
        assert [each["schema-id"] for each in made["schemas"]] == [0, 1]
        assert made["schemas"][1] == schema(ID, DATA, MORE, schema_id=1)
        assert (made["current-schema-id"], made["last-column-id"]) == (0, 3)

    def test_minus_one_is_the_last_added(self, table: Table):
        made = table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema(-1)])
        assert made["current-schema-id"] == 1

    def test_equal_schema_is_reused(self, table: Table):
        table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema()])
        made = table.committed([add_schema(schema(ID, DATA, schema_id=9)), set_current_schema()])
        assert made["current-schema-id"] == 0
        assert len(made["schemas"]) == 2
        assert made["last-column-id"] == 3

    @pytest.mark.parametrize("filled", [False, True])
    def test_id_of_a_dropped_column_keeps_its_type(self, table: Table, filled: bool):
        table.committed(append(1, 1) if filled else [])
        table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema()])
        table.committed([add_schema(schema(ID, DATA)), set_current_schema()])
        message = refused(
            table, add_schema(schema(ID, DATA, column(3, "fresh", "string"))), set_current_schema()
        )
        assert message == (
            "Invalid schema: column fresh (field id 3) of type string takes the id of a column of type int,"
            " which may not become string in v2"
        )
        made = table.committed(
            [add_schema(schema(ID, DATA, column(3, "fresh", "long"))), set_current_schema()]
        )
        assert made["current-schema-id"] == 2

    def test_type_of_a_column_with_rows_stays(self, table: Table):
        changed = [add_schema(schema(ID, DATA | {"type": "int"})), set_current_schema()]
        table.committed(append(1, 1))
        assert "which may not become int" in refused(table, *changed)
        made = table.committed([remove_snapshot_ref("main"), *changed])
        assert made["current-schema-id"] == 1

    def test_column_that_moves_into_a_struct_is_refused(self, table: Table):
        table.committed(append(1, 1))
        moved = column(3, "s", {"type": "struct", "fields": [DATA]})
        message = refused(table, add_schema(schema(ID, moved)), set_current_schema())
        assert message == (
            "Invalid schema: column s.data (field id 2) of type string takes the id of a column"
            " at another place"
        )

    def test_id_of_a_metadata_column_is_refused(self, table: Table):
        message = refused(table, add_schema(schema(ID, DATA, column(2147483646, "_file", "string"))))
        assert message == (
            "Invalid schema: column _file (field id 2147483646) has a reserved id; the highest is 2147483447"
        )

    def test_schema_with_other_identifier_fields_is_another(self, table: Table):
        made = table.committed([add_schema(schema(ID, DATA, identifiers=[1])), set_current_schema()])
        assert [each.get("identifier-field-ids", []) for each in made["schemas"]] == [[], [1]]

    def test_dropping_the_highest_column_does_not_lower_last_column_id(self, table: Table):
        table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema()])
        dropped = table.committed([add_schema(schema(ID, DATA), last_column_id=2), set_current_schema()])
        assert dropped["last-column-id"] == 3
        again = table.committed(
            [add_schema(schema(ID, DATA, column(4, "more", "int"))), set_current_schema()]
        )
        assert (again["last-column-id"], again["current-schema-id"]) == (4, 2)

    @pytest.mark.parametrize("sent", [0, 1, 2, 3, 99, -1, None])
    def test_deprecated_last_column_id_is_ignored(self, table: Table, sent: int | None):
        made = table.committed([add_schema(schema(ID, DATA, MORE), last_column_id=sent)])
        assert made["last-column-id"] == 3

    def test_nested_ids_count(self, table: Table):
        inner = {"type": "struct", "fields": [column(8, "x", "int")]}
        made = table.committed([add_schema(schema(ID, column(5, "s", inner)))])
        assert made["last-column-id"] == 8

    def test_reverted_schema_gets_its_old_id(self, table: Table):
        table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema()])
        made = table.committed([set_current_schema(0)])
        assert made["current-schema-id"] == 0

    def test_minus_one_without_an_added_schema_is_refused(self, table: Table):
        assert refused(table, set_current_schema(-1))

    def test_unknown_schema_is_refused(self, table: Table):
        assert "7" in refused(table, set_current_schema(7))

    def test_current_schema_cannot_be_removed(self, table: Table):
        assert refused(table, update("remove-schemas", schema_ids=[0]))

    def test_unused_schemas_are_removed(self, table: Table):
        table.committed([add_schema(schema(ID, DATA, MORE)), set_current_schema()])
        made = table.committed([update("remove-schemas", schema_ids=[0])])
        assert [each["schema-id"] for each in made["schemas"]] == [1]
        again = table.committed([add_schema(schema(ID, MORE)), set_current_schema()])
        assert again["current-schema-id"] == 2

    def test_promotion_and_documentation(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, schema=schema(column(1, "a", "int")))
        wide = schema(column(1, "a", "long", doc="wider"))
        made = table.committed([add_schema(wide), set_current_schema()])
        assert made["schemas"][1] == wide | {"schema-id": 1}

    @pytest.mark.parametrize(
        "bad",
        [
            {"type": "struct", "fields": [{"id": 1, "name": "a"}]},
            schema(ID, column(2, "id", "int")),
            schema(ID, column(1, "b", "int")),
            schema(column(1, "v", "variant")),
            schema(column(1, "a", "int", initial_default=1)),
            schema(column(1, "a", "nonsense")),
            [],
            None,
        ],
        ids=["incomplete", "same name", "same id", "variant", "default", "type", "list", "null"],
    )
    def test_bad_schema_is_refused(self, table: Table, bad: Any):
        assert refused(table, add_schema(bad))

    def test_variant_column_is_added_to_a_v3_table(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, properties={"format-version": "3"})
        made = table.committed(
            [add_schema(schema(ID, DATA, column(3, "v", "variant"))), set_current_schema()]
        )
        assert made["schemas"][1]["fields"][2]["type"] == "variant"

    def test_schema_of_a_spec_or_order_field_may_be_gone_from_older_ones_only(
        self, catalog: Catalog, namespace: Namespace
    ):
        table = catalog.create_table(namespace, partition_spec=spec(spec_field(2, "identity", "data")))
        # Dropping the column of the default spec needs another spec first.
        made = table.committed(
            [add_spec(spec()), set_default_spec(), add_schema(schema(ID)), set_current_schema()]
        )
        assert (made["default-spec-id"], made["current-schema-id"]) == (1, 1)


class TestSpecs:
    BUCKET = spec(spec_field(1, "bucket[4]", "id_bucket", 1000), spec_id=1)

    def test_added_spec_gets_the_next_id_and_field_ids(self, table: Table):
        made = table.committed([add_spec(spec(spec_field(1, "bucket[4]", "id_bucket"), spec_id=8))])
        assert made["partition-specs"] == [spec(), self.BUCKET]
        assert (made["default-spec-id"], made["last-partition-id"]) == (0, 1000)

    def test_minus_one_is_the_last_added(self, table: Table):
        assert table.committed([add_spec(self.BUCKET), set_default_spec(-1)])["default-spec-id"] == 1

    def test_equal_spec_is_reused(self, table: Table):
        table.committed([add_spec(self.BUCKET), set_default_spec()])
        made = table.committed([add_spec(spec(spec_id=5)), set_default_spec()])
        assert (made["default-spec-id"], len(made["partition-specs"])) == (0, 2)
        again = table.committed([add_spec(self.BUCKET | {"spec-id": 12}), set_default_spec()])
        assert (again["default-spec-id"], len(again["partition-specs"])) == (1, 2)
        assert again["last-partition-id"] == 1000

    def test_field_that_an_earlier_spec_had_keeps_its_id(self, table: Table):
        table.committed([add_spec(self.BUCKET), set_default_spec()])
        both = spec(spec_field(1, "bucket[4]", "id_bucket"), spec_field(2, "identity", "data"))
        made = table.committed([add_spec(both), set_default_spec()])
        fields = made["partition-specs"][2]["fields"]
        assert [field["field-id"] for field in fields] == [1000, 1001]
        assert made["last-partition-id"] == 1001

    def test_default_spec_cannot_be_removed(self, table: Table):
        assert refused(table, update("remove-partition-specs", spec_ids=[0]))

    def test_unused_specs_are_removed(self, table: Table):
        table.committed([add_spec(self.BUCKET), set_default_spec()])
        made = table.committed([update("remove-partition-specs", spec_ids=[0])])
        assert made["partition-specs"] == [self.BUCKET]

    def test_unknown_or_missing_spec_is_refused(self, table: Table):
        assert refused(table, set_default_spec(-1))
        assert "9" in refused(table, set_default_spec(9))

    @pytest.mark.parametrize(
        "bad",
        [
            spec(spec_field(9, "identity", "x")),
            spec(spec_field(2, "hour", "x")),
            spec(spec_field(1, "bucket[-1]", "x")),
            spec(spec_field(1, "identity", "x"), spec_field(2, "identity", "x")),
            spec(spec_field(1, "bucket[4]", "data")),
            spec(spec_field(1, "identity", "x", 1000), spec_field(2, "identity", "y", 1000)),
            {"spec-id": 1},
            None,
        ],
        ids=[
            "column",
            "transform",
            "bucket",
            "same name",
            "name of a column",
            "same id",
            "no fields",
            "null",
        ],
    )
    def test_bad_spec_is_refused(self, table: Table, bad: Any):
        assert refused(table, add_spec(bad))

    def test_spec_is_bound_to_the_current_schema_of_the_same_commit(self, table: Table):
        dated = schema(ID, DATA, column(3, "ts", "timestamptz"))
        made = table.committed(
            [
                add_schema(dated),
                set_current_schema(),
                add_spec(spec(spec_field(3, "day", "ts_day"))),
                set_default_spec(),
            ]
        )
        assert made["partition-specs"][1]["fields"] == [spec_field(3, "day", "ts_day", 1000)]


class TestSortOrders:
    BY_ID = order(sort_field(1), order_id=1)

    def test_added_order_gets_the_next_id(self, table: Table):
        made = table.committed([add_sort_order(self.BY_ID | {"order-id": 7})])
        assert made["sort-orders"] == [order(order_id=0), self.BY_ID]
        assert made["default-sort-order-id"] == 0

    def test_minus_one_is_the_last_added(self, table: Table):
        assert (
            table.committed([add_sort_order(self.BY_ID), set_default_sort_order(-1)])["default-sort-order-id"]
            == 1
        )

    def test_unsorted_is_always_order_0(self, table: Table):
        table.committed([add_sort_order(self.BY_ID), set_default_sort_order()])
        made = table.committed([add_sort_order(order(order_id=5)), set_default_sort_order()])
        assert (made["default-sort-order-id"], len(made["sort-orders"])) == (0, 2)

    def test_equal_order_is_reused(self, table: Table):
        table.committed([add_sort_order(self.BY_ID), set_default_sort_order()])
        table.committed([add_sort_order(order(sort_field(2, descending=True))), set_default_sort_order()])
        made = table.committed([add_sort_order(self.BY_ID | {"order-id": 9}), set_default_sort_order()])
        assert (made["default-sort-order-id"], len(made["sort-orders"])) == (1, 3)

    def test_unknown_or_missing_order_is_refused(self, table: Table):
        assert refused(table, set_default_sort_order(-1))
        assert "9" in refused(table, set_default_sort_order(9))

    @pytest.mark.parametrize(
        "bad",
        [
            order(sort_field(9)),
            order(sort_field(2, "day")),
            order(sort_field(1) | {"direction": "sideways"}),
            order(sort_field(1) | {"null-order": "nulls-maybe"}),
            {"order-id": 1},
            None,
        ],
        ids=["column", "transform", "direction", "nulls", "no fields", "null"],
    )
    def test_bad_order_is_refused(self, table: Table, bad: Any):
        assert refused(table, add_sort_order(bad))


def test_updates_apply_in_order_and_all_or_none(table: Table):
    message = refused(
        table,
        add_schema(schema(ID, DATA, MORE)),
        set_current_schema(),
        *append(1, 1),
        set_default_spec(5),
    )
    assert "5" in message
