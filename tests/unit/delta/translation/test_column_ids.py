from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import (
    FIRST_HIGH_ID,
    MOST_HIDDEN,
    FieldIds,
    assign_history,
    slots_of,
)
from floecat.errors import InvalidDeltaTableError, InvalidMetadataError
from tests.unit.delta.delta_metadata import (
    TRAP,
    array,
    field,
    map_of,
    mapped,
    metadata,
    nested_ids,
    struct,
)

HIGH = FIRST_HIGH_ID


def assigned(ids: FieldIds, version: Metadata) -> dict[str, int]:
    mapping_is_off = "delta.columnMapping.mode" not in version.configuration
    found = ids.assign(slots_of(version), low=mapping_is_off)
    assert len(set(found.values())) == len(found)
    return {".".join(path): id for path, id in found.items()}


def test_own_ids_follow_the_order_in_which_delta_numbers() -> None:
    version = metadata(
        field("a", struct(field("x"), field("y", array(struct(field("z")))))),
        field("b", map_of("string", "integer")),
        field("c"),
    )
    assert assigned(FieldIds(), version) == {
        "a": 1,
        "a.x": 2,
        "a.y": 3,
        "a.y.element": HIGH,
        "a.y.element.z": 4,
        "b": 5,
        "b.key": HIGH + 1,
        "b.value": HIGH + 2,
        "c": 6,
    }


def test_columns_keep_their_ids_and_new_ones_get_new_ids() -> None:
    ids = FieldIds()
    assigned(ids, metadata(field("a"), field("b", array("long"))))
    assert assigned(ids, metadata(field("b", array("long")), field("c"))) == {
        "b": 2,
        "b.element": HIGH,
        "c": 3,
    }
    assert assigned(ids, metadata(field("a", "string"), field("d"))) == {"a": 1, "d": 4}
    assert ids.generation == 0


def test_mapping_that_is_turned_on_changes_no_id() -> None:
    ids = FieldIds()
    before = assigned(ids, metadata(field("a", struct(field("x"))), field("l", array("long"))))
    after = metadata(
        mapped("a", 1, "a", struct(mapped("x", 2, "x"))), mapped("l", 3, "l", array("long")), mode="name"
    )
    assert assigned(ids, after) == before
    assert ids.generation == 0


def test_ids_that_mapping_numbers_otherwise_change_and_tell() -> None:
    ids = FieldIds()
    assigned(ids, metadata(field("a"), field("b")))
    assigned(ids, metadata(field("a"), field("new"), field("b")))
    on = metadata(mapped("a", 1, "a"), mapped("new", 2, "new"), mapped("b", 3, "b"), mode="name")
    assert assigned(ids, on) == {"a": 1, "new": 2, "b": 3}
    assert ids.generation > 0
    assert assigned(ids, metadata(field("a"), field("b"))) == {"a": 1, "b": 3}


def test_a_history_that_is_known_at_once_agrees_with_later_mapping() -> None:
    ids = FieldIds()
    first = metadata(field("a"), field("gone"), field("b"))
    second = metadata(field("a"), field("new"), field("b"))
    assert not assign_history([first, second], ids)
    assert assigned(ids, first) == {"a": 1, "gone": HIGH, "b": 3}
    on = metadata(mapped("a", 1, "a"), mapped("new", 2, "new"), mapped("b", 3, "b"), mode="name")
    assert assigned(ids, on) == assigned(ids, second)
    assert ids.generation == 0


def test_an_own_id_gives_way_to_one_of_mapping() -> None:
    ids = FieldIds()
    old = metadata(field("a"), field("gone"))
    assigned(ids, old)
    on = metadata(mapped("a", 1, "a"), mapped("new", 2, "col-1"), mode="name")
    assert assign_history([old, on], ids)
    assert assigned(ids, on) == {"a": 1, "col-1": 2}
    assert assigned(ids, old) == {"a": 1, "gone": HIGH}
    assert not assign_history([old, on], ids)


