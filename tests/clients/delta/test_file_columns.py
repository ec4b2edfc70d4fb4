"""Data files that hold other columns than the log says.

Delta takes partition values from the log, whatever a file holds, and skips what no schema names.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, IsNull

from tests.clients.delta.lake import ENGINES, DeltaLake, sql_name
from tests.clients.delta.raw_table import RawTable, column, mapped, with_ids

Row = tuple[Any, ...]
Case = Callable[[RawTable], list[Row]]
"""Writes a table, and returns the rows that Delta reads."""


def _rows(lake: DeltaLake, engine: str, table: str, version: int | None = None) -> list[Row]:
    found = ENGINES[engine](lake, table, version)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def _check(
    lake: DeltaLake,
    table: str,
    expected: Sequence[Row],
    version: int | None = None,
    engines: Sequence[str] = ("pyiceberg", "duckdb"),
) -> None:
    wanted = sorted(expected, key=repr)
    for engine in engines:
        assert (engine, _rows(lake, engine, table, version)) == (engine, wanted)


def _register(lake: DeltaLake, made: RawTable) -> str:
    name = f"{made.folder.parent.name}_{made.folder.name}".lower()
    return lake.register("file_columns", name, made.folder)


@pytest.fixture
def made(table_folder: Path) -> RawTable:
    return RawTable(table_folder / "t")


# Partition columns.

_SEVEN = dt.datetime(2024, 1, 5, 7)
_PARTITIONS: dict[str, tuple[str, pa.Array, str | None, Any]] = {
    # its type, the column of the file, the value in the log, and what is read
    "log null": ("string", pa.array(["x"]), None, None),
    "file null": ("string", pa.array([None], pa.string()), "a", "a"),
    "empty": ("string", pa.array([""]), "", None),
    "Hive default": ("string", pa.array(["__HIVE_DEFAULT_PARTITION__"]), None, None),
    "another value": ("string", pa.array(["b"]), "a", "a"),
    "int for string": ("string", pa.array([2024], pa.int32()), "2024", "2024"),
    "text for int": ("integer", pa.array(["2024"]), "2024", 2024),
    "long for int": ("integer", pa.array([7]), "7", 7),
    "int for short": ("short", pa.array([7], pa.int32()), "8", 8),
    "double for float": ("float", pa.array([1.5]), "2.5", 2.5),
    "text for boolean": ("boolean", pa.array(["false"]), "true", True),
    "text for date": ("date", pa.array(["2024-01-05"]), "2024-01-05", dt.date(2024, 1, 5)),
    "text for decimal": ("decimal(9,2)", pa.array(["1.5"]), "1.50", Decimal("1.50")),
    "other decimal": ("decimal(9,2)", pa.array([Decimal("7.123")]), "1.50", Decimal("1.50")),
    "text for timestamp": ("timestamp", pa.array(["x"]), str(_SEVEN), _SEVEN.replace(tzinfo=dt.UTC)),
    "milliseconds": ("timestamp_ntz", pa.array([0], pa.timestamp("ms")), str(_SEVEN), _SEVEN),
    "binary": ("binary", pa.array([b"x"]), "abc", b"abc"),
    "struct": ("string", pa.array([{"x": 1}]), "a", "a"),
    "list": ("string", pa.array([["x"]]), "a", "a"),
}


def _partition_case(name: str, at: int) -> Case:
    """One file with the partition column at some place, and one without it."""

    def write(made: RawTable) -> list[Row]:
        type_, values, text, value = _PARTITIONS[name]
        columns: list[tuple[str, Any]] = [("id", pa.array([1])), ("n", pa.array(["n"]))]
        columns.insert(at, ("p", values))
        made.commit(
            *made.define(column("id", "long"), column("n", "string"), column("p", type_), partitions=["p"]),
            made.add("a.parquet", pa.table(dict(columns)), {"p": text}),
            made.add("b.parquet", pa.table({"id": [2], "n": ["m"]}), {"p": text}),
        )
        return [(1, "n", value), (2, "m", value)]

    return write


_P = (column("id", "long"), column("p", "string"))
_MAPPED = (mapped("id", 1, "long", "col-i"), mapped("p", 2, "string", "col-p"))
_IDS = {"col-i": 1, "col-p": 2}


def _file(id_: int, p: str | None, names: Sequence[str] = ("id", "p")) -> pa.Table:
    return pa.table([pa.array([id_]), pa.array([p], pa.string())], names=list(names))


def _mapped_file(id_: int, p: str | None) -> pa.Table:
    return with_ids(_file(id_, p, ("col-i", "col-p")), _IDS)


def _other_case(made: RawTable) -> list[Row]:
    made.commit(
        *made.define(*_P, partitions=["p"]),
        made.add("a.parquet", _file(1, "x", ("id", "P")), {"p": "a"}),
        made.add("b.parquet", _file(2, "x"), {"p": "b"}),
    )
    return [(1, "a"), (2, "b")]


def _two_columns(made: RawTable) -> list[Row]:
    columns = (*_P, column("q", "integer"))
    file = pa.table({"q": ["x"], "id": [1]})
    made.commit(
        *made.define(*columns, partitions=["q", "p"]), made.add("a.parquet", file, {"p": "a", "q": "4"})
    )
    return [(1, "a", 4)]


def _mapped_case(mode: str, *others: Any) -> Case:
    def write(made: RawTable) -> list[Row]:
        made.commit(
            *made.define(*_MAPPED, *others, partitions=["p"], mode=mode),
            made.add("a.parquet", _mapped_file(1, ""), {"col-p": ""}),
            made.add("b.parquet", _mapped_file(2, "x"), {"col-p": "b"}),
            made.add("c.parquet", with_ids(pa.table({"col-i": [3]}), _IDS), {"col-p": "c"}),
        )
        rows: list[Row] = [(1, None), (2, "b"), (3, "c")]
        return [(*row, *[None] * len(others)) for row in rows]

    return write


def _partition_without_id(made: RawTable) -> list[Row]:
    file = with_ids(_file(1, "x", ("col-i", "col-p")), {"col-i": 1})
    made.commit(
        *made.define(*_MAPPED, partitions=["p"], mode="name"), made.add("a.parquet", file, {"col-p": "a"})
    )
    return [(1, "a")]


def _mapping_turned_on(made: RawTable) -> list[Row]:
    made.commit(*made.define(*_P, partitions=["p"]), made.add("a.parquet", _file(1, "x"), {"p": "a"}))
    on = (mapped("id", 1, "long", "id"), mapped("renamed", 2, "string", "p"))
    made.commit(*made.define(*on, partitions=["renamed"], mode="name"))
    file = with_ids(_file(2, "y"), {"id": 1, "p": 2})
    made.commit(made.add("b.parquet", file, {"p": "b"}))
    return [(1, "a"), (2, "b")]


def _foreign_ids(made: RawTable) -> list[Row]:
    """Files of an Iceberg table have all of its columns, and ids."""
    file = with_ids(_file(1, "x"), {"id": 1, "p": 2})
    made.commit(*made.define(*_P, partitions=["p"]), made.add("a.parquet", file, {"p": "a"}))
    return [(1, "a")]


def _newest_files_alone(made: RawTable) -> list[Row]:
    made.commit(*made.define(*_MAPPED, partitions=["p"], mode="id"))
    for id_ in range(1, 6):
        file = _mapped_file(id_, "x") if id_ > 3 else with_ids(pa.table({"col-i": [id_]}), _IDS)
        made.commit(made.add(f"part-{id_}.parquet", file, {"col-p": str(id_)}, time_ms=id_))
    return [(id_, str(id_)) for id_ in range(1, 6)]


def _copies(made: RawTable) -> list[Row]:
    """Files that are copied, as their lists lack ids."""
    columns = (
        *_MAPPED,
        mapped("l", 3, {"type": "array", "elementType": "long", "containsNull": True}, "col-l"),
    )
    file = with_ids(_mapped_file(1, "x").append_column("col-l", pa.array([[5]])), _IDS | {"col-l": 3})
    made.commit(
        *made.define(*columns, partitions=["p"], mode="name"), made.add("a.parquet", file, {"col-p": "a"})
    )
    return [(1, "a", [5])]


PARTITION_CASES: dict[str, Case] = {
    **{name: _partition_case(name, number % 3) for number, name in enumerate(_PARTITIONS)},
    "name in another case": _other_case,
    "two columns": _two_columns,
    "mapped, name": _mapped_case("name"),
    "mapped, id": _mapped_case("id"),
    "mapped, more columns": _mapped_case("name", mapped("more", 3, "string", "col-m")),
    "mapped, no id": _partition_without_id,
    "mapping turned on": _mapping_turned_on,
    "foreign ids": _foreign_ids,
    "newest files alone": _newest_files_alone,
    "copies": _copies,
}


@pytest.mark.parametrize("name", PARTITION_CASES)
def test_partition_values_are_those_of_the_log(delta_lake: DeltaLake, made: RawTable, name: str) -> None:
    expected = PARTITION_CASES[name](made)
    _check(delta_lake, _register(delta_lake, made), expected)


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_filters_and_deletes_go_by_the_log(
    delta_lake: DeltaLake, made: RawTable, is_mapped: bool, format_version: int
) -> None:
    """Also where the statistics of the log tell of the file's values."""
    key = "col-p" if is_mapped else "p"
    columns, mode = (_MAPPED, "name") if is_mapped else (_P, None)
    file = pa.table({"id": [1, 2, 3], "p": ["x", "y", None]})
    if is_mapped:
        file = with_ids(file.rename_columns(["col-i", "col-p"]), _IDS)
    stats = {"minValues": {key: "x"}, "maxValues": {key: "y"}, "nullCount": {key: 1}}
    first = made.add("a.parquet", file, {key: "a"}, stats=stats)
    made.commit(*made.define(*columns, partitions=["p"], mode=mode), first)
    made.commit(made.add("b.parquet", file, {key: None}, stats=stats))
    table = delta_lake.register(
        "file_columns", made.folder.parent.name.lower(), made.folder, **{"format-version": format_version}
    )
    _check(delta_lake, table, [(id_, p) for id_ in (1, 2, 3) for p in ("a", None)])
    scans = delta_lake.pyiceberg(table)
    for text, count in (("a", 3), ("x", 0)):
        assert scans.scan(row_filter=EqualTo("p", text)).count() == count
        source = f"lake.{sql_name(table, chr(34))}"
        found = delta_lake.duckdb(f"SELECT count(*) FROM {source} WHERE p = '{text}'")
        assert found.columns[0][0].as_py() == count
    assert scans.scan(row_filter=IsNull("p")).count() == 3
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 1}
    vector |= _inline_vector([1])
    made.commit(made.remove(first), {"add": first["add"] | {"deletionVector": vector}})
    _check(delta_lake, table, [(id_, p) for id_ in (1, 2, 3) for p in ("a", None) if (id_, p) != (2, "a")])


