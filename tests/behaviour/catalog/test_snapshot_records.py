"""What engines put of snapshots: statistics, constraints and index artifacts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from floecat.commits.commit import CreateTable
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    IllegalArgumentError,
    LocationNotAllowedError,
    NoSuchTableError,
    NotFoundError,
)
from floecat.runtime import Kernel
from floecat.statistics.constraints import (
    Constraint,
    ConstraintBundle,
    ConstraintColumn,
    ConstraintType,
    ReferencedTable,
)
from floecat.statistics.index_artifacts import IndexArtifact
from floecat.statistics.records import (
    ColumnTarget,
    ExpressionTarget,
    FileStatistics,
    FileTarget,
    ScalarStatistics,
    StatisticsRecord,
    TableStatistics,
    TableTarget,
    TargetKind,
    target_storage_id,
)
from tests.behaviour.catalog.changes import append, create, set_property, table
from tests.behaviour.catalog.conftest import with_key

T = table("t")
ID = ConstraintColumn(1, "id", 1)
TEXT = ConstraintColumn(2, "text", 1)


@pytest.fixture(autouse=True)
def location(kernel: Kernel, call: Call) -> str:
    """The location of a table `t` with the snapshots 1 and 2."""
    found: str = json.loads(create(kernel, call, "t").metadata)["location"]
    for number in (1, 2):
        kernel.commits.tables.commit(call, append("t", number, number - 1 or None, found))
    return found


def column(number: int, rows: int = 1) -> StatisticsRecord:
    return StatisticsRecord(ColumnTarget(number), scalar=ScalarStatistics(row_count=rows))


def expression(key: str) -> StatisticsRecord:
    return StatisticsRecord(ExpressionTarget("Trino", key.encode()), scalar=ScalarStatistics(row_count=3))


def file(path: str) -> StatisticsRecord:
    return StatisticsRecord(FileTarget(path), file=FileStatistics(path))


class TestStatistics:
    def test_a_put_replaces_the_record_of_its_target(self, kernel: Kernel, call: Call) -> None:
        whole = StatisticsRecord(TableTarget(), table=TableStatistics(5))
        assert (
            kernel.statistics.targets.put(
                call, T, "2", [column(1), column(1, rows=2), whole, expression("a")]
            )
            == 3
        )
        assert kernel.statistics.targets.put(call, T, None, [column(1, rows=7)]) == 1
        snapshot_id, page = kernel.statistics.targets.list(call, T)
        assert (snapshot_id, page.items) == (2, [column(1, rows=7), expression("a"), whole])
        assert kernel.statistics.targets.list(call, T, "1")[1].items == []
        assert kernel.statistics.targets.get(call, T, "main", "table") == whole
        with pytest.raises(NotFoundError, match="no statistics of table in snapshot 1"):
            kernel.statistics.targets.get(call, T, "1", "table")

    def test_one_kind_is_listed_page_by_page(self, kernel: Kernel, call: Call) -> None:
        columns = [column(number) for number in range(1, 8)]
        kernel.statistics.targets.put(call, T, "2", [*columns, expression("a"), file("s3://lake/a.parquet")])
        found: list[StatisticsRecord] = []
        token: str | None = None
        while token is not None or not found:
            _, page = kernel.statistics.targets.list(call, T, "2", TargetKind.COLUMN, PageRequest(token, 3))
            found += page.items
            token = page.next_token
        assert found == columns
        for kind, expected in (
            (TargetKind.TABLE, []),
            (TargetKind.EXPRESSION, [expression("a")]),
        ):
            assert kernel.statistics.targets.list(call, T, "2", kind)[1].items == expected
        _, page = kernel.statistics.targets.list(call, T, "2", TargetKind.COLUMN, PageRequest("", 3))
        with pytest.raises(BadRequestError, match="does not belong to this listing"):
            kernel.statistics.targets.list(call, T, "1", TargetKind.COLUMN, PageRequest(page.next_token, 3))

    def test_a_snapshot_that_is_not_there_yet_takes_records_if_asked_to(
        self, kernel: Kernel, call: Call, location: str
    ) -> None:
        with pytest.raises(NotFoundError, match="no snapshot 3"):
            kernel.statistics.targets.put(call, T, "3", [column(1)])
        assert kernel.statistics.targets.put(call, T, "3", [column(1)], strict=False) == 1
        kernel.commits.tables.commit(call, append("t", 3, 2, location))
        assert kernel.statistics.targets.list(call, T)[1].items == [column(1)]

    def test_bad_records_are_refused_and_nothing_is_put(self, kernel: Kernel, call: Call) -> None:
        wrong = StatisticsRecord(ColumnTarget(2), table=TableStatistics(5))
        with pytest.raises(IllegalArgumentError, match="a column target takes a scalar value"):
            kernel.statistics.targets.put(call, T, "2", [column(1), wrong])
        with pytest.raises(BadRequestError, match="at most 10,000"):
            kernel.statistics.targets.put(call, T, "2", [column(1)] * 10_001)
        with pytest.raises(BadRequestError, match="Invalid snapshot"):
            kernel.statistics.targets.put(call, T, "no such branch", [column(1)])
        with pytest.raises(NoSuchTableError):
            kernel.statistics.targets.put(call, table("missing"), "2", [column(1)])
        assert kernel.statistics.targets.list(call, T)[1].items == []

    def test_a_key_makes_a_repetition_harmless(self, kernel: Kernel, call: Call) -> None:
        keyed = with_key(call, "0198c7a0-0000-7000-8000-000000000001")
        assert kernel.statistics.targets.put(keyed, T, "2", [column(1)]) == 1
        kernel.statistics.targets.put(call, T, "2", [column(1, rows=9)])
        assert kernel.statistics.targets.put(keyed, T, "2", [column(1)]) == 1
        for target in (f"column-{1:019d}", "column-1"):
            assert kernel.statistics.targets.get(call, T, "2", target) == column(1, rows=9)


class TestConstraints:
    def test_metadata_has_constraints_and_puts_add_to_them(self, kernel: Kernel, call: Call) -> None:
        schema = {
            "type": "struct",
            "identifier-field-ids": [1],
            "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
        }
        made = CreateTable(name="keyed", schema=msgspec.Raw(json.dumps(schema).encode()))
        location = json.loads(kernel.commits.tables.create_table(call, ("ns",), made).metadata)["location"]
        kernel.commits.tables.commit(call, append("keyed", 1, None, location))
        kernel.commits.tables.commit(call, set_property("keyed", "delta.constraints.positive", "id > 0"))
        key, not_null, check = kernel.statistics.constraints.get(call, table("keyed")).constraints
        assert (key.type, key.enforced, key.columns) == (ConstraintType.PRIMARY_KEY, False, (ID,))
        assert (not_null.type, not_null.enforced, not_null.columns) == (ConstraintType.NOT_NULL, True, (ID,))
        assert (check.name, check.type, check.check_expression) == (
            "positive",
            ConstraintType.CHECK,
            "id > 0",
        )
        foreign = Constraint(
            "fk",
            ConstraintType.FOREIGN_KEY,
            (ID,),
            referenced_table=ReferencedTable(("ns",), "t"),
            referenced_columns=(ID,),
        )
        kernel.statistics.constraints.merge(call, table("keyed"), None, ConstraintBundle((foreign,)))
        assert kernel.statistics.constraints.get(call, table("keyed")).constraints[-1] == foreign

    def test_bundles_are_replaced_merged_appended_and_deleted(self, kernel: Kernel, call: Call) -> None:
        unique = Constraint("u", ConstraintType.UNIQUE, (ID,))
        other = Constraint("u", ConstraintType.UNIQUE, (TEXT,))
        check = Constraint("c", ConstraintType.CHECK, check_expression="id > 0")
        constraints = kernel.statistics.constraints
        put = constraints.put(call, T, "1", ConstraintBundle((unique,), {"a": "1"}))
        assert (put.snapshot_id, put.constraints, put.changed) == (1, (unique,), True)
        assert not constraints.put(call, T, "1", ConstraintBundle((unique,), {"a": "1"})).changed
        merged = constraints.merge(call, T, "1", ConstraintBundle((other, check), {"b": "2"}))
        assert (merged.constraints, merged.properties) == ((other, check), {"a": "1", "b": "2"})
        with pytest.raises(AlreadyExistsError, match="Constraint already exists: u"):
            constraints.append(call, T, "1", ConstraintBundle((unique,)))
        assert constraints.delete(call, T, "1", "u").constraints == (check,)
        with pytest.raises(NotFoundError, match="Constraint does not exist: u"):
            constraints.delete(call, T, "1", "u")
        constraints.append(call, T, "2", ConstraintBundle((unique,)))
        page = constraints.list(call, T, PageRequest("", 1))
        assert [each.snapshot_id for each in page.items] == [1]
        rest = constraints.list(call, T, PageRequest(page.next_token, 1))
        assert ([each.snapshot_id for each in rest.items], rest.next_token) == ([2], None)
        assert constraints.delete(call, T, "1").constraints == ()

    @pytest.mark.parametrize(
        ("bundle", "problem"),
        [
            ((Constraint("", ConstraintType.UNIQUE, (ID,)),), "the name is empty"),
            ((Constraint("u", ConstraintType.UNIQUE),), "columns are missing"),
            ((Constraint("c", ConstraintType.CHECK),), "check-expression is empty"),
            ((Constraint("f", ConstraintType.FOREIGN_KEY, (ID,)),), "referenced-table is missing"),
            ((Constraint("u", ConstraintType.UNIQUE, (ID,)),) * 2, "two have the same name"),
        ],
    )
    def test_bad_constraints_are_refused(
        self, kernel: Kernel, call: Call, bundle: tuple[Constraint, ...], problem: str
    ) -> None:
        with pytest.raises(IllegalArgumentError, match=problem):
            kernel.statistics.constraints.put(call, T, "1", ConstraintBundle(bundle))

    def test_constraints_that_are_added_at_once_are_all_there(self, kernel: Kernel, call: Call) -> None:
        made = [Constraint(f"u{number}", ConstraintType.UNIQUE, (ID,)) for number in range(8)]

        def add(constraint: Constraint) -> None:
            kernel.statistics.constraints.append(call, T, "1", ConstraintBundle((constraint,)))

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add, made))
        found = kernel.statistics.constraints.list(call, T).items[0].constraints
        assert {each.name for each in found} == {each.name for each in made}


def test_index_artifacts_are_put_and_listed(kernel: Kernel, call: Call, location: str) -> None:
    def artifact(number: int) -> IndexArtifact:
        target = FileTarget(f"{location}/data/{number}.parquet")
        return IndexArtifact(target, f"{location}/metadata/{number}.index", created_at_ms=1)

    artifacts = kernel.statistics.index_artifacts
    assert artifacts.put(call, T, "2", [artifact(number) for number in range(3)]) == 3
    snapshot_id, page = artifacts.list(call, T, None, PageRequest("", 2))
    rest = artifacts.list(call, T, None, PageRequest(page.next_token, 2))[1]
    assert snapshot_id == 2
    assert {each.artifact_uri for each in page.items + rest.items} == {
        artifact(number).artifact_uri for number in range(3)
    }
    assert artifacts.get(call, T, "2", target_storage_id(artifact(1).target)) == artifact(1)
    with pytest.raises(NotFoundError, match="no index artifact"):
        artifacts.get(call, T, "1", target_storage_id(artifact(1).target))
    with pytest.raises(LocationNotAllowedError):
        artifacts.put(call, T, "2", [IndexArtifact(FileTarget("s3://lake/a"), "s3://elsewhere/a")])
