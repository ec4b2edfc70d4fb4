"""Footers that get the field ids which their writers left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.artifacts.field_id_copies import required_field_ids
from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.translated_schema import translate_schema
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.parquet.field_ids import RequiredFieldIds, number_fields
from floecat.iceberg.parquet.parquet_schema import SchemaNode, read_schema, with_field_ids
from floecat.iceberg.parquet.thrift_compact import I32, field_header, zigzag
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.encoded_json import encode_json
from tests.delta_tables import delta_table
from tests.unit.delta import delta_metadata

FILE = "s3://lake/t/part-0.parquet"
_FIELD_ID = b"PARQUET:field_id"
_PRIMITIVES = {"int": pa.int32(), "string": pa.string(), "double": pa.float64()}


class Columns:
    """Columns of a table under both of their names: an Arrow schema of files, and the ids that they get.

    Types are a name, or `["list", of]`, `["map", of, of]`, `["struct", of, …]`.
    """

    def __init__(self, *types: Any) -> None:
        self._ids = itertools.count(1)
        self._own_ids = itertools.count(1000)
        self.ids: dict[tuple[str, ...], int] = {}
        fields = [self._field(f"c{at}", type, ()) for at, type in enumerate(types)]
        self.schema = pa.schema([arrow for arrow, _ in fields])
        json = {"type": "struct", "fields": [json for _, json in fields]}
        self.iceberg = parse_schema(encode_json(json))

    def numbers(self, *, by_id: bool = False) -> RequiredFieldIds:
        return RequiredFieldIds(self.ids, self.iceberg, by_id)

    def _field(self, name: str, type: Any, owner: tuple[str, ...]) -> tuple[pa.Field, dict[str, Any]]:
        path = (*owner, name)
        id = self.ids[path] = next(self._ids)
        arrow, json = self._type(type, path)
        field = pa.field(name, arrow, metadata={_FIELD_ID: str(id).encode()})
        return field, {"id": id, "name": name, "required": False, "type": json}

    def _part(self, part: str, type: Any, owner: tuple[str, ...]) -> tuple[pa.DataType, dict[str, Any]]:
        id = self.ids[(*owner, part)] = next(self._own_ids)
        arrow, json = self._type(type, (*owner, part))
        return arrow, {f"{part}-id": id, part: json} | ({} if part == "key" else {f"{part}-required": False})

    def _type(self, type: Any, path: tuple[str, ...]) -> tuple[pa.DataType, Any]:
        if isinstance(type, str):
            return _PRIMITIVES[type], type
        kind, *of = type
        if kind == "list":
            arrow, part = self._part("element", of[0], path)
            return pa.list_(arrow), {"type": "list"} | part
        if kind == "map":
            (key, key_json), (value, value_json) = (
                self._part(part, each, path) for part, each in zip(("key", "value"), of, strict=True)
            )
            return pa.map_(key, value), {"type": "map"} | key_json | value_json
        fields = [self._field(f"f{at}", each, path) for at, each in enumerate(of)]
        return pa.struct([arrow for arrow, _ in fields]), {
            "type": "struct",
            "fields": [json for _, json in fields],
        }


def file_of(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def numbered(data: bytes, numbers: RequiredFieldIds) -> bytes | None:
    """The file with its new footer."""
    made = number_fields(data, numbers, FILE)
    return None if made is None else data[: len(data) - made.replaced] + made.data


def ids_of(data: bytes) -> dict[tuple[str, ...], int]:
    """Field ids by path, as Arrow reads them."""
    found: dict[tuple[str, ...], int] = {}

    def walk(field: pa.Field, path: tuple[str, ...]) -> None:
        if field.metadata and _FIELD_ID in field.metadata:
            found[path] = int(field.metadata[_FIELD_ID])
        if pa.types.is_struct(field.type):
            for child in field.type:
                walk(child, (*path, child.name))
        elif pa.types.is_list(field.type):
            walk(field.type.value_field, (*path, "element"))
        elif pa.types.is_map(field.type):
            walk(field.type.key_field, (*path, "key"))
            walk(field.type.item_field, (*path, "value"))

    for column in pq.ParquetFile(pa.BufferReader(data)).schema_arrow:
        walk(column, (column.name,))
    return found


def elements(root: SchemaNode) -> list[tuple[Any, ...]]:
    """All of a schema but the ids."""
    own = (root.name, root.annotation, root.is_repeated, root.is_group, len(root.children))
    return [own, *(each for child in root.children for each in elements(child))]


def metadata_of(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[len(data) - 8 - length : -8]


SAMPLE = Columns(
    "int",
    ["list", "int"],
    ["map", "string", ["list", "int"]],
    ["struct", ["list", ["struct", "int", ["list", "string"]]], "double"],
)
ROWS = pa.Table.from_pylist(
    [
        {"c0": 1, "c1": [1, None], "c2": [("k", [1]), ("l", None)], "c3": {"f0": [{"f0": 1, "f1": ["x"]}]}},
        {"c0": 2, "c1": [], "c2": None, "c3": {"f0": [None], "f1": 0.5}},
    ],
    SAMPLE.schema,
)


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("options", [{}, {"store_schema": False}, {"use_compliant_nested_type": False}])
def test_parts_of_lists_and_maps_get_their_ids(by_id, options):
    data = file_of(ROWS, **options)
    made = numbered(data, SAMPLE.numbers(by_id=by_id))
    assert made is not None
    assert ids_of(made) == SAMPLE.ids
    assert pq.read_table(pa.BufferReader(made)).equals(pq.read_table(pa.BufferReader(data)))
    # every part has its id now
    assert numbered(made, SAMPLE.numbers(by_id=by_id)) is None


def test_columns_are_named():
    made = number_fields(file_of(ROWS), SAMPLE.numbers(), FILE)
    assert made is not None
    assert made.columns == ("c1", "c2", "c2.value", "c3.f0", "c3.f0.element.f1")


def test_files_without_ids_are_read_by_name():
    plain = pa.table({"c0": [1], "c1": [[1, 2]]})
    assert numbered(file_of(plain), SAMPLE.numbers()) is None


def test_files_without_collections_stay():
    assert numbered(file_of(ROWS.select(["c0"])), SAMPLE.numbers()) is None


def test_an_id_of_other_rules_gives_way():
    typed = pa.list_(pa.field("element", pa.int32(), metadata={_FIELD_ID: b"7"}))
    schema = pa.schema([SAMPLE.schema.field("c0"), SAMPLE.schema.field("c1").with_type(typed)])
    made = numbered(file_of(ROWS.select(["c0", "c1"]).cast(schema)), SAMPLE.numbers())
    assert made is not None
    assert ids_of(made)["c1", "element"] == SAMPLE.ids["c1", "element"]


def test_fields_without_an_id_are_found_by_name_alone():
    schema = pa.schema([SAMPLE.schema.field("c0"), pa.field("c1", pa.list_(pa.int32()))])
    data = file_of(ROWS.select(["c0", "c1"]).cast(schema))
    made = numbered(data, SAMPLE.numbers())
    assert made is not None
    assert ids_of(made) == {path: id for path, id in SAMPLE.ids.items() if path[0] in ("c0", "c1")}
    # readers that go by id take such a column for one that the file does not have
    assert numbered(data, SAMPLE.numbers(by_id=True)) is None


def test_ids_find_columns_under_other_names():
    renamed = ROWS.rename_columns(["a", "b", "c", "d"])
    fields = zip(renamed.schema, SAMPLE.schema, strict=True)
    schema = pa.schema([field.with_metadata(known.metadata) for field, known in fields])
    made = numbered(file_of(renamed.cast(schema)), SAMPLE.numbers(by_id=True))
    assert made is not None
    assert ids_of(made)["b", "element"] == SAMPLE.ids["c1", "element"]
    assert numbered(file_of(renamed.cast(schema)), SAMPLE.numbers()) is None


def test_columns_that_are_gone_get_ids_beside_others():
    """The copy of a file is the same for versions that have a column, and for those that dropped it."""
    fewer = Columns("int", ["list", "int"])
    dropped = RequiredFieldIds(SAMPLE.ids, fewer.iceberg, by_id=False)
    assert fewer.ids.items() <= SAMPLE.ids.items()
    data = file_of(ROWS)
    assert numbered(data, dropped) == numbered(data, SAMPLE.numbers())
    none = RequiredFieldIds(SAMPLE.ids, Columns("int").iceberg, by_id=False)
    assert numbered(data, none) is None


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (pa.struct([("element", pa.int32())]), {"element": 1}),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
        (pa.int32(), 1),
    ],
)
def test_other_structures_are_refused(type, value):
    schema = pa.schema([SAMPLE.schema.field("c0"), SAMPLE.schema.field("c1").with_type(type)])
    data = file_of(pa.Table.from_pylist([{"c0": 1, "c1": value}], schema))
    with pytest.raises(UnsupportedDeltaTableError, match=rf"Column c1 is a list .*{FILE}"):
        number_fields(data, SAMPLE.numbers(), FILE)
    # of a column that is gone nobody asks what it is
    gone = RequiredFieldIds(SAMPLE.ids, Columns("int").iceberg, by_id=False)
    assert numbered(data, gone) is None


def element(
    name: str, *, id: int | None = None, children: int | None = None, type: int | None = None, **more
):
    """A schema element; `repetition` is 0 for required, 1 for optional, 2 for repeated."""
    fields = {1: type, 3: more.get("repetition", 1), 5: children, 6: more.get("converted"), 9: id}
    parts, last = [], 0
    for number, value in sorted({**fields, 4: name}.items()):
        if value is None:
            continue
        if number == 4:
            parts.append(field_header(4, 8, after=last) + bytes([len(name)]) + name.encode())
        else:
            parts.append(field_header(number, I32, after=last) + zigzag(value))
        last = number
    return b"".join(parts) + b"\0"


def footer(*parts: bytes) -> bytes:
    metadata = (
        field_header(1, I32, after=0)
        + zigzag(2)
        + field_header(2, 9, after=1)
        + bytes([len(parts) << 4 | 12])
        + b"".join(parts)
        + field_header(3, 6, after=2)
        + zigzag(1)
        + b"\0"
    )
    return metadata + len(metadata).to_bytes(4, "little") + b"PAR1"


LIST, MAP, MAP_KEY_VALUE, INT32 = 3, 1, 2, 1
ROOT = element("schema", children=1, repetition=0)
LIST_COLUMN = element("c1", id=2, children=1, converted=LIST)
LISTS = Columns("int", ["list", "int"])
LISTS_OF_STRUCTS = Columns("int", ["list", ["struct", "int"]])
LISTS_OF_LISTS = Columns("int", ["list", ["list", "int"]])
MAPS = Columns("int", ["map", "int", "int"])


def found_ids(data: bytes) -> list[tuple[str, int | None]]:
    def walk(node: SchemaNode) -> list[tuple[str, int | None]]:
        return [(node.name, node.field_id), *(each for child in node.children for each in walk(child))]

    return walk(read_schema(metadata_of(data)))[1:]


@pytest.mark.parametrize(
    ("columns", "parts", "ids"),
    [
        # the forms of Parquet's rules for lists of older writers
        (LISTS, [element("element", type=INT32, repetition=2)], [1000]),
        (LISTS, [element("bag", children=1, repetition=2), element("array", type=INT32)], [None, 1000]),
        (LISTS, [element("list", children=1, repetition=2), element("item", type=INT32)], [None, 1000]),
        (
            LISTS_OF_STRUCTS,
            [element("array", children=1, repetition=2), element("f0", id=3, type=INT32)],
            [1000, 3],
        ),
        (
            LISTS_OF_STRUCTS,
            [element("c1_tuple", children=1, repetition=2), element("f0", id=3, type=INT32)],
            [1000, 3],
        ),
        (
            LISTS_OF_STRUCTS,
            [
                element("element", children=2, repetition=2),
                element("f0", id=3, type=INT32),
                element("other", type=INT32),
            ],
            [1000, 3, None],
        ),
        (
            LISTS_OF_LISTS,
            [
                element("array", children=1, repetition=2, converted=LIST),
                element("array", type=INT32, repetition=2),
            ],
            [1000, 1001],
        ),
    ],
)
def test_lists_of_older_writers(columns, parts, ids):
    made = number_fields(footer(ROOT, LIST_COLUMN, *parts), columns.numbers(), FILE)
    assert made is not None
    assert [id for _, id in found_ids(made.data)] == [2, *ids]


@pytest.mark.parametrize("converted", [MAP, MAP_KEY_VALUE])
@pytest.mark.parametrize("entries", ["key_value", "map", "entries"])
def test_maps_of_older_writers(converted, entries):
    parts = [
        element("c1", id=2, children=1, converted=converted),
        element(entries, children=2, repetition=2, converted=MAP_KEY_VALUE),
        element("k", type=INT32, repetition=0),
        element("v", type=INT32),
    ]
    made = number_fields(footer(ROOT, *parts), MAPS.numbers(), FILE)
    assert made is not None
    assert found_ids(made.data) == [("c1", 2), (entries, None), ("k", 1000), ("v", 1001)]


@pytest.mark.parametrize(
    "parts",
    [
        [element("c1", id=2, type=INT32, repetition=2)],
        [LIST_COLUMN, element("list", children=1, repetition=1), element("element", type=INT32)],
        [element("c1", id=2, children=0, converted=LIST)],
        [element("c1", id=2, children=1), element("list", type=INT32, repetition=2)],
    ],
)
def test_lists_that_are_none(parts):
    with pytest.raises(UnsupportedDeltaTableError, match="c1"):
        number_fields(footer(ROOT, *parts), LISTS.numbers(), FILE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"\0\0\0\0PAR1",
        b"\xff\xff\xff\xffPAR1",
        footer(),
        footer(ROOT),
        footer(ROOT, LIST_COLUMN),
        footer(ROOT, element("a", type=INT32), element("b", type=INT32)),
        footer(element("schema", children=-1, repetition=0), element("a", type=INT32)),
        footer(*[element("g", children=1)] * 10),
    ],
)
def test_broken_footers_name_the_file(data):
    with pytest.raises(InvalidDeltaTableError, match=FILE):
        number_fields(data, LISTS.numbers(), FILE)


def test_every_cut_and_every_changed_byte_is_survived():
    data = file_of(ROWS)
    metadata = metadata_of(data)
    ends = [metadata[:at] for at in range(0, len(metadata), 7)]
    changed = [
        metadata[:at] + bytes([metadata[at] ^ flipped]) + metadata[at + 1 :]
        for at in range(min(len(metadata), 700))
        for flipped in (0x01, 0x80, 0xFF)
    ]
    for each in (*ends, *changed):
        try:
            number_fields(each + len(each).to_bytes(4, "little") + b"PAR1", SAMPLE.numbers(), FILE)
        except (InvalidDeltaTableError, UnsupportedDeltaTableError) as error:
            assert FILE in error.message  # noqa: PT017 - most are read all the same


@pytest.mark.parametrize(
    "name",
    [
        "golden/table-with-columnmapping-mode-name/delta",
        "golden/table-with-columnmapping-mode-id/delta",
        "kernel-rs/stats-writing-all-types/delta",
        "made/sail-dv_cm_id",
    ],
)
def test_files_of_real_tables(name):
    folder = delta_table(name)
    log = DeltaLog(LocalFileIO(), AllowedLocations([folder.as_uri()]), folder.as_uri())
    listing = log.listing()
    snapshot = log.snapshot(listing, listing.latest)
    ids = FieldIds()
    translated = translate_schema(snapshot.metadata, ids)
    numbers = required_field_ids(translated, ids)
    assert numbers is not None
    for path in snapshot.files["path"].to_pylist():
        data = (folder / path).read_bytes()
        made = numbered(data, numbers)
        assert made is not None
        assert pq.read_table(pa.BufferReader(made)).equals(pq.read_table(pa.BufferReader(data)))
        assert set(ids_of(data).items()) < set(ids_of(made).items())
        partitions = {column.source_id for column in translated.partition_fields}
        assert set(ids_of(made).values()) | partitions == set(translated.physical_paths)


def with_ids(schema: pa.Schema, ids: Iterator[int]) -> pa.Schema:
    def number(field: pa.Field) -> pa.Field:
        of = field.type
        if pa.types.is_struct(of):
            of = pa.struct([number(child) for child in of])
        elif pa.types.is_list(of):
            of = pa.list_(number(of.value_field))
        elif pa.types.is_map(of):
            of = pa.map_(number(of.key_field), number(of.item_field))
        return field.with_type(of).with_metadata({_FIELD_ID: str(next(ids)).encode()})

    return pa.schema([number(field) for field in schema])


@pytest.mark.parametrize("is_own", [True, False])
def test_ids_of_another_table_give_way(is_own):
    columns = Columns("int", "string", ["struct", "int", "string"], ["list", ["struct", "int"]])
    foreign = with_ids(columns.schema.append(pa.field("more", pa.int32())), iter(range(20, 0, -1)))
    data = file_of(foreign.empty_table())
    numbers = RequiredFieldIds(columns.ids, columns.iceberg, by_id=False, is_own=is_own)
    footer = number_fields(data, numbers, FILE)
    assert footer is not None
    assert footer.is_foreign
    found = ids_of(numbered(data, numbers))
    stranger = found.pop(("more",))
    assert found == columns.ids
    assert stranger not in columns.ids.values()
    again = number_fields(numbered(data, numbers), numbers, FILE)
    # what the table does not know may be a column of it by the time
    assert (again is not None) == is_own


def test_strangers_alone():
    """An id that no column has may be given out later, if it is not Delta that gives them."""
    columns = Columns("int", "string")
    more = pa.field("more", pa.int32(), metadata={_FIELD_ID: b"3"})
    data = file_of(columns.schema.append(more).empty_table())
    assert number_fields(data, columns.numbers(), FILE) is None
    own = RequiredFieldIds(columns.ids, columns.iceberg, by_id=False, is_own=True)
    footer = number_fields(data, own, FILE)
    assert footer is not None
    assert (footer.is_foreign, footer.columns) == (True, ("more",))
    assert ids_of(numbered(data, own))[("more",)] > 1_000_000_000
    plain = file_of(columns.schema.append(pa.field("more", pa.int32())).empty_table())
    assert number_fields(plain, own, FILE) is None


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_how_files_are_looked_at(mode):
    """All where column mapping leaves ids out, samples where ids go unheard, none where they are Delta's."""
    numbers = []
    for type_ in ("int", ["list", "int"]):
        ids = FieldIds()
        of = "integer" if type_ == "int" else delta_metadata.array("integer")
        metadata = delta_metadata.metadata(delta_metadata.mapped("c", 1, "c", of), mode=mode)
        numbers.append(required_field_ids(translate_schema(metadata, ids), ids))
    plain, nested = numbers
    expected = {"none": (True, True), "name": (False, True), "id": None}[mode]
    assert (plain and (plain.is_own, plain.sampled)) == expected
    assert nested is not None
    assert nested.sampled == (mode == "none")