def test_mapping_off_counts_for_nothing() -> None:
    assert assigned(FieldIds(), metadata(mapped("a", 7, "col-1"))) == {"a": 1}


def test_list_elements_and_map_entries_take_the_ids_of_mapping() -> None:
    version = metadata(
        mapped(
            "m",
            3,
            "p",
            map_of("string", array(struct(mapped("x", 5, "q", array("long"), **nested_ids(q_element=9))))),
            **nested_ids(p_key=6, p_value=7, p_value_element=8),
        ),
        mode="id",
    )
    assert assigned(FieldIds(), version) == {
        "p": 3,
        "p.key": 6,
        "p.value": 7,
        "p.value.element": 8,
        "p.value.element.q": 5,
        "p.value.element.q.element": 9,
    }


def test_columns_that_mapping_left_without_id_stay_out_of_its_way() -> None:
    without = field("b", **{"delta.columnMapping.physicalName": "b"})
    version = metadata(mapped("a", 1, "a"), without, mode="name")
    assert assigned(FieldIds(), version) == {"a": 1, "b": HIGH}


def test_replaced_tables_whose_ids_start_anew() -> None:
    ids = FieldIds()
    assign_history(TRAP, ids)
    first, on, renamed, replaced, again = (assigned(ids, version) for version in TRAP)
    assert first == on == {"id": 1, "name": 2, "amount": 3, "region": 4}
    assert renamed == first | {"col-a": 7}
    assert replaced == {"id": 1, "full_name": 2, "amount": 3, "region": 4, "col-b": 7}
    assert again == {"id": 1, "full_name": 2, "amount": 3, "region": 4, "col-c": 8}
    assert ids.generation == 0


def test_one_version_after_the_other_gives_the_same_ids() -> None:
    at_once, in_turn = FieldIds(), FieldIds()
    assign_history(TRAP, at_once)
    assert [assigned(in_turn, version) for version in TRAP] == [
        assigned(at_once, version) for version in TRAP
    ]
    assert in_turn.generation == 0


def test_a_path_that_mapping_numbers_in_some_versions_only() -> None:
    without = metadata(mapped("f", 2, "f", array("long")), mode="name")
    with_id = metadata(mapped("f", 3, "f", array("long"), **nested_ids(f_element=2)), mode="name")
    ids = FieldIds()
    assigned(ids, without)
    assert assigned(ids, with_id) == {"f": 3, "f.element": 2}
    generation = ids.generation
    older = assigned(ids, without)
    assert older["f"] == 2
    assert assigned(ids, with_id) == {"f": 3, "f.element": 2}
    assert assigned(ids, without) == older
    assert ids.generation == generation == 1


def test_an_older_schema_with_both_names_of_an_id_has_it_once() -> None:
    old = metadata(field("name"), field("full_name"))
    on = metadata(mapped("name", 2, "name"), mode="name")
    replaced = metadata(mapped("name", 2, "full_name"), mode="name")
    ids = FieldIds()
    assign_history([old, on, replaced], ids)
    assert sorted(assigned(ids, old).values()) == [2, HIGH]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([mapped("a", 1, "p"), mapped("b", 1, "q")], "Columns p and q have the same id 1"),
        ([mapped("a", 1, "p"), mapped("b", 2, "p")], "physical name p"),
        (
            [mapped("a", 1, "p", array("long"), **nested_ids(p_element=1))],
            "p and p.element have the same id 1",
        ),
    ],
)
def test_an_id_or_a_physical_name_twice_is_refused(columns: list[dict], message: str) -> None:
    with pytest.raises(InvalidDeltaTableError, match=message):
        assigned(FieldIds(), metadata(*columns, mode="name"))


def test_mapped_columns_need_physical_names() -> None:
    inner = struct(field("x", **{"delta.columnMapping.id": 2}))
    with pytest.raises(
        InvalidDeltaTableError, match=r"Column a\.x has no delta\.columnMapping\.physicalName"
    ):
        slots_of(metadata(mapped("a", 1, "p", inner), mode="id"))


