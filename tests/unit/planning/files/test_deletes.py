"""Which delete files a plan lists for a data file."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from floecat.planning.files.deletes import PATH_COLUMN_ID
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.random_columns import OTHER_NAN
from tests.unit.planning.small_tables import SmallTable, data_file, spec

_POSITION, _EQUALITY = 1, 2


def long_(value: int) -> bytes:
    return struct.pack("<q", value)


def deletes(table: SmallTable, json: object = None) -> dict[str, set[str]]:
    """Paths of delete files by data file."""
    planned = plan_table(new_planner(), table.metadata(), json)
    return {file.path: {name.partition("@")[0] for name in file.deletes} for file in planned}


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    """Files of the partitions 1 and 2, and one without partition; then whatever a test adds."""
    table = SmallTable(
        tmp_path, [{1: ("p", "int"), 2: ("id", "long")}], [spec(0), spec(1, ("p", "identity", 1))]
    )
    table.add(
        data_file("one", partition={"p": 1}), data_file("two", partition={"p": 2}), spec_id=1, types=["int"]
    )
    table.add(data_file("whole"))
    return table


def partitioned(table: SmallTable, path: str, content: int, partition: int, **fields: Any) -> None:
    entry = data_file(path, content=content, partition={"p": partition}, **fields)
    table.add(entry, spec_id=1, types=["int"], content=1, operation="delete")


def test_position_deletes_of_a_partition(table: SmallTable) -> None:
    partitioned(table, "d", _POSITION, 1)
    assert deletes(table) == {"one": {"d"}, "two": set(), "whole": set()}


def test_position_deletes_of_one_file(table: SmallTable) -> None:
    partitioned(table, "named", _POSITION, 1, referenced_data_file="two")
    path = {PATH_COLUMN_ID: b"one"}
    partitioned(table, "by-bounds", _POSITION, 1, lower_bounds=path, upper_bounds=path)
    wide = {PATH_COLUMN_ID: b"onf"}
    partitioned(table, "of-several", _POSITION, 1, lower_bounds=path, upper_bounds=wide)
    assert deletes(table) == {"one": {"by-bounds", "of-several"}, "two": {"named"}, "whole": set()}


def test_equality_deletes_of_a_partition_and_of_the_table(table: SmallTable) -> None:
    partitioned(table, "e", _EQUALITY, 2, equality_ids=[2])
    table.add(data_file("everywhere", content=_EQUALITY, equality_ids=[2]), content=1)
    assert deletes(table) == {"one": {"everywhere"}, "two": {"e", "everywhere"}, "whole": {"everywhere"}}


def test_newer_files_have_no_older_deletes(table: SmallTable) -> None:
    partitioned(table, "d", _POSITION, 1)
    partitioned(table, "e", _EQUALITY, 1, equality_ids=[2])
    table.add(data_file("new", partition={"p": 1}), spec_id=1, types=["int"])
    assert deletes(table)["new"] == set()


def test_files_of_the_same_commit(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("id", "long")}])
    same = {"snapshot_id": 7}
    numbered = [data_file("f", **same) | {"sequence_number": 7, "file_sequence_number": 7}]
    table.add(*numbered)
    table.add(
        data_file("p", content=_POSITION, **same) | {"sequence_number": 7, "file_sequence_number": 7},
        data_file("e", content=_EQUALITY, equality_ids=[1], **same)
        | {"sequence_number": 7, "file_sequence_number": 7},
        content=1,
    )
    # position deletes apply to files of their own commit, equality deletes to older ones
    assert deletes(table) == {"f": {"p"}}


def test_a_deletion_vector_takes_the_place_of_position_deletes(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("id", "long")}], version=3)
    table.add(data_file("f"), data_file("g"))
    table.add(
        data_file("d", content=_POSITION),
        data_file("named", content=_POSITION, referenced_data_file="f"),
        data_file("e", content=_EQUALITY, equality_ids=[1]),
        content=1,
    )
    blob = {"file_format": "PUFFIN", "content_offset": 4, "content_size_in_bytes": 40}
    table.add(data_file("v", content=_POSITION, referenced_data_file="f", **blob), content=1)
    assert deletes(table) == {"f": {"v", "e"}, "g": {"d", "e"}}


def test_equality_deletes_without_a_common_value(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("id", "long"), 2: ("x", "long")}])

    def between(least: int, most: int, nulls: int = 0) -> dict[str, Any]:
        return {
            "value_counts": {1: 5},
            "null_value_counts": {1: nulls},
            "lower_bounds": {1: long_(least)},
            "upper_bounds": {1: long_(most)},
        }

    table.add(data_file("f", **between(0, 9)), data_file("g", **between(10, 19, 1)), data_file("unknown"))
    table.add(
        data_file("low", content=_EQUALITY, equality_ids=[1], **between(5, 6)),
        data_file("null", content=_EQUALITY, equality_ids=[1], **between(50, 60, 1)),
        data_file("other", content=_EQUALITY, equality_ids=[2], **between(50, 60)),
        content=1,
    )
    assert deletes(table) == {
        "f": {"low", "other"},
        "g": {"null", "other"},
        "unknown": {"low", "null", "other"},
    }
    # rows that the filter rules out need no deletes
    above = {"type": "gt", "term": "id", "value": 12}
    assert deletes(table, above) == {"g": {"null", "other"}, "unknown": {"null", "other"}}


@pytest.mark.parametrize("type", ["float", "double"])
def test_nans_of_any_bits_are_one_partition_and_zeros_of_either_sign_are_two(
    tmp_path: Path, type: str
) -> None:
    by_x = spec(1, ("x", "identity", 1))
    table = SmallTable(tmp_path, [{1: ("x", type), 2: ("id", "long")}], [spec(0), by_x])
    values = {"nan": math.nan, "other": OTHER_NAN, "zero": 0.0, "minus": -0.0, "one": 1.0}

    def add(content: int, prefix: str, names: Sequence[str], **fields: Any) -> None:
        files = [
            data_file(f"{prefix}{name}", content=content, partition={"x": values[name]}, **fields)
            for name in names
        ]
        table.add(*files, spec_id=1, types=[type], content=min(content, 1), operation="delete")

    add(0, "", list(values))
    add(_POSITION, "d-", ["other", "minus"])
    add(_EQUALITY, "e-", ["nan", "zero"], equality_ids=[2])
    both = {"d-other", "e-nan"}
    assert deletes(table) == {
        "nan": both, "other": both, "zero": {"e-zero"}, "minus": {"d-minus"}, "one": set()
    }  # fmt: skip
    assert deletes(table, {"type": "is-nan", "term": "x"}) == {"nan": both, "other": both}


def test_deletes_of_partitions_that_the_filter_rules_out_are_left_out(table: SmallTable) -> None:
    partitioned(table, "one-d", _POSITION, 1)
    partitioned(table, "two-d", _POSITION, 2)
    plan = {"type": "eq", "term": "p", "value": 1}
    assert deletes(table, plan) == {"one": {"one-d"}, "whole": set()}


@pytest.mark.parametrize("data_lost", [(), ("p",)])
@pytest.mark.parametrize("deletes_lost", [(), ("p",), ("p", "q")])
def test_a_partition_value_that_a_manifest_lost_may_have_been_any(
    tmp_path: Path, data_lost: tuple[str, ...], deletes_lost: tuple[str, ...]
) -> None:
    columns = {1: ("p", "int"), 2: ("q", "int"), 3: ("id", "long")}
    by_both = spec(1, ("p", "identity", 1), ("q", "identity", 2))
    table = SmallTable(tmp_path, [columns, {3: ("id", "long")}], [spec(0), by_both])

    def add(content: int, lost: tuple[str, ...], files: dict[str, tuple[int, int]], **fields: Any) -> None:
        entries = [
            data_file(
                path,
                content=content,
                partition={
                    name: None if name in lost else value for name, value in zip("pq", pq, strict=True)
                },
                **fields,
            )
            for path, pq in files.items()
        ]
        table.add(*entries, spec_id=1, types=["int", "int"], content=int(content > 0), lost=lost)

    add(0, data_lost, {"1-1": (1, 1), "2-1": (2, 1), "1-3": (1, 3)})
    add(_POSITION, deletes_lost, {"d1-1": (1, 1)})
    add(_EQUALITY, (), {"e2-1": (2, 1)}, equality_ids=[3])

    found = deletes(table)

    assert ("d1-1" in found["2-1"]) == (bool(data_lost or deletes_lost))
    assert ("d1-1" in found["1-3"]) == ("q" in deletes_lost)
    assert ("e2-1" in found["1-1"]) == bool(data_lost)
    assert "d1-1" in found["1-1"]
    assert "e2-1" in found["2-1"]
    assert "e2-1" not in found["1-3"]
