from __future__ import annotations

from typing import Any

import pytest

from floecat.iceberg.parquet.parquet_schema import ParquetColumn, leaf_columns

TYPE, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, ID, LOGICAL = 1, 3, 4, 5, 6, 7, 9, 10
INT32, INT64, BYTE_ARRAY = 1, 2, 6
REQUIRED, OPTIONAL, REPEATED = range(3)


def group(name: str, count: int, **more: int) -> dict[int, Any]:
    return {NAME: name.encode(), CHILDREN: count, REPETITION: more.get("repetition", OPTIONAL)}


def leaf(name: str, type: int = INT32, more: dict[int, Any] | None = None) -> dict[int, Any]:
    return {NAME: name.encode(), TYPE: type, REPETITION: OPTIONAL} | (more or {})


def logical(type: int, more: dict[int, Any]) -> tuple[str, str, int]:
    column = leaf_columns([group("root", 1), leaf("c", type, more)])[0]
    return column.logical, column.unit, column.scale


def test_leaf_columns_have_their_paths() -> None:
    elements = [
        group("schema", 4),
        leaf("a", INT64, {ID: 7}),
        group("b.c", 2),
        leaf("d", BYTE_ARRAY),
        group("e", 1),
        leaf("f"),
        group("l", 1),
        group("list", 1, repetition=REPEATED),
        leaf("element"),
        leaf("r", INT32, {REPETITION: REPEATED}),
    ]
    assert leaf_columns(elements) == [
        ParquetColumn(("a",), 7, "INT64", ""),
        ParquetColumn(("b.c", "d"), None, "BYTE_ARRAY", ""),
        ParquetColumn(("b.c", "e", "f"), None, "INT32", ""),
        ParquetColumn(None, None, "INT32", ""),
        ParquetColumn(None, None, "INT32", ""),
    ]


@pytest.mark.parametrize(
    ("type", "more", "expected"),
    [
        (INT32, {}, ("", "", 0)),
        (BYTE_ARRAY, {LOGICAL: {1: {}}}, ("string", "", 0)),
        (BYTE_ARRAY, {CONVERTED: 0}, ("string", "", 0)),
        (BYTE_ARRAY, {LOGICAL: {12: {}}}, ("other", "", 0)),
        (BYTE_ARRAY, {CONVERTED: 19}, ("other", "", 0)),
        (INT32, {LOGICAL: {5: {1: 2, 2: 9}}}, ("decimal", "", 2)),
        (INT32, {CONVERTED: 5, SCALE: 3}, ("decimal", "", 3)),
        (INT32, {LOGICAL: {6: {}}}, ("date", "", 0)),
        (INT32, {CONVERTED: 6}, ("date", "", 0)),
        (INT64, {LOGICAL: {8: {1: True, 2: {2: {}}}}}, ("timestamptz", "us", 0)),
        (INT64, {LOGICAL: {8: {1: False, 2: {3: {}}}}, CONVERTED: 10}, ("timestamp", "ns", 0)),
        (INT64, {LOGICAL: {8: {}}}, ("timestamp", "", 0)),
        (INT64, {CONVERTED: 9}, ("timestamptz", "ms", 0)),
        (INT32, {LOGICAL: {10: {1: 8, 2: True}}}, ("signed", "", 0)),
        (INT32, {LOGICAL: {10: {1: 8, 2: False}}}, ("other", "", 0)),
        (INT32, {CONVERTED: 16}, ("signed", "", 0)),
        (INT32, {CONVERTED: 12}, ("other", "", 0)),
    ],
)
def test_logical_types(type: int, more: dict[int, Any], expected: tuple[str, str, int]) -> None:
    assert logical(type, more) == expected


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [{NAME: b"root"}],
        [group("root", 1)],
        [group("root", 2), leaf("a")],
        [group("root", 1), leaf("a"), leaf("b")],
        [group("root", 1), {TYPE: INT32}],
        [group("root", 1), leaf("a", 99)],
        [group("root", 1), {NAME: b"a"}],
        [group("root", 1), {NAME: b"a", CHILDREN: b"1"}],
        [group("root", 1), {NAME: b"\xff", TYPE: INT32}],
        [group("root", 1)] + [group("deep", 1)] * 1000 + [leaf("a")],
    ],
)
def test_what_is_no_tree_is_refused(elements: list[dict[int, Any]]) -> None:
    with pytest.raises(ValueError):
        leaf_columns(elements)
