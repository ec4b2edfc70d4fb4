"""Every packed table, read through the catalog by each engine: its rows are those of readers of Delta."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.clients.delta.expectations import (
    EXPECTED,
    MISREAD,
    UNREADABLE,
    Outcome,
    expectation,
    tables_that_give,
)
from tests.clients.delta.lake import ENGINES, DeltaLake, sql_name, table_name
from tests.clients.delta.oracles import NoOracleError, log_versions, oracle_rows
from tests.clients.delta.rows import check, difference
from tests.delta_tables import all_tables, delta_table, table_facts

pytestmark = pytest.mark.spark

Packed = Callable[[str], str]

_READABLE = [facts.name for facts in tables_that_give(Outcome.ROWS)]
_REFUSED = [facts.name for facts in tables_that_give(Outcome.REFUSED, Outcome.INVALID)]
_WITHOUT_DATA = [facts.name for facts in tables_that_give(Outcome.NO_DATA)]
_STATUS = {Outcome.REFUSED: 406, Outcome.INVALID: 400}


def _sampled(name: str) -> list[int]:
    """Some of the older versions of a table: the first, the last, and one between."""
    older = log_versions(delta_table(name))[:-1]
    return sorted({older[0], older[len(older) // 2], older[-1]}) if older else []


# Spark, which is slow, reads one of them.
_OLDER = [
    (engine, name, version)
    for engine in ENGINES
    for name in _READABLE
    for version in _sampled(name)[-1 if engine == "spark" else 0 :]
]


def test_expectations_name_tables_that_exist() -> None:
    assert set(EXPECTED) <= {facts.name for facts in all_tables()}


@pytest.mark.parametrize("name", _READABLE)
def test_oracle_counts_as_the_index(name: str) -> None:
    counted = {count for count in table_facts(name).read.values() if isinstance(count, int)}
    assert counted <= {oracle_rows(name).num_rows}


def test_all_tables_are_listed(delta_lake: DeltaLake, packed: Packed) -> None:
    names = {table_name(facts.name) for facts in all_tables()}
    assert packed(all_tables()[0].name)
    assert delta_lake.listed("packed") == names


@pytest.mark.parametrize("name", _READABLE)
@pytest.mark.parametrize("engine", ENGINES)
def test_newest_rows(delta_lake: DeltaLake, packed: Packed, engine: str, name: str) -> None:
    _check_rows(delta_lake, packed, engine, name, None)


@pytest.mark.parametrize(("engine", "name", "version"), _OLDER)
def test_rows_of_an_older_version(
    delta_lake: DeltaLake, packed: Packed, engine: str, name: str, version: int
) -> None:
    _check_rows(delta_lake, packed, engine, name, version)


@pytest.mark.scale
@pytest.mark.parametrize("name", _READABLE)
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_every_version(delta_lake: DeltaLake, packed: Packed, engine: str, name: str) -> None:
    for version in log_versions(delta_table(name)):
        _check_rows(delta_lake, packed, engine, name, version)


def _check_rows(delta_lake: DeltaLake, packed: Packed, engine: str, name: str, version: int | None) -> None:
    """A version that nobody else can read must not be readable here either."""
    refusal = UNREADABLE.get((engine, name))
    expected = None
    try:
        expected = oracle_rows(name, version)
    except NoOracleError:
        refusal = r"(?s).+"
    if refusal or expected is None:
        with pytest.raises(Exception, match=refusal):
            ENGINES[engine](delta_lake, packed(name), version)
        return
    found = ENGINES[engine](delta_lake, packed(name), version)
    misread = [each for each in MISREAD.get((engine, name), ()) if expected.num_rows]
    check(found.drop_columns(misread), expected.drop_columns(misread))
    for each in misread:
        assert difference(found.select([each]), expected.select([each])), "it has learned it"


@pytest.mark.parametrize("name", [name for name in _READABLE if table_facts(name).versions > 2])
def test_time_travel_by_time(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """Each offered version is the one of its own time and until the next one's."""
    metadata = delta_lake.metadata(packed(name))
    snapshots = metadata["snapshots"]
    times = [snapshot["timestamp-ms"] for snapshot in snapshots]
    assert times == sorted(set(times))
    table = delta_lake.pyiceberg(packed(name))
    for snapshot, until_ms in zip(snapshots, [*times[1:], None], strict=True):
        for at_ms in (snapshot["timestamp-ms"], *([until_ms - 1] if until_ms else [])):
            found = table.snapshot_as_of_timestamp(at_ms)
            assert found is not None
            assert found.snapshot_id == snapshot["snapshot-id"]


@pytest.mark.parametrize("name", ["golden/dv-with-columnmapping/delta", "made/sail-dv_plain"])
def test_sql_time_travel_by_time(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    snapshots = delta_lake.metadata(packed(name))["snapshots"]
    for snapshot in (snapshots[0], snapshots[len(snapshots) // 2]):
        expected = oracle_rows(name, snapshot["snapshot-id"])
        moment = datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC)
        at = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
        by_spark = delta_lake.spark(f"SELECT * FROM {sql_name(packed(name), '`')} TIMESTAMP AS OF '{at}'")
        check(by_spark, expected)
        by_duckdb = delta_lake.duckdb(
            f"SELECT * FROM lake.{sql_name(packed(name), chr(34))} AT (TIMESTAMP => TIMESTAMPTZ '{at}+00')"
        )
        check(by_duckdb, expected)


@pytest.mark.parametrize("name", _REFUSED)
def test_what_cannot_be_read_is_refused(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    expected = expectation(name)
    answer = delta_lake.load_answer(packed(name))
    assert answer.status_code == _STATUS[expected.outcome], answer.text
    assert re.search(expected.says, answer.json()["error"]["message"]), answer.text
    for engine in ENGINES:
        with pytest.raises(Exception, match=r"(?s).+"):
            ENGINES[engine](delta_lake, packed(name), None)


@pytest.mark.parametrize("name", _WITHOUT_DATA)
@pytest.mark.parametrize("engine", ENGINES)
def test_missing_data_files_are_an_error(
    delta_lake: DeltaLake, packed: Packed, engine: str, name: str
) -> None:
    with pytest.raises(Exception, match=r"(?s).+"):
        ENGINES[engine](delta_lake, packed(name), None)


@pytest.mark.parametrize("name", [facts.name for facts in tables_that_give(Outcome.VARIANT)])
def test_variants(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """No engine here reads the type from such files; DuckDB knows it, and reads the columns beside it."""
    metadata = delta_lake.metadata(packed(name))
    assert metadata["format-version"] == 3
    types = {each["name"]: each["type"] for each in metadata["schemas"][-1]["fields"]}
    assert types["v"] == "variant"
    found = delta_lake.duckdb(f"SELECT id FROM lake.{sql_name(packed(name), chr(34))}")
    check(found, oracle_rows(name).select(["id"]))


@pytest.mark.parametrize("name", _READABLE)
def test_counts(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """A count may be answered from metadata, and is right all the same."""
    count, table = oracle_rows(name).num_rows, packed(name)
    assert delta_lake.pyiceberg(table).scan().count() == count
    assert (
        delta_lake.duckdb(f"SELECT count(*) FROM lake.{sql_name(table, chr(34))}").columns[0][0].as_py()
        == count
    )


@pytest.mark.parametrize("name", [name for name in _READABLE if table_facts(name).deletion_vectors])
def test_counts_of_spark(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    count = delta_lake.spark(f"SELECT count(*) FROM {sql_name(packed(name), '`')}").columns[0][0].as_py()
    assert count == oracle_rows(name).num_rows
