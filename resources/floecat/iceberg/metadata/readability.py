"""What readers refuse in a document although it is well-formed: looked for when one is registered.

The reference implementation refuses a null where it looks for the presence of a field, and any document that
its JSON parser cannot read. PyIceberg refuses more nulls, and types in a spelling that it does not know. The
catalog itself reads all of that, so that a table which has it already is not lost.
"""

from __future__ import annotations

import re

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.encryption_keys import check_encryption_key
from floecat.iceberg.metadata.name_mappings import NAME_MAPPING, check_name_mapping
from floecat.iceberg.metadata.statistics_files import check_statistics_file
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.json_arrays import split_array
from floecat.iceberg.values.json_values import JsonObject, RawJson, decode_json
from floecat.iceberg.values.reader_limits import check_numbers

__all__ = ["check_readable", "check_schema_readable"]

_TYPE = re.compile(r"[a-z_]+|decimal\([0-9]+,\s*[0-9]+\)|fixed\[[0-9]+\]|geometry\b.*|geography\b.*")
_FLOATS = frozenset({"float", "double"})


def check_readable(metadata: TableMetadata) -> None:
    """Refuses a document, whose parts were parsed before, that not every reader can read.

    What `floecat.iceberg.normalization` brings into form is not looked at again.

    Raises:
        IllegalArgumentError: see above. The message does not quote the document.
    """
    check_numbers(metadata.to_bytes(), "table metadata")
    check_name_mapping(metadata.properties.get(NAME_MAPPING, "[]"))
    for name in ("statistics", "partition-statistics"):
        for file in split_array(metadata.array(name), name):
            check_statistics_file(file, name)
    for key in split_array(metadata.array("encryption-keys"), "encryption-keys"):
        check_encryption_key(key)


def check_schema_readable(raw: RawJson) -> None:
    """Refuses a schema, parsed before, that not every reader can read.

    Raises:
        IllegalArgumentError: a null for `schema-id`, `identifier-field-ids` or a default value; a whole
            number as the default of a floating-point column; a type with capitals, or with blanks that are
            not usual.
    """
    schema = decode_json(raw, dict, "schema")
    for name in ("schema-id", "identifier-field-ids"):
        if name in schema and schema[name] is None:
            raise IllegalArgumentError(f"Invalid schema: {name} is null")
    _check_struct(schema)


def _check_struct(struct: JsonObject) -> None:
    for field in struct["fields"]:
        for name in ("initial-default", "write-default"):
            if name in field and (field[name] is None or _is_no_float(field["type"], field[name])):
                raise IllegalArgumentError(f"Invalid schema: {name} of {field['name']} is null or no float")
        _check_type(field["type"])


def _is_no_float(type: object, value: object) -> bool:
    return isinstance(type, str) and type in _FLOATS and isinstance(value, int)


def _check_type(type: object) -> None:
    if isinstance(type, str):
        if _TYPE.fullmatch(type) is None:
            raise IllegalArgumentError(f"Invalid schema: type {type[:80]} is not spelt as readers expect it")
    elif isinstance(type, dict) and type["type"] == "struct":
        _check_struct(type)
    elif isinstance(type, dict):
        for part in ("element", "key", "value"):
            _check_type(type.get(part))
