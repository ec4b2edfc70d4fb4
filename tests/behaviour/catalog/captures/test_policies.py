"""What is captured: policies of tables and catalogs, expressions."""

from __future__ import annotations

import msgspec
import pytest

from floecat.errors import BadRequestError
from floecat.statistics.capture.policies import PolicyChange
from floecat.statistics.capture.reading.expressions import Expression
from floecat.statistics.records import (
    ExpressionTarget,
    ScalarStatistics,
    StatisticsRecord,
    TargetKind,
    target_storage_id,
)
from tests.behaviour.catalog.captures.bench import (
    Bench,
    T,
)
from tests.behaviour.catalog.changes import set_property


def test_properties_say_what_is_captured(bench: Bench) -> None:
    bench.commit(set_property("t", "floecat.statistics.snapshots", "all"))
    bench.commit(set_property("t", "floecat.statistics.columns", "text"))
    bench.commit(set_property("t", "floecat.statistics.publish", "false"))
    bench.append(1)
    bench.grow()
    assert [each.snapshot_id for each in bench.snapshots()] == [1, 2]
    assert [each.scalar.display_name for each in bench.records() if each.scalar] == ["text"]
    assert bench.metadata.statistics == ()
    bench.commit(set_property("t", "floecat.statistics.enabled", "false"))
    bench.grow()
    assert [each.snapshot_id for each in bench.snapshots()] == [1, 2]
    assert bench.ask().state == "succeeded"
    assert bench.rows() == 30


def test_a_policy_is_shown_and_changed(bench: Bench) -> None:
    policies = bench.kernel.statistics.policies
    default = policies.get(bench.call, T)
    assert (default.enabled, default.snapshots, default.first_columns) == (True, "latest", 32)
    changed = policies.change(bench.call, T, PolicyChange(enabled=False, columns=("id", "text")))
    assert (changed.enabled, changed.columns) == (False, ("id", "text"))
    assert policies.change(bench.call, T, PolicyChange()) == default
    with pytest.raises(BadRequestError, match="must be latest or all"):
        policies.change(bench.call, T, PolicyChange(snapshots="some"))


def test_a_catalog_has_a_policy_that_tables_inherit(bench: Bench) -> None:
    policies, call = bench.kernel.statistics.policies, bench.call
    of_catalog = PolicyChange(columns=("text",), publish="never", expressions=(Expression("day", "id"),))
    made = policies.change(call, None, of_catalog)
    assert (made.columns, made.publish) == (("text",), "never")
    assert made.set_by == dict.fromkeys(("columns", "publish", "expressions"), "catalog")
    call = bench.kernel.catalog.calls.open(call.principal, call.catalog.name)
    assert policies.get(call, None) == policies.get(call, T) == made
    inherited = policies.change(call, T, PolicyChange(publish="always", enabled=True))
    assert (inherited.columns, inherited.publish) == (("text",), "always")
    assert inherited.set_by == made.set_by | {"publish": "table", "enabled": "table"}
    # what cannot be read is inherited
    bench.commit(set_property("t", "floecat.statistics.publish", "sometimes"))
    assert policies.get(call, T).publish == "never"
    bench.grow()
    assert [each.scalar.display_name for each in bench.records() if each.scalar] == ["text"]
    assert policies.change(call, None, PolicyChange()).set_by == {}


def test_expressions_that_a_policy_names_are_captured_as_columns_are(bench: Bench) -> None:
    bucket = Expression("bucket[4]", "id")
    bench.grow()
    policies = bench.kernel.statistics.policies
    change = PolicyChange(
        columns=("id",), expressions=(Expression("BUCKET[4]", "id"), Expression("truncate[1]", "text"))
    )
    assert policies.change(bench.call, T, change).expressions == (bucket, Expression("truncate[1]", "text"))
    bench.grow()
    coverage = bench.coverage()
    assert coverage.read == 2  # the file of before, too
    bench.grow()
    coverage = bench.coverage()
    assert coverage.read == 1
    found = {
        each.scalar.display_name: each.scalar for each in bench.records(TargetKind.EXPRESSION) if each.scalar
    }
    assert found.keys() == {"bucket(4, id)", "truncate(1, text)"}
    numbers = found["bucket(4, id)"]
    assert (numbers.row_count, numbers.null_count, numbers.avg_width_bytes) == (30, 0, 4)
    assert (numbers.logical_type, numbers.min, numbers.max) == ("INT", "0", "3")
    assert numbers.ndv is not None
    assert numbers.ndv.exact == 4
    text = found["truncate(1, text)"]
    assert (text.logical_type, text.min, text.max, text.avg_width_bytes) == ("STRING", "0", "2", 1)
    # the column is captured with its expression; the statistics file has columns only
    assert len(bench.records(TargetKind.COLUMN)) == 2
    assert {blob.fields for each in bench.metadata.statistics for blob in each.blob_metadata} == {(1,), (2,)}
    target = target_storage_id(
        ExpressionTarget("iceberg", b'{"type":"transform","transform":"bucket[4]","term":"id"}')
    )
    assert bench.kernel.statistics.targets.get(bench.call, T, None, target).scalar == numbers
    policies.change(bench.call, T, PolicyChange(expressions=()))
    # of an engine, not of the catalog
    other = StatisticsRecord(ExpressionTarget("iceberg+spark", b"x"), scalar=ScalarStatistics(row_count=1))
    bench.kernel.statistics.targets.put(bench.call, T, None, [other])
    assert bench.ask().state == "succeeded"
    assert bench.records(TargetKind.EXPRESSION) == [other]


def test_expressions_that_do_not_fit_are_refused_or_left_out(bench: Bench) -> None:
    policies = bench.kernel.statistics.policies
    for transform, term, message in (
        ("day", "id", "day does not take column id of long"),
        ("bucket[0]", "id", "width of transform bucket"),
        ("bucket", "id", "unknown transform bucket"),
        ("bucket[a]", "id", "unknown transform bucket"),
        ("identity", "id", "unknown transform identity"),
        ("bucket[4]", "nothing", "cannot find column nothing"),
        ("bucket[4]", "", "must be the name of a column"),
    ):
        with pytest.raises(BadRequestError, match=message):
            policies.change(bench.call, T, PolicyChange(expressions=(Expression(transform, term),)))
    fitting, other = Expression("bucket[2]", "id"), Expression("day", "id")
    terms = msgspec.json.encode([other, fitting]).decode()
    bench.commit(set_property("t", "floecat.statistics.expressions", terms))
    bench.grow()
    assert [each.scalar.display_name for each in bench.records(TargetKind.EXPRESSION) if each.scalar] == [
        "bucket(2, id)"
    ]