def _inline_vector(positions: list[int]) -> dict[str, Any]:
    from tests.clients.delta.writer import deletion_vector_payload, z85_encode

    payload = deletion_vector_payload(positions)
    return {"pathOrInlineDv": z85_encode(payload + b"\0" * (-len(payload) % 4)), "sizeInBytes": len(payload)}


@pytest.mark.parametrize("mode", [None, "name"])
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("first_is_partitioned", [True, False])
def test_a_column_that_is_a_partition_column_at_times(
    delta_lake: DeltaLake, made: RawTable, first_is_partitioned: bool, at_once: bool, mode: str | None
) -> None:
    """The table is replaced three times. All files hold the column, and its values count at times."""
    columns, key = (_MAPPED, "col-p") if mode else (_P, "p")
    table = "" if at_once else None
    expected: dict[int, list[Row]] = {}
    last: list[dict[str, Any]] = []
    for step in range(4):
        is_partitioned = (step % 2 == 0) == first_is_partitioned
        file = _mapped_file(step, f"file{step}") if mode else _file(step, f"file{step}")
        add = made.add(f"{step}.parquet", file, {key: f"log{step}"} if is_partitioned else {})
        define = made.define(*columns, partitions=["p"] if is_partitioned else [], mode=mode)
        version = made.commit(*define, *last, add)
        last = [made.remove(add)]
        expected[version] = [(step, f"{'log' if is_partitioned else 'file'}{step}")]
        if table is None:
            table = _register(delta_lake, made)
        if not at_once:
            _check(delta_lake, table, expected[version])
    table = table or _register(delta_lake, made)
    _check(delta_lake, table, expected[3])
    offered = {snapshot["snapshot-id"] for snapshot in delta_lake.metadata(table)["snapshots"]}
    # filters find nothing in versions in which the column had another id than now; loads do not look back
    assert offered == ({1, 3} if at_once else {3})
    for version in offered:
        _check(delta_lake, table, expected[version], version)


