"""Tables of random columns, rows and deletes, each of their versions read through the catalog."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clients.delta.lake import ENGINES, DeltaLake, sql_name
from tests.clients.delta.oracles import oracle_rows_at
from tests.clients.delta.probes import DUCKDB, leaves, probes
from tests.clients.delta.rows import check
from tests.clients.delta.writer import DeltaWriter

_YEAR_1_US, _YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_YEAR_1_D, _YEAR_9999_D = -719_162, 2_932_896
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
_KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-(1 << 7), (1 << 7) - 1)),
    "short": (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    "integer": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), _TEXT),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "date": (pa.date32(), st.integers(_YEAR_1_D, _YEAR_9999_D)),
    "timestamp": (pa.timestamp("us", "UTC"), st.integers(_YEAR_1_US, _YEAR_9999_US)),
    "timestamp_ntz": (pa.timestamp("us"), st.integers(_YEAR_1_US, _YEAR_9999_US)),
    "small_decimal": (
        pa.decimal128(7, 3),
        st.integers(-(10**7) + 1, 10**7 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
    "long_decimal": (
        pa.decimal128(38, 18),
        st.integers(-(10**38) + 1, 10**38 - 1).map(
            lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -18))
        ),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(_TEXT, st.none() | st.integers(0, 9), max_size=2),
    ),
    "struct": (
        pa.struct([("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))]),
        st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), "t": st.none() | st.integers(0, 10**15)}),
    ),
}
_IN_PARTITIONS = (
    "byte",
    "integer",
    "long",
    "boolean",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "small_decimal",
)


class Step(msgspec.Struct, frozen=True):
    """A commit: rows are added, or rows of the live files are deleted, or the oldest file is removed."""

    rows: list[dict[str, Any]] | None
    deletes: list[tuple[int, int]]
    storage: str


class Plan(msgspec.Struct, frozen=True):
    """A table and its history."""

    kinds: dict[str, str]
    partitions: list[str]
    mapping: str | None
    steps: list[Step]

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema([(name, _KINDS[kind][0]) for name, kind in self.kinds.items()])

    def write(self, folder: Path) -> DeltaWriter:
        """Writes the table."""
        table = DeltaWriter(folder, self.schema, partitions=self.partitions, mapping=self.mapping)
        for step in self.steps:
            if step.rows is not None:
                table.append(pa.Table.from_pylist(step.rows, schema=self.schema))
                continue
            positions: dict[int, set[int]] = {}
            for file, row in step.deletes:
                if table.files:
                    place = file % len(table.files)
                    deleted = row % table.files[place].rows.num_rows
                    # the same vector twice would be one file removed and added, which the protocol forbids
                    if deleted not in table.files[place].deleted:
                        positions.setdefault(place, set()).add(deleted)
            if positions:
                table.delete(positions, storage=step.storage)
            elif table.files:
                table.remove([0])
        return table


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Tables of one to five columns."""
    kinds = {f"c {at}": draw(st.sampled_from(list(_KINDS))) for at in range(draw(st.integers(1, 4)))}
    parts = {f"p{at}": draw(st.sampled_from(_IN_PARTITIONS)) for at in range(draw(st.integers(0, 2)))}
    row = st.fixed_dictionaries(
        {name: st.none() | _KINDS[kind][1] for name, kind in kinds.items()}
        | {
            name: st.none() | _KINDS[kind][1].filter(lambda value: value != "")
            for name, kind in parts.items()
        }
    )
    places = st.tuples(st.integers(0, 9), st.integers(0, 9))
    step = st.builds(
        Step,
        st.none() | st.lists(row, min_size=1, max_size=6),
        st.lists(places, max_size=4),
        st.sampled_from("uip"),
    )
    first = Step(draw(st.lists(row, min_size=1, max_size=6)), [], "u")
    steps = [first, *draw(st.lists(step, max_size=4))]
    return Plan(kinds | parts, list(parts), draw(st.sampled_from([None, "name", "id"])), steps)


def _check(delta_lake: DeltaLake, plan: Plan) -> None:
    name = f"t{uuid.uuid4().hex}"
    folder = Path(delta_lake.root) / "random" / name
    written = plan.write(folder)
    _check_writer(plan, written)
    table = delta_lake.register("random", name, folder)
    for version, rows in written.rows.items():
        check(ENGINES["pyiceberg"](delta_lake, table, version), rows)
    newest = written.rows[written.version]
    check(ENGINES["duckdb"](delta_lake, table, None), newest)
    asked = [probe for leaf in leaves(newest) for probe in probes(leaf)]
    scans = delta_lake.pyiceberg(table)
    for probe in asked:
        # PyIceberg takes an infinity for a value beyond all of its type, which no row equals
        if len(probe.leaf.path) == 1 and probe.value not in (math.inf, -math.inf):
            assert (str(probe), scans.scan(row_filter=probe.expression()).count()) == (
                str(probe),
                probe.count,
            )
    source = f"lake.{sql_name(table, DUCKDB.quote)}"
    # one by one: DuckDB takes the rows of delete files from those of the data files that a filter leaves,
    # and an estimate below zero ends a statement of several such parts
    for probe in asked:
        found = delta_lake.duckdb(f"SELECT count(*) FROM {source} WHERE {probe.sql(DUCKDB)}")
        # the statistics of Parquet leave NaN out, and DuckDB may pass over a row group with one for them
        counts = {probe.count, probe.count + probe.nans}
        assert found.columns[0][0].as_py() in counts, f"{probe}: {counts}"


def _check_writer(plan: Plan, written: DeltaWriter) -> None:
    """A reader of Delta reads the same, else the writer of these tests is at fault."""
    if not (plan.partitions and plan.mapping):
        newest = written.rows[written.version]
        check(oracle_rows_at(written.folder, reader="duckdb"), newest)


@pytest.mark.parametrize(
    "examples", [10, pytest.param(1000, marks=[pytest.mark.scale, pytest.mark.timeout(3600)])]
)
def test_random_tables(delta_lake: DeltaLake, examples: int) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(plan=plans())
    def run(plan: Plan) -> None:
        _check(delta_lake, plan)

    run()
