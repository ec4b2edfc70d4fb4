from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.delta.log.commit_files import FileActions, LogText, read_file_actions
from floecat.delta.log.file_tables import files_schema
from floecat.delta.log.reconciliation import live_files, newest_actions
from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError
from tests.unit.delta.log_lines import add, commit_bytes, descriptor, remove

LOCATION = "s3://bucket/t"


def actions(*commits: Sequence[Mapping[str, Any]]) -> list[FileActions]:
    texts = [LogText(f"{version}.json", commit_bytes(*lines)) for version, lines in enumerate(commits)]
    # Each on its own, as large commits are.
    return [part for text in texts for part in read_file_actions([text], [], PathReader(LOCATION))]


def checkpoint(*adds: Mapping[str, Any]) -> pa.Table:
    (found,) = actions(adds)
    return found.adds


def live(
    *commits: Sequence[Mapping[str, Any]], base: Sequence[pa.Table] = (), **options: int
) -> list[tuple[str, str | None]]:
    files = live_files(base, actions(*commits), [], location=LOCATION, **options)
    return sorted(zip(files["path"].to_pylist(), files["dv_id"].to_pylist(), strict=True))


def test_files_are_those_that_were_added_and_not_removed() -> None:
    assert live([add("b"), add("a")], [remove("b")], [add("c")]) == [("a", None), ("c", None)]


def test_a_file_may_come_back() -> None:
    assert live([add("a", size=1)], [remove("a")], [add("a", size=3)]) == [("a", None)]
    files = live_files(
        [], actions([add("a", size=1)], [remove("a")], [add("a", size=3)]), [], location=LOCATION
    )
    assert files["size_bytes"].to_pylist() == [3]
    assert live([add("a")], [remove("a")], [add("a")], [remove("a")]) == []


def test_an_added_file_may_be_added_again_with_other_statistics() -> None:
    files = live_files([], actions([add("a", stats="old")], [add("a", stats="new")]), [], location=LOCATION)
    assert files["stats"].to_pylist() == ["new"]
    files = live_files(
        [checkpoint(add("a", stats="old"))], actions([add("a", stats="new")]), [], location=LOCATION
    )
    assert files["stats"].to_pylist() == ["new"]


def test_another_deletion_vector_makes_another_file() -> None:
    one, two = descriptor(offset=1), descriptor(offset=50)
    history = [
        [add("a")],
        [remove("a"), add("a", deletionVector=one)],
        [add("a", deletionVector=two), remove("a", deletionVector=one)],
    ]
    path = one["pathOrInlineDv"]
    assert live(*history) == [("a", f"u{path}@50")]
    assert live(*history[:2]) == [("a", f"u{path}@1")]
    assert live(*history[1:], base=[checkpoint(add("a"))]) == [("a", f"u{path}@50")]
    assert live(*history, [remove("a", deletionVector=two), add("a")]) == [("a", None)]
    assert live(*history, [remove("a")], [remove("a", deletionVector=one)]) == [("a", f"u{path}@50")]


def test_within_a_commit_the_last_line_wins() -> None:
    assert live([add("a"), remove("a")]) == []
    assert live([remove("a"), add("a")]) == [("a", None)]


def test_removes_of_what_a_checkpoint_holds() -> None:
    base = [checkpoint(add("c"), add("a")), checkpoint(add("b", deletionVector=descriptor()))]
    assert live(base=base) == [("a", None), ("b", "uab^-aqEH.-t@S}K{vb[*k^@1"), ("c", None)]
    assert live([remove("b")], [remove("c"), add("d")], base=base) == [
        ("a", None),
        ("b", "uab^-aqEH.-t@S}K{vb[*k^@1"),
        ("d", None),
    ]
    assert live([remove("b", deletionVector=descriptor()), remove("a")], base=base) == [("c", None)]


def test_a_file_that_two_parts_of_a_checkpoint_hold() -> None:
    twice = checkpoint(add("a", deletionVector=descriptor()), add("b"))
    assert live(base=[twice, twice]) == [("a", "uab^-aqEH.-t@S}K{vb[*k^@1"), ("b", None)]


def test_a_data_file_with_two_vectors_at_once() -> None:
    with pytest.raises(InvalidDeltaTableError) as raised:
        live([add("x")], [add("a")], [add("a", deletionVector=descriptor())])
    assert raised.value.message == (
        "Delta table s3://bucket/t holds the file 'a' with two deletion vectors at once"
    )
    with pytest.raises(InvalidDeltaTableError, match="two deletion vectors"):
        live([add("a", deletionVector=descriptor())], base=[checkpoint(add("a"))])


def test_nothing_is_live() -> None:
    assert live() == []
    assert live([remove("a")]) == []
    assert live_files([], [], ["p"], location=LOCATION).schema == files_schema(["p"])


def test_texts_of_statistics_are_not_copied_where_no_file_is_gone() -> None:
    base = checkpoint(add("b", stats="{}"), add("a", stats="{}"))
    files = live_files([base], actions([add("c")]), [], location=LOCATION)
    assert files["path"].to_pylist() == ["b", "a", "c"]
    held, given = (table["stats"].chunks[0].buffers()[2].address for table in (files, base))
    assert held == given


def with_stats(table: pa.Table, values: Sequence[Any]) -> pa.Table:
    return table.add_column(5, "stats_parsed", [pa.array(values)])