# Columns that no schema names.

_ID = column("id", "long")
_STRUCT = {"type": "struct", "fields": [column("u", "long")]}
_LIST = {"type": "array", "elementType": _STRUCT, "containsNull": True}
_MAP = {"type": "map", "keyType": "string", "valueType": _STRUCT, "valueContainsNull": True}
_EXTRA: dict[str, pa.Array] = {
    "plain": pa.array(["x", "y"]),
    "index of pandas": pa.array([0, 1]),
    "list": pa.array([["x"], None]),
    "struct": pa.array([{"a": 1, "b": [{"c": 2}]}, None]),
    "map": pa.array([[("k", {"a": 1})], []], pa.map_(pa.string(), pa.struct([("a", pa.int64())]))),
    "list of maps": pa.array([[[("k", [1])]], None], pa.list_(pa.map_(pa.string(), pa.list_(pa.int8())))),
}
_MAPPED_IDS = (mapped("id", 1, "long", "col-i"), mapped("n", 2, "string", "col-n"))


def _extra_case(name: str, at: int) -> Case:
    def write(made: RawTable) -> list[Row]:
        columns: list[tuple[str, Any]] = [("id", pa.array([1, 2])), ("n", pa.array(["m", "n"]))]
        columns.insert(at, ("__index_level_0__", _EXTRA[name]))
        file = made.add("a.parquet", pa.table(dict(columns)))
        made.commit(*made.define(_ID, column("n", "string")), file)
        return [(1, "m"), (2, "n")]

    return write


