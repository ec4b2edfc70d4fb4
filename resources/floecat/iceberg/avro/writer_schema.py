"""The schema that an Avro file was written with, as a tree of encodings (Avro specification).

Types with the same encoding share a node: `enum` is a number, `string` is bytes, and a map is an array of key
and value pairs, which is how Iceberg writes maps whose keys are not strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from floecat.iceberg.values.bounds import Bounds

__all__ = [
    "Encoding",
    "Parent",
    "SchemaError",
    "SchemaField",
    "WriterNode",
    "leaf_fields",
    "parse_writer_schema",
]


class SchemaError(ValueError):
    """The schema is not Avro, or exceeds a bound. The message quotes nothing from the schema.

    Attributes:
        bound: name of the bound; the message is what there is too much of.
    """

    def __init__(self, problem: str, *, bound: str | None = None) -> None:
        super().__init__(problem)
        self.bound = bound


class Encoding(Enum):
    """An Avro encoding of values. Encodings without parts are named after a type that uses them."""

    NULL = "null"
    BOOLEAN = "boolean"
    VARINT = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    FIXED = "fixed"
    RECORD = "record"
    ARRAY = "array"
    UNION = "union"


@dataclass(frozen=True, eq=False)
class WriterNode:
    """A type.

    Attributes:
        encoding: how its values are written.
        parts: types of the fields of a record, of the items of an array, or of the branches of a union.
        fields: of a record.
        size: bytes of a `fixed`.
        min_size: the fewest bytes that a value can have.
        varints: the number of variable-length integers that every value consists of; None if it is not made
            of these alone.
        attributes: the type as the file has it, `logicalType` among it; empty for a plain type.
    """

    encoding: Encoding
    parts: tuple[WriterNode, ...] = ()
    fields: tuple[SchemaField, ...] = ()
    size: int = 0
    min_size: int = 0
    varints: int | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_pair(self) -> bool:
        """Whether it is a pair of a map from integers to integers or bytes."""
        encodings = [part.encoding for part in self.parts] if self.encoding is Encoding.RECORD else []
        return encodings in ([Encoding.VARINT, Encoding.VARINT], [Encoding.VARINT, Encoding.BYTES])


class Parent(NamedTuple):
    """A field that is a record.

    Attributes:
        id: its Iceberg field id, None in files whose writers leave ids out.
        name: its name in the file.
    """

    id: int | None
    name: str


@dataclass(frozen=True, eq=False)
class SchemaField:
    """A field of a record.

    Attributes:
        id: its Iceberg field id, None in files whose writers leave ids out.
        name: its name in the file.
        node: its type.
        parent: the record field that it is part of, None for a field of the outermost record.
        attributes: the field as the file has it.
    """

    id: int | None
    name: str
    node: WriterNode
    parent: Parent | None
    attributes: dict[str, Any]


def parse_writer_schema(data: bytes, bounds: Bounds) -> WriterNode:
    """Reads `avro.schema` of a file.

    Raises:
        SchemaError: not a schema of records, a bound is exceeded, or values without bytes are repeated: a few
            bytes of such a file would stand for any number of values.
    """
    if len(data) > bounds.manifest_schema_bytes:
        raise SchemaError("its Avro schema has more bytes than", bound="manifest_schema_bytes")
    try:
        schema = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SchemaError("its Avro schema is not JSON") from None
    node = _Parser(bounds).parse(schema, "", None, 0)
    if node.encoding is not Encoding.RECORD:
        raise SchemaError("its Avro schema is not a record")
    if not node.min_size:
        raise SchemaError("its Avro schema has records without bytes")
    return node


def leaf_fields(record: WriterNode) -> Iterator[SchemaField]:
    """Fields of a record in the order of its bytes, each nested record replaced by its own fields."""
    for each in record.fields:
        if each.node.encoding is Encoding.RECORD:
            yield from leaf_fields(each.node)
        else:
            yield each


_ENCODINGS = {
    "null": (Encoding.NULL, 0),
    "boolean": (Encoding.BOOLEAN, 1),
    "int": (Encoding.VARINT, 1),
    "long": (Encoding.VARINT, 1),
    "float": (Encoding.FLOAT, 4),
    "double": (Encoding.DOUBLE, 8),
    "bytes": (Encoding.BYTES, 1),
    "string": (Encoding.BYTES, 1),
}


class _Parser:
    """Parses one schema. A type that is used by its name is parsed again at each use."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._nodes = 0
        self._named: dict[str, dict[str, Any]] = {}

    def parse(self, schema: Any, namespace: str, parent: Parent | None, depth: int) -> WriterNode:
        self._nodes += 1
        if self._nodes > self._bounds.manifest_schema_types:
            raise SchemaError("its Avro schema has more types than", bound="manifest_schema_types")
        if depth > self._bounds.manifest_schema_depth:
            raise SchemaError("its Avro schema is nested deeper than", bound="manifest_schema_depth")
        if isinstance(schema, list):
            return self._union(schema, namespace, parent, depth)
        if isinstance(schema, str):
            return self._by_name(schema, {}, namespace, parent, depth)
        if not isinstance(schema, dict):
            raise SchemaError("its Avro schema has an invalid type")
        return self._complex(schema, namespace, parent, depth)

    def _complex(
        self, schema: dict[str, Any], namespace: str, parent: Parent | None, depth: int
    ) -> WriterNode:
        match schema.get("type"):
            case "record" | "error":
                return self._record(schema, self._define(schema, namespace), parent, depth)
            case "enum":
                self._define(schema, namespace)
                return _plain("int", schema)
            case "fixed":
                self._define(schema, namespace)
                size = schema.get("size")
                if not isinstance(size, int) or not 0 <= size <= self._bounds.manifest_block_bytes:
                    raise SchemaError("its Avro schema has a fixed type without a size")
                return WriterNode(Encoding.FIXED, size=size, min_size=size, attributes=schema)
            case "array":
                return self._array(self.parse(schema.get("items"), namespace, parent, depth + 1))
            case "map":
                value = self.parse(schema.get("values"), namespace, parent, depth + 1)
                return self._array(_record_node((_plain("string", {}), value), ()))
            case str(name):
                return self._by_name(name, schema, namespace, parent, depth)
            case inner:
                return self.parse(inner, namespace, parent, depth + 1)

    def _by_name(
        self, name: str, schema: dict[str, Any], namespace: str, parent: Parent | None, depth: int
    ) -> WriterNode:
        if name in _ENCODINGS:
            return _plain(name, schema or {"type": name})
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        named = self._named.get(full_name) or self._named.get(name)
        if named is None:
            raise SchemaError("its Avro schema uses a type that it does not define")
        return self._complex(named, namespace, parent, depth + 1)

    def _define(self, schema: dict[str, Any], namespace: str) -> str:
        """Keeps a named type; returns the namespace of what is in it."""
        name, own = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise SchemaError("its Avro schema has a type without a name")
        if "." in name:
            own = name.rpartition(".")[0]
        self._named[name if "." in name or not own else f"{own}.{name}"] = schema
        return own

    def _record(
        self, schema: dict[str, Any], namespace: str, parent: Parent | None, depth: int
    ) -> WriterNode:
        declared = schema.get("fields")
        if not isinstance(declared, list):
            raise SchemaError("its Avro schema has a record without fields")
        fields = tuple(self._field(each, namespace, parent, depth) for each in declared)
        return _record_node(tuple(each.node for each in fields), fields)

    def _field(self, json: Any, namespace: str, parent: Parent | None, depth: int) -> SchemaField:
        if not isinstance(json, dict) or not isinstance(json.get("name"), str):
            raise SchemaError("its Avro schema has a field without a name")
        id = json.get("field-id")
        if isinstance(id, bool) or not isinstance(id, int):
            id = None
        own = Parent(id, json["name"])
        node = self.parse(json.get("type"), namespace, own, depth + 1)
        return SchemaField(id, json["name"], node, parent, json)

    def _array(self, items: WriterNode) -> WriterNode:
        if not items.min_size:
            raise SchemaError("its Avro schema has an array of values without bytes")
        return WriterNode(Encoding.ARRAY, (items,), min_size=1)

    def _union(self, schema: list[Any], namespace: str, parent: Parent | None, depth: int) -> WriterNode:
        if not schema:
            raise SchemaError("its Avro schema has a union of nothing")
        branches = tuple(self.parse(each, namespace, parent, depth + 1) for each in schema)
        return WriterNode(Encoding.UNION, branches, min_size=1 + min(branch.min_size for branch in branches))


def _plain(name: str, attributes: dict[str, Any]) -> WriterNode:
    encoding, min_size = _ENCODINGS[name]
    varints = 1 if encoding is Encoding.VARINT else 0 if encoding is Encoding.NULL else None
    return WriterNode(encoding, min_size=min_size, varints=varints, attributes=attributes)


def _record_node(parts: tuple[WriterNode, ...], fields: tuple[SchemaField, ...]) -> WriterNode:
    varints = [part.varints for part in parts]
    return WriterNode(
        Encoding.RECORD,
        parts,
        fields,
        min_size=sum(part.min_size for part in parts),
        varints=None if None in varints else sum(each or 0 for each in varints),
    )