def test_struct_statistics_are_a_column_of_all_files() -> None:
    base = [
        with_stats(checkpoint(add("b")), [{"numRecords": 1, "minValues": {"x": 1}}]),
        with_stats(checkpoint(add("c")), [{"numRecords": 2, "minValues": {"y": "z"}}]),
        checkpoint(add("d", stats="{}")),
    ]
    files = live_files(base, actions([add("a", stats="{}")]), [], location=LOCATION).sort_by("path")
    assert files.column_names == files_schema([], pa.null()).names
    assert files["stats_parsed"].to_pylist() == [
        None,
        {"numRecords": 1, "minValues": {"x": 1, "y": None}},
        {"numRecords": 2, "minValues": {"x": None, "y": "z"}},
        None,
    ]
    assert files["stats"].to_pylist() == ["{}", None, None, "{}"]


def _parsed(value: Any, kind: pa.DataType) -> pa.Array:
    lows = pa.struct([("x", kind), ("y", pa.string())])
    return pa.array(
        [{"numRecords": 1, "minValues": {"x": value, "y": "s"}}],
        pa.struct([("numRecords", pa.int64()), ("minValues", lows)]),
    )


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ([(1, pa.int32()), (2, pa.int64())], [1, 2]),
        ([(1.5, pa.float32()), (2.5, pa.float64())], [1.5, 2.5]),
        ([(Decimal("1.50"), pa.decimal128(5, 2)), (Decimal("2.50"), pa.decimal128(20, 2))], [1.5, 2.5]),
        ([("a", pa.string()), ("b", pa.large_string())], ["a", "b"]),
        ([(None, pa.null()), (2, pa.int64())], [None, 2]),
        ([(1, pa.int64()), ("b", pa.string())], None),
        ([(1, pa.int64()), ("b", pa.string()), (3, pa.int64())], None),
        ([(1, pa.date32()), (1, pa.timestamp("us"))], None),
        ([(2**53 + 1, pa.int64()), (0.5, pa.float64())], None),
        ([(2**63, pa.uint64()), (1, pa.int64())], None),
        ([({"z": 1}, pa.struct([("z", pa.int64())])), (1, pa.int64())], None),
    ],
)
def test_struct_statistics_whose_types_differ(parts: Sequence[Any], values: Sequence[Any] | None) -> None:
    """What goes together is kept. Of a column whose types do not, nothing is known; of the others all is."""
    base = [
        checkpoint(add(f"{number}")).add_column(5, "stats_parsed", [_parsed(value, kind)])
        for number, (value, kind) in enumerate(parts)
    ]
    files = live_files(base, actions([add("z", stats="{}")]), [], location=LOCATION).sort_by("path")
    *found, last = files["stats_parsed"].to_pylist()
    assert last is None
    assert [each["numRecords"] for each in found] == [1] * len(parts)
    assert [each["minValues"]["y"] for each in found] == ["s"] * len(parts)
    known = [each["minValues"].get("x", "unknown") for each in found]
    assert known == (values or ["unknown"] * len(parts))


def test_struct_statistics_that_have_nothing_in_common() -> None:
    base = [with_stats(checkpoint(add("a")), [1]), with_stats(checkpoint(add("b")), ["x"])]
    files = live_files(base, [], [], location=LOCATION)
    assert files.schema == files_schema([])
    assert sorted(files["path"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("large_bytes", [0, 1 << 30])
def test_what_one_commit_does(large_bytes: int) -> None:
    adds, removes = newest_actions(
        actions([remove("z"), add("b"), add("a"), remove("y", deletionVector=descriptor()), remove("y")]),
        [],
        location=LOCATION,
        large_bytes=large_bytes,
    )
    assert adds["path"].to_pylist() == ["a", "b"]
    assert removes.to_pylist() == [
        {"path": "y", "dv_id": "uab^-aqEH.-t@S}K{vb[*k^@1"},
        {"path": "y", "dv_id": None},
        {"path": "z", "dv_id": None},
    ]


@st.composite
def logs(draw: st.DrawFn) -> list[list[tuple[str, str, int | None]]]:
    action = st.tuples(
        st.sampled_from(["add", "remove"]), st.sampled_from("abcde"), st.sampled_from([None, 1, 2])
    )
    return draw(st.lists(st.lists(action, max_size=5), max_size=8))


@given(logs(), st.integers(0, 8), st.sampled_from([0, 1 << 30]))
def test_random_logs_against_a_replay_one_by_one(
    log: list[list[tuple[str, str, int | None]]], start: int, large_bytes: int
) -> None:
    state: dict[tuple[str, int | None], bool] = {}
    base: list[dict[str, Any]] = []
    lines = []
    for version, commit in enumerate(log):
        if version == start:
            base = [line("add", path, offset) for (path, offset), is_live in state.items() if is_live]
        lines.append([line(kind, path, offset) for kind, path, offset in commit])
        for kind, path, offset in commit:
            state[path, offset] = kind == "add"
    expected = sorted(
        (path, offset) for (path, offset), is_live in state.items() if is_live and offset is not None
    )
    expected += sorted(
        (path, None) for (path, offset), is_live in state.items() if is_live and offset is None
    )
    after = lines[start:] if start < len(log) else lines
    tables = [checkpoint(*base)] if start < len(log) and base else []
    if len({path for path, _ in expected}) < len(expected):
        with pytest.raises(InvalidDeltaTableError, match="two deletion vectors"):
            live(*after, base=tables, large_bytes=large_bytes)
        return
    try:
        found = live(*after, base=tables, large_bytes=large_bytes)
    except InvalidDeltaTableError:
        raise AssertionError("No data file is live with two vectors") from None
    ids = {None: None, 1: "uab^-aqEH.-t@S}K{vb[*k^@1", 2: "uab^-aqEH.-t@S}K{vb[*k^@2"}
    assert found == sorted(((path, ids[offset]) for path, offset in expected), key=lambda key: key[0])


def line(kind: str, path: str, offset: int | None) -> dict[str, Any]:
    vector = None if offset is None else descriptor(offset=offset)
    return (add if kind == "add" else remove)(path, deletionVector=vector)