def _nested_case(type_: object, values: list[Any], expected: list[Any]) -> Case:
    """A field of a struct that is in the file alone, before the one of the schema."""

    def write(made: RawTable) -> list[Row]:
        inner = pa.struct([("extra", pa.list_(pa.int64())), ("u", pa.int64())])
        arrow = {_NESTED[0]: inner, _NESTED[1]: pa.list_(inner), _NESTED[2]: pa.map_(pa.string(), inner)}
        file = pa.table({"s": pa.array(values, arrow[_kind(type_)]), "id": [1]})
        made.commit(*made.define(column("s", type_), _ID), made.add("a.parquet", file))
        return [(*expected, 1)]

    return write


_NESTED = ("struct", "array", "map")


def _kind(type_: Any) -> str:
    return str(type_["type"])


def _dropped_and_cleaned(made: RawTable) -> list[Row]:
    """Mapping was turned on, a column was dropped, and the log has forgotten it."""
    file = made.add("a.parquet", pa.table({"b": ["x", "y"], "a": [1, 2]}))
    define = made.define(mapped("a", 2, "long", "a"), mode="name")
    made.commit(*define, file)
    made.clean_log(define, [file])
    return [(1,), (2,)]


def _field_dropped_and_cleaned(made: RawTable) -> list[Row]:
    struct = {"type": "struct", "fields": [mapped("x", 3, "long", "x")]}
    file = made.add("a.parquet", pa.table({"s": [{"w": "x", "x": 1}], "id": [1]}))
    define = made.define(mapped("s", 1, struct, "s"), mapped("id", 4, "long", "id"), mode="name")
    made.commit(*define, file)
    made.clean_log(define, [file])
    return [({"x": 1}, 1)]


def _row_tracking(*configurations: dict[str, str]) -> Case:
    """Files of writers that add columns of row tracking, which have no ids even if all others have."""

    def write(made: RawTable) -> list[Row]:
        name = "_row-id-col-a3cb6d71"
        ids = {"col-i": 1, "col-n": 2}
        expected: list[Row] = []
        for at, configuration in enumerate(configurations):
            rows = pa.table({name: pa.array([None], pa.int64()), "col-i": [at], "col-n": ["n"]})
            define = made.define(*_MAPPED_IDS, mode="name", **configuration)
            made.commit(*define, made.add(f"{at}.parquet", with_ids(rows, ids)))
            expected.append((at, "n"))
        return expected

    return write


_ROW_IDS = {"rowTracking_materializedRowIdColumnName": "_row-id-col-a3cb6d71"}


def _other_case_of_a_column(made: RawTable) -> list[Row]:
    """Delta's readers take names of any case, as Spark writes tables of any."""
    inner = pa.array([{"U": 1}])
    made.commit(
        *made.define(_ID, column("s", _STRUCT)),
        made.add("a.parquet", pa.table({"ID": [1], "S": inner})),
        made.add("b.parquet", pa.table({"id": [2], "s": pa.array([{"u": 2}])})),
    )
    return [(1, {"u": 1}), (2, {"u": 2})]