_TYPES = st.recursive(
    st.sampled_from(sorted(_PRIMITIVES)),
    lambda inner: st.one_of(
        st.tuples(st.just("list"), inner),
        st.tuples(st.just("map"), st.sampled_from(["int", "string"]), inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda of: ("struct", *of)),
    ),
    max_leaves=6,
)


@given(types=st.lists(_TYPES, min_size=1, max_size=20), by_id=st.booleans(), store_schema=st.booleans())
@settings(max_examples=60)
def test_any_types(types, by_id, store_schema):
    columns = Columns(*types)
    table = columns.schema.empty_table()
    data = file_of(table, store_schema=store_schema)
    made = numbered(data, columns.numbers(by_id=by_id))
    if made is None:
        assert ids_of(data) == columns.ids
        return
    assert ids_of(made) == columns.ids
    assert elements(read_schema(metadata_of(made))) == elements(read_schema(metadata_of(data)))
    assert pq.read_table(pa.BufferReader(made)).equals(pq.read_table(pa.BufferReader(data)))


def test_nothing_changes_without_new_ids():
    metadata = metadata_of(file_of(ROWS))
    assert with_field_ids(metadata, []) == metadata


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\x48\x01a", b"\x48\x01a\x55\x0e"),  # nothing is behind it
        (b"\x48\x01a\x6c\x00", b"\x48\x01a\x55\x0e\x1c\x00"),  # what follows counts from it
        (b"\x48\x01a\x0c\x14\x00", b"\x48\x01a\x55\x0e\x0c\x14\x00"),  # what follows has its own number
        (b"\x48\x01a\xb5\x0a", b"\x48\x01a\x55\x0e\x65\x0a"),
        (b"\x48\x01a\x55\x02\x1c\x00", b"\x48\x01a\x55\x0e\x1c\x00"),  # it has one
        (b"\x48\x01a\x6c\x00\x05\x12\x02", b"\x48\x01a\x6c\x00\x05\x12\x0e"),  # out of order
    ],
)
def test_where_an_id_is_put(before, after):
    data, expected = (metadata_of(footer(ROOT, each + b"\0")) for each in (before, after))
    [node] = read_schema(data).children
    assert with_field_ids(data, [(node, 7)]) == expected
    assert read_schema(expected).children[0].field_id == 7


@pytest.mark.parametrize("field", [b"\x56\x02", b"\x58\x01a", b"\x55\x02\x05\x12\x02"])
def test_field_ids_that_are_none(field):
    with pytest.raises(InvalidDeltaTableError, match=FILE):
        number_fields(footer(ROOT, b"\x48\x01a" + field + b"\0"), LISTS.numbers(), FILE)
