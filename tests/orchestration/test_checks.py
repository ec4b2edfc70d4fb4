from __future__ import annotations

import dagster as dg
import pytest

from floecat_assets.defs.catalog.checks import metadata_files_reachable
from floecat_assets.defs.resources import KernelResource


def run_check(instance: dg.DagsterInstance) -> dg.AssetCheckEvaluation:
    defs = dg.Definitions(asset_checks=[metadata_files_reachable], resources={"kernel": KernelResource()})
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, raise_on_error=True)
    (evaluation,) = result.get_asset_check_evaluations()
    return evaluation


def lost_files(evaluation: dg.AssetCheckEvaluation) -> list[str]:
    return [record.data["file"] for record in evaluation.metadata["floecat/lost_files"].records]


@pytest.fixture
def orders(lakehouse, follower):
    table = lakehouse.create("orders")
    lakehouse.create("events")
    follower.ticks(2)
    return table


def test_it_passes_while_every_file_is_there(orders, follower):
    evaluation = run_check(follower.instance)
    assert evaluation.passed
    assert evaluation.metadata["floecat/tables"].value == 2
    assert lost_files(evaluation) == []


def test_it_names_the_table_whose_file_is_lost(lakehouse, orders, follower):
    lost = lakehouse.metadata_file(orders)
    lost.unlink()
    evaluation = run_check(follower.instance)
    assert not evaluation.passed
    assert evaluation.description == "1 of 2 tables have lost their metadata file"
    assert lost_files(evaluation) == [lost.as_uri()]


def test_files_of_earlier_commits_may_go(lakehouse, orders, follower):
    earlier = lakehouse.metadata_file(orders)
    lakehouse.append(orders, "1")
    earlier.unlink()
    assert run_check(follower.instance).passed


def test_a_table_that_was_dropped_meanwhile_is_no_loss(lakehouse, orders, follower):
    lost = lakehouse.metadata_file(orders)
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), orders)
    lost.unlink()
    assert run_check(follower.instance).passed


def test_partitions_that_are_no_tables_are_left_out(orders, follower):
    follower.instance.add_dynamic_partitions("tables", ["nonsense", other_spelling(follower)])
    evaluation = run_check(follower.instance)
    assert evaluation.passed
    assert evaluation.metadata["floecat/tables"].value == 2


def other_spelling(follower) -> str:
    """The id of a table, spelt in another way."""
    return follower.instance.get_dynamic_partitions("tables")[0].upper()
