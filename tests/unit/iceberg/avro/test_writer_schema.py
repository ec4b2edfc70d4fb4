from __future__ import annotations

import json
from typing import Any

import pytest

from floecat.iceberg.avro.writer_schema import SchemaError, leaf_fields, parse_writer_schema
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS


def record(*types: Any, name: str = "r") -> dict[str, Any]:
    fields = [{"name": f"f{place}", "type": type_, "field-id": place} for place, type_ in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def parse(schema: Any) -> Any:
    return parse_writer_schema(json.dumps(schema).encode(), DEFAULT_BOUNDS)


def test_nested_records_are_replaced_by_their_fields() -> None:
    root = parse(record("int", record("string", "long", name="inner"), ["null", "int"]))
    found = [(field.name, field.parent and field.parent.id) for field in leaf_fields(root)]
    assert found == [("f0", None), ("f0", 1), ("f1", 1), ("f2", None)]
    assert (root.min_size, root.varints) == (4, None)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        [],
        "int",
        1,
        None,
        record(),
        record("null"),
        record("nothing"),
        record([]),
        record({"type": "array"}),
        record({"type": "array", "items": "null"}),
        record({"type": "array", "items": record(name="empty")}),
        record({"type": "fixed", "name": "f", "size": -1}),
        record({"type": "fixed", "name": "f", "size": 2**40}),
        record({"type": {"type": {"type": 7}}}),
        {"type": "record", "name": "r"},
        {"type": "record", "name": "r", "fields": [{"type": "int"}]},
        {"type": "record", "fields": [{"name": "f", "type": "int"}]},
    ],
)
def test_refuses_what_is_no_schema_of_records(schema: Any) -> None:
    with pytest.raises(SchemaError):
        parse(schema)


def test_refuses_a_type_within_itself() -> None:
    with pytest.raises(SchemaError) as caught:
        parse(record("int", ["null", "r"]))
    assert caught.value.bound == "manifest_schema_depth"


def test_refuses_few_types_that_stand_for_many() -> None:
    schema: dict[str, Any] = record("int", name="r0")
    for level in range(1, 25):
        schema = record(schema, *[f"r{level - 1}"] * 3, name=f"r{level}")
    with pytest.raises(SchemaError) as caught:
        parse(schema)
    assert caught.value.bound == "manifest_schema_types"


def test_refuses_bytes_that_are_no_json() -> None:
    for data in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(SchemaError):
            parse_writer_schema(data, DEFAULT_BOUNDS)