def _added_later(made: RawTable) -> list[Row]:
    """Without column mapping a column that is added has what files hold under its name."""
    file = made.add("a.parquet", pa.table({"extra": ["x"], "id": [1]}))
    made.commit(*made.define(_ID), file)
    made.commit(*made.define(_ID, column("more", "string")))
    made.commit(*made.define(_ID, column("more", "string"), column("extra", "string")))
    return [(1, None, "x")]


def _added_later_under_mapping(made: RawTable) -> list[Row]:
    """With column mapping it has another physical name, and no values in older files."""
    file = made.add("a.parquet", pa.table({"extra": ["x"], "id": [1]}))
    on = mapped("id", 1, "long", "id")
    made.commit(*made.define(on, mode="name"), file)
    made.commit(*made.define(on, mapped("extra", 2, "string", "col-e"), mode="name"))
    new = with_ids(pa.table({"id": [2], "col-e": ["y"]}), {"id": 1, "col-e": 2})
    made.commit(made.add("b.parquet", new))
    return [(1, None), (2, "y")]


def _without_counts(made: RawTable) -> list[Row]:
    """A file whose footer is read for its rows shows its columns, be it a sample or not."""
    files = [made.add(f"part-{at}.parquet", pa.table({"id": [at]}), time_ms=at) for at in range(5)]
    files[2] = made.add("part-2.parquet", pa.table({"extra": ["x"], "id": [2]}), time_ms=2)
    del files[2]["add"]["stats"]
    made.commit(*made.define(_ID), *files)
    return [(at,) for at in range(5)]


def _two_level_list(made: RawTable) -> list[Row]:
    file = pa.table({"extra": [[1]], "id": [1]})
    add = made.add("a.parquet", file, use_compliant_nested_type=False)
    made.commit(*made.define(_ID), add)
    return [(1,)]


COLUMN_CASES: dict[str, Case] = {
    **{name: _extra_case(name, number % 2) for number, name in enumerate(_EXTRA)},
    "last": _extra_case("plain", 2),
    "in a struct": _nested_case(_STRUCT, [{"extra": [1], "u": 1}], [{"u": 1}]),
    "in a list": _nested_case(_LIST, [[{"extra": [1], "u": 1}]], [[{"u": 1}]]),
    "in a map": _nested_case(_MAP, [[("k", {"extra": [1], "u": 1})]], [[("k", {"u": 1})]]),
    "dropped": _dropped_and_cleaned,
    "field dropped": _field_dropped_and_cleaned,
    "row tracking": _row_tracking(_ROW_IDS),
    "row tracking turned off": _row_tracking(_ROW_IDS, {}),
    "row tracking, unknown": _row_tracking({}),
    "name in another case": _other_case_of_a_column,
    "added later": _added_later,
    "added later under mapping": _added_later_under_mapping,
    "without counts": _without_counts,
    "old lists": _two_level_list,
}


@pytest.mark.parametrize("name", COLUMN_CASES)
def test_columns_that_no_schema_names_are_skipped(delta_lake: DeltaLake, made: RawTable, name: str) -> None:
    expected = COLUMN_CASES[name](made)
    _check(delta_lake, _register(delta_lake, made), expected)


def test_columns_that_come_with_later_files(delta_lake: DeltaLake, made: RawTable) -> None:
    """Each commit is looked at, and what was found before stays known."""
    made.commit(*made.define(_ID), made.add("0.parquet", pa.table({"id": [0]})))
    table = _register(delta_lake, made)
    _check(delta_lake, table, [(0,)])
    for at in (1, 2):
        made.commit(made.add(f"{at}.parquet", pa.table({f"extra{at}": ["x"], "id": [at]})))
        _check(delta_lake, table, [(each,) for each in range(at + 1)])
    made.commit(*made.define(_ID, column("new", "string")))
    _check(delta_lake, table, [(each, None) for each in range(3)])
    mapping = json.loads(delta_lake.metadata(table)["properties"]["schema.name-mapping.default"])
    listed = {name: field["field-id"] for field in mapping for name in field["names"]}
    used = {field["id"] for field in delta_lake.metadata(table)["schemas"][-1]["fields"]}
    assert not used & {listed["extra1"], listed["extra2"]}
    assert listed["extra1"] != listed["extra2"]
