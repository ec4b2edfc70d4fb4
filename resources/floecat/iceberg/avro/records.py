"""Records of Avro files, read by Iceberg field id (Iceberg table specification, appendix A, "Avro").

Writers have renamed fields over the years; ids stayed. Only wanted fields are decoded, the others are
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, TypeAlias

from floecat.errors import InvalidMetadataError

__all__ = ["Projection", "read_records"]

Projection: TypeAlias = "Mapping[int, str | tuple[str, Projection]]"
"""Wanted fields of a record by id: the name to return each under, and what is wanted of a nested record."""

_Schema: TypeAlias = dict[str, Any]


def read_records(
    data: bytes, projection: Projection, *, location: str, what: str
) -> Iterator[dict[str, Any]]:
    """Yields the records of an Avro object container file, one block in memory at a time.

    Args:
        data: the whole file.
        projection: the fields to return. One that the file does not have is left out of the records.
        location: where the file is, for messages.
        what: what the file is, for messages, e.g. "manifest".

    Raises:
        InvalidMetadataError: the file is no Avro file of records, is damaged, or its compression is not
            supported.
    """
    import fastavro

    try:
        header = fastavro.reader(BytesIO(data))
        writer_schema = header.writer_schema
        if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
            raise InvalidMetadataError(f"Cannot read {what} {location}: its Avro schema is not a record")
        records: Any = fastavro.reader(
            BytesIO(data), reader_schema=_project_record(writer_schema, projection)
        )
        yield from records
    except InvalidMetadataError:
        raise
    except Exception as error:  # noqa: BLE001 - on damaged bytes the Avro library raises almost anything
        # the texts of those exceptions can hold values of the file
        raise InvalidMetadataError(f"Cannot read {what} {location}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if "codec" in str(error) and "need to install" in str(error):
        return "its compression codec is not supported"
    return f"not a valid Avro file ({type(error).__name__})"


def _project_record(schema: _Schema, projection: Projection) -> _Schema:
    fields = []
    for field in schema["fields"]:
        wanted = _wanted(field, projection)
        if wanted is None:
            continue
        name, nested = wanted if isinstance(wanted, tuple) else (wanted, None)
        kept = {"name": name, "type": _project_type(field["type"], nested) if nested else field["type"]}
        if name != field["name"]:
            kept["aliases"] = [field["name"]]
        fields.append(kept)
    return {"type": "record", "name": schema["name"], "fields": fields}


def _wanted(field: _Schema, projection: Projection) -> str | tuple[str, Projection] | None:
    if "field-id" in field:
        return projection.get(field["field-id"])
    # files of writers that leave the ids out can only be read by name
    for wanted in projection.values():
        if field["name"] == (wanted[0] if isinstance(wanted, tuple) else wanted):
            return wanted
    return None


def _project_type(schema: Any, projection: Projection) -> Any:
    if isinstance(schema, list):
        return [_project_type(branch, projection) for branch in schema]
    if isinstance(schema, dict) and schema.get("type") == "record":
        return _project_record(schema, projection)
    if isinstance(schema, dict) and schema.get("type") == "array":
        return {"type": "array", "items": _project_type(schema["items"], projection)}
    return schema