def test_partition_fields_have_an_id_for_each_source() -> None:
    ids = FieldIds()
    assert [ids.partition_id(source) for source in ("a", "b", "a")] == [1000, 1001, 1000]


def test_partition_columns_that_files_hold_have_ids_of_their_own() -> None:
    ids = FieldIds()
    plain, by_b = metadata(field("a"), field("b")), metadata(field("a"), field("b"), partitions=["b"])
    assert assigned(ids, by_b) == {"a": 1, "b": 2}
    ids.set_apart(["b"])
    assert assigned(ids, plain) == {"a": 1, "b": 3}
    assert (assigned(ids, by_b), assigned(ids, plain)) == ({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert ids.generation == 0
    assert ids.paths == {("a",): 1, ("b",): 3}
    on = metadata(mapped("a", 1, "a"), mapped("b", 2, "b"), partitions=["b"], mode="name")
    assert assigned(ids, on) == {"a": 1, "b": HIGH}
    assert ids.paths == {("a",): 1, ("b",): 2}
    assert ids.generation > 0


@pytest.mark.parametrize("first_by_b", [False, True])
def test_other_partition_columns_keep_their_ids_in_both_roles(first_by_b: bool) -> None:
    ids = FieldIds()
    both = [metadata(field("a"), field("b")), metadata(field("a"), field("b"), partitions=["b"])]
    for version in reversed(both) if first_by_b else both:
        assert assigned(ids, version) == {"a": 1, "b": 2}
    assert ids.generation == 0
    ids.set_apart(["b"])
    assert [assigned(ids, version)["b"] for version in both] == [2, HIGH]
    assert ids.generation == 1


def test_mapping_that_takes_the_id_of_both_roles_moves_both() -> None:
    ids = FieldIds()
    both = [metadata(field("a"), field("b")), metadata(field("a"), field("b"), partitions=["b"])]
    assign_history(both, ids)
    assigned(ids, metadata(mapped("c", 2, "c"), mode="name"))
    assert [assigned(ids, version)["b"] for version in both] == [HIGH, HIGH]
    assert ids.generation == 1


def test_partition_columns_follow_the_order_of_mapping_and_agree_with_it() -> None:
    ids = FieldIds()
    assert assigned(ids, metadata(field("p"), field("a"), partitions=["p"])) == {"p": 1, "a": 2}
    on = metadata(mapped("p", 1, "p"), mapped("a", 2, "a"), partitions=["p"], mode="name")
    assert assigned(ids, on) == {"p": 1, "a": 2}
    assert ids.generation == 0


def test_mapping_gives_both_the_same_id() -> None:
    ids = FieldIds()
    by_b = metadata(field("a"), field("b"), partitions=["b"])
    assigned(ids, by_b)
    assigned(ids, metadata(field("a"), field("b")))
    on = metadata(mapped("a", 1, "a"), mapped("b", 2, "b"), mode="name")
    assert assigned(ids, on) == {"a": 1, "b": 2}
    assert ids.generation == 0
    assert assigned(ids, by_b) == {"a": 1, "b": 2}


def test_a_partition_column_that_files_hold_gets_another_id() -> None:
    ids = FieldIds()
    columns = (mapped("a", 1, "x"), mapped("b", 2, "y"))
    by_b, plain = metadata(*columns, partitions=["b"], mode="id"), metadata(*columns, mode="id")
    assert assigned(ids, by_b) == {"x": 1, "y": 2}
    ids.set_apart(["y"])
    assert assigned(ids, by_b) == {"x": 1, "y": HIGH}
    assert assigned(ids, plain) == {"x": 1, "y": 2}
    ids.set_apart(["y"])
    assert (ids.generation, assigned(ids, by_b)["y"]) == (1, HIGH)
    assert FieldIds.decode(ids.encode()) == ids


@pytest.mark.parametrize("was_a_column", [False, True])
def test_ids_of_earlier_releases_are_taken_over(was_a_column: bool) -> None:
    """They knew one id for a path, in whatever role: a file that holds a partition column may have it."""
    ids = FieldIds(own={'["a"]': 1, '["b"]': 2}, last_id=2)
    by_b = metadata(field("a"), field("b"), partitions=["b"])
    assign_history([metadata(field("a"), field("b")), by_b] if was_a_column else [by_b], ids)
    assert assigned(ids, by_b) == {"a": 1, "b": 2}
    ids.set_apart(["b"])
    assert assigned(ids, by_b) == {"a": 1, "b": HIGH}


def test_hidden_paths_are_bounded() -> None:
    ids = FieldIds()
    ids.hide([("a",), ("b", "c"), ("a",), ("x" * 2000,)])
    ids.hide([("d",), ("a",)])
    assert ids.hidden_paths == [("a",), ("b", "c"), ("d",)]
    ids.hide((f"x{at}",) for at in range(MOST_HIDDEN))
    assert len(ids.hidden) == MOST_HIDDEN


def test_ids_are_stored_as_json() -> None:
    ids = FieldIds()
    assign_history(TRAP, ids)
    ids.partition_id("4:string")
    assert FieldIds.decode(ids.encode()) == ids
    assert msgspec.json.decode(ids.encode())["mapped"]['["col-c"]'] == 8


@pytest.mark.parametrize("data", [b"", b"[]", b'{"own":[1]}', b"\xff"])
def test_other_things_are_no_stored_ids(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match="Cannot read the field ids"):
        FieldIds.decode(data)


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])


@st.composite
def versions(draw: st.DrawFn) -> list[Metadata]:
    """A history without order: columns come and go, change their types, and get any ids by mapping."""
    history = []
    for _ in range(draw(st.integers(1, 5))):
        is_mapped = draw(st.booleans())
        # A step through a prime number of ids meets each of them once.
        first, step = draw(st.integers(0, 78)), draw(st.integers(1, 78))
        free = iter([(first + step * number) % 79 + 1 for number in range(79)])

        def column(name: str, is_mapped: bool = is_mapped, free: object = free, depth: int = 0) -> dict:
            shape = draw(st.sampled_from(["plain", "list", "struct"] if depth < 2 else ["plain"]))
            type: object = "integer"
            if shape == "list":
                type = array("integer")
            if shape == "struct":
                inner = draw(st.lists(NAMES, unique=True, min_size=1, max_size=2))
                type = struct(*(column(each, is_mapped, free, depth + 1) for each in inner))
            if not is_mapped:
                return field(name, type)
            extra = nested_ids(**{f"{name}_element": next(free)}) if draw(st.booleans()) else {}
            return mapped(name, next(free), name, type, **extra)

        names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
        history.append(metadata(*map(column, names), mode="name" if is_mapped else None))
    return history


@given(versions(), st.booleans())
@settings(max_examples=100)
def test_ids_are_unique_and_only_change_with_the_generation(history: list[Metadata], at_once: bool) -> None:
    ids = FieldIds()
    if at_once:
        assign_history(history, ids)
    published: list[dict[str, int]] = []
    generation = ids.generation
    for position, version in enumerate(history):
        found = assigned(ids, version)
        for slot in slots_of(version):
            assert slot.dictated in (None, found[".".join(slot.path)])
        if ids.generation != generation:
            # All older versions are made again, once: nothing changes any more then.
            generation = ids.generation
            published = [assigned(ids, older) for older in history[:position]]
        published.append(found)
        assert [assigned(ids, older) for older in history[: position + 1]] == published
        assert ids.generation == generation
    assert not assign_history(history, ids)


@given(versions())
@settings(max_examples=50)
def test_own_ids_are_never_given_to_two_paths(history: list[Metadata]) -> None:
    ids = FieldIds()
    owners: dict[int, str] = {}
    for version in history:
        for path, id in assigned(ids, version).items():
            if ids.own.get(msgspec.json.encode(path.split(".")).decode()) == id:
                assert owners.setdefault(id, path) == path
