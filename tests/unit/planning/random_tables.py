"""Random tables for scan planning: metadata, manifest lists and manifests on disk, and the rows behind them.

Schemas and partition specs change as a table grows. Some manifests are rewritten after the source column of a
partition field was dropped, and have lost its values. No data file is written. Rows are Python values: `int`
for days and times since the epoch, `Decimal`, `bytes`, `UUID`.
Partition values and bounds are those of PyIceberg, which shares no code with the planner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import msgspec
from pyiceberg.conversions import to_bytes
from pyiceberg.types import PrimitiveType as PyType

from floecat.iceberg.manifests.avro_schemas import manifest_list_schema, manifest_schema
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive
from floecat.planning.filters.transforms import result_type
from tests.unit.planning.random_columns import EPOCH, TRANSFORMS, Column, Schemas, transformed
from tests.unit.planning.small_tables import without_partition_values

__all__ = ["DataFile", "RandomTable", "random_table"]

_PATH_ID = 2147483546


@dataclass(frozen=True)
class DataFile:
    """A data file: its path, its rows by column id, its data sequence number, its spec id and partition.

    Rows have the columns that the table had when the file was written.
    """

    path: str
    rows: Sequence[Mapping[int, Any]]
    sequence_number: int
    scope: tuple[int, str]


@dataclass(frozen=True)
class Deletes:
    """A delete file.

    Attributes:
        key: path, `@` and the offset of a deletion vector or `null`.
        kind: `equality`, `position` or `vector`.
        target: the only data file, if it names one.
        scope: spec id and partition; None for the whole table.
        sequence_number: of the delete file.
        rows: keys of equality deletes by column id.
    """

    key: str
    kind: str
    target: str | None
    scope: tuple[int, str] | None
    sequence_number: int
    rows: Sequence[Mapping[int, Any]] = ()

    def applies(self, file: DataFile, rows: Sequence[Mapping[int, Any]]) -> bool:
        """Whether it deletes, or may delete, some of the rows of a file."""
        if self.kind == "equality":
            if self.scope is not None and self.scope != file.scope:
                return False
            keys = [{id: repr(value) for id, value in row.items()} for row in self.rows]
            return file.sequence_number < self.sequence_number and any(
                all(repr(row.get(id)) == value for id, value in key.items()) for row in rows for key in keys
            )
        if file.sequence_number > self.sequence_number or not rows:
            return False
        return self.scope == file.scope if self.target is None else self.target == file.path


@dataclass
class RandomTable:
    """A table on disk.

    Attributes:
        has_lost: whether manifests have lost partition values.
    """

    metadata: bytes
    metadata_location: str
    columns: Sequence[Column]
    has_lost: bool = False
    files: dict[str, DataFile] = field(default_factory=dict)
    deletes: list[Deletes] = field(default_factory=list)

    def deletes_of(self, file: DataFile, rows: Sequence[Mapping[int, Any]]) -> frozenset[str]:
        """Keys of delete files that a plan must list for some rows of a file."""
        found = [deletes for deletes in self.deletes if deletes.applies(file, rows)]
        if any(deletes.kind == "vector" for deletes in found):
            found = [deletes for deletes in found if deletes.kind != "position"]
        return frozenset(deletes.key for deletes in found)


def random_table(source: Random, folder: Path) -> RandomTable:
    """Makes a table."""
    return _Maker(source, folder).make()


@dataclass
class _Manifest:
    """A manifest that is written at the end, with what the table was when its files were added."""

    spec: PartitionSpec
    types: Sequence[PrimitiveType]
    schema_id: int
    content: int
    sequence_number: int
    entries: list[dict[str, Any]]
    lost: set[str] = field(default_factory=set)


class _Maker:
    def __init__(self, source: Random, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.version = source.choice([1, 2, 2, 2, 3, 3])
        self.schemas = Schemas(source, self.version)
        self.specs = [PartitionSpec(0, ())]
        self.sequence_number = 0
        self.manifests: list[_Manifest] = []
        self.files: dict[str, DataFile] = {}
        self.deletes: list[Deletes] = []
        self._with_vector: set[str] = set()
        self._partitions: dict[str, tuple[PartitionSpec, dict[str, Any]]] = {}

    @property
    def columns(self) -> Sequence[Column]:
        return self.schemas.current

    def make(self) -> RandomTable:
        source = self.source
        for step in range(source.randint(1, 3)):
            if step:
                self._lose(self.schemas.change())
            for _ in range(source.randint(0, 2)):
                self._add_spec()
            for _ in range(source.randint(1, 2)):
                self._data_manifest(self._usable_spec())
            if self.version > 1 and source.random() < 0.7:
                self._delete_manifest()
        source.shuffle(self.manifests)
        location = self._write("list.avro", self._list([self._written(each) for each in self.manifests]))
        metadata = json.dumps(self._metadata(location)).encode()
        metadata_location = self._write("1.metadata.json", metadata)
        has_lost = any(manifest.lost for manifest in self.manifests)
        return RandomTable(metadata, metadata_location, self.columns, has_lost, self.files, self.deletes)

    def _add_spec(self) -> None:
        fields = []
        known = {(each.source_id, each.transform): each for spec in self.specs for each in spec.fields}
        for column in self.source.sample(self.columns, k=self.source.randint(1, len(self.columns))):
            if column.type == "fixed[2]":
                continue
            transform = self.source.choice([*TRANSFORMS.get(column.type, ()), "identity", "identity", "void"])
            field_id = 1000 + len(known)
            new = PartitionField(f"p{field_id}", transform, column.id, field_id)
            fields.append(known.setdefault((column.id, transform), new))
        self.specs.append(PartitionSpec(len(self.specs), tuple(fields)))

    def _usable_spec(self) -> PartitionSpec:
        """A spec whose source columns are there."""
        ids = {column.id for column in self.columns}
        return self.source.choice(
            [spec for spec in self.specs if all(each.source_id in ids for each in spec.fields)]
        )

    def _lose(self, dropped: int | None) -> None:
        """Some manifests are rewritten after a column was dropped."""
        for manifest in self.manifests:
            names = {each.name for each in manifest.spec.fields if each.source_id == dropped}
            if not names or self.source.random() < 0.5:
                continue
            manifest.lost |= names
            own = {"sequence_number": manifest.sequence_number}
            own["file_sequence_number"] = manifest.sequence_number
            live = [entry for entry in manifest.entries if entry["status"] != 2]
            manifest.entries = [own | entry | {"status": 0} for entry in live]

    # -- manifests ------------------------------------------------------------------------------------------

    def _data_manifest(self, spec: PartitionSpec) -> None:
        self.sequence_number += 1
        entries = []
        for _ in range(self.source.randint(1, 5)):
            path = f"file:///data/{len(self.files)}.parquet"
            rows = self._rows(spec)
            partition = self._partition(spec, rows[0]) if rows else self._partition(spec, self._row())
            scope = (spec.spec_id, repr(partition))
            self.files[path] = DataFile(path, rows, self.sequence_number, scope)
            self._partitions[path] = (spec, partition)
            entries.append(self._entry(path, partition, self._metrics(rows), len(rows)))
        if self.source.random() < 0.3:
            path = f"file:///data/gone-{self.sequence_number}.parquet"
            row = self._row()
            entries.append(self._entry(path, self._partition(spec, row), self._metrics([row]), 1, status=2))
        self._manifest(spec, entries, content=0)

    def _delete_manifest(self) -> None:
        self.sequence_number += 1
        spec = self._usable_spec()
        entries = []
        of_spec = [path for path, (its, _) in self._partitions.items() if its is spec]
        for _ in range(self.source.randint(1, 4)):
            path = f"file:///deletes/{self.sequence_number}-{len(entries)}.parquet"
            kind = self.source.choice(["equality", "position", "vector"])
            target = self.source.choice(of_spec) if of_spec else None
            partition = self._partition(spec, self._row()) if target is None else self._partitions[target][1]
            scope = (spec.spec_id, repr(partition))
            if kind == "equality":
                is_global = all(each.transform == "void" for each in spec.fields)
                entries.append(self._equality(path, partition, None if is_global else scope))
            elif target is None:
                continue
            elif kind == "position" or self.version < 3 or target in self._with_vector:
                entries.append(self._position(path, partition, target, scope))
            else:
                self._with_vector.add(target)
                more = {
                    "content": 1,
                    "file_format": "PUFFIN",
                    "referenced_data_file": target,
                    "content_offset": 4 + len(entries),
                    "content_size_in_bytes": 40,
                }
                key = f"{path}@{more['content_offset']}"
                self.deletes.append(Deletes(key, "vector", target, scope, self.sequence_number))
                entries.append(self._entry(path, partition, {}, 1, **more))
        if entries:
            self._manifest(spec, entries, content=1)

    def _equality(
        self, path: str, partition: dict[str, Any], scope: tuple[int, str] | None
    ) -> dict[str, Any]:
        columns = self.source.sample(self.columns, k=min(len(self.columns), self.source.randint(1, 2)))
        rows = [self._row() for _ in range(self.source.randint(1, 2))]
        metrics = self._metrics(rows, columns)
        ids = [column.id for column in columns]
        keys = [{id: row[id] for id in ids} for row in rows]
        number = self.sequence_number
        self.deletes.append(Deletes(f"{path}@null", "equality", None, scope, number, keys))
        return self._entry(path, partition, metrics, len(rows), content=2, equality_ids=ids)

    def _position(
        self, path: str, partition: dict[str, Any], target: str, scope: tuple[int, str]
    ) -> dict[str, Any]:
        kind = self.source.choice(["partition", "reference", "bounds"])
        only = None if kind == "partition" else target
        self.deletes.append(Deletes(f"{path}@null", "position", only, scope, self.sequence_number))
        if kind == "reference":
            return self._entry(path, partition, {}, 1, content=1, referenced_data_file=target)
        bounds = {_PATH_ID: target.encode()} if kind == "bounds" else {}
        metrics = {"lower_bounds": bounds, "upper_bounds": bounds} if bounds else {}
        return self._entry(path, partition, metrics, 1, content=1)

    def _entry(
        self,
        path: str,
        partition: dict[str, Any],
        metrics: Mapping[str, Mapping[int, Any]],
        rows: int,
        status: int = 1,
        **more: Any,
    ) -> dict[str, Any]:
        maps = {
            name: [{"key": key, "value": value} for key, value in values.items()]
            for name, values in metrics.items()
            if values
        }
        data_file = {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": partition,
            "record_count": rows,
            "file_size_in_bytes": 1000,
            **maps,
            **more,
        }
        own = {"sequence_number": self.sequence_number, "file_sequence_number": self.sequence_number}
        inherits = status == 1 and self.source.random() < 0.7
        return {
            "status": status,
            "snapshot_id": 100 + self.sequence_number,
            "data_file": data_file,
            **({} if inherits else own),
        }

    def _manifest(self, spec: PartitionSpec, entries: list[dict[str, Any]], content: int) -> None:
        types = [parse_primitive(self._type_of(each)) for each in spec.fields]
        schema_id = len(self.schemas.history) - 1
        self.manifests.append(_Manifest(spec, types, schema_id, content, self.sequence_number, entries))

    def _written(self, manifest: _Manifest) -> ManifestFile:
        spec, types, number = manifest.spec, manifest.types, manifest.sequence_number
        schema = manifest_schema(spec, types, max(self.version, 2))
        metadata = {
            "schema": json.dumps(self.schemas.json(manifest.schema_id)),
            "schema-id": str(manifest.schema_id),
            "partition-spec": msgspec.json.encode(spec.fields).decode(),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(self.version),
            "content": "deletes" if manifest.content else "data",
        }
        entries = [_without(entry, manifest.lost) for entry in manifest.entries]
        target = BytesIO()
        schema = without_partition_values(schema, manifest.lost)
        fastavro.writer(target, schema, entries, codec="deflate", metadata=metadata)
        location = self._write(f"m{number}.avro", target.getvalue())
        statuses = [entry["status"] for entry in entries]
        rows = sum(entry["data_file"]["record_count"] for entry in entries if entry["status"] != 2)
        return ManifestFile(
            location,
            len(target.getvalue()),
            spec.spec_id,
            manifest.content,
            number,
            number,
            100 + number,
            statuses.count(1),
            statuses.count(0),
            statuses.count(2),
            rows,
            0,
            0,
            self._summaries(manifest, entries),
            first_row_id=1000 * number if self.version > 2 and not manifest.content else None,
        )

    def _summaries(
        self, manifest: _Manifest, entries: Sequence[dict[str, Any]]
    ) -> tuple[PartitionSummary, ...]:
        summaries = []
        for field_, type in zip(manifest.spec.fields, manifest.types, strict=True):
            values = [entry["data_file"]["partition"][field_.name] for entry in entries]
            known = [value for value in values if value is not None]
            numbers = [value for value in known if value == value]
            ends = [min(numbers, key=_order), max(numbers, key=_order)] if numbers else [None, None]
            lower, upper = (
                None if end is None else to_bytes(_py(str(type)), _plain(end, str(type))) for end in ends
            )
            nan = len(numbers) < len(known)
            has_null = len(known) < len(values) and field_.name not in manifest.lost
            summaries.append(PartitionSummary(has_null, nan, lower, upper))
        return tuple(summaries)

    # -- rows -----------------------------------------------------------------------------------------------

    def _row(self) -> dict[int, Any]:
        return {column.id: self._value(column) for column in self.columns}

    def _value(self, column: Column) -> Any:
        if not column.required and self.source.random() < 0.2:
            return None
        return self.source.choice(column.pool)

    def _rows(self, spec: PartitionSpec) -> list[dict[int, Any]]:
        if self.source.random() < 0.05:
            return []
        first = self._row()
        # a file has few values of a column, so that its bounds say something
        pools = {column.id: [self._value(column) for _ in range(2)] for column in self.columns}
        rows = [first]
        for _ in range(self.source.randint(0, 3)):
            row = {}
            for column in self.columns:
                same = [
                    value
                    for value in (*pools[column.id], first[column.id])
                    if all(
                        _same(self._transformed(f, value), self._transformed(f, first[column.id]))
                        for f in spec.fields
                        if f.source_id == column.id
                    )
                ]
                row[column.id] = self.source.choice(same)
            rows.append(row)
        return rows

    def _transformed(self, field: PartitionField, value: Any) -> Any:
        column = self.schemas.known[field.source_id or 0]
        if field.transform == "void":
            return None
        result = transformed(column, field.transform, value)
        if field.transform.startswith("truncate") and column.type in ("int", "long") and result is not None:
            # Java's numbers overflow, and so do partitions that it writes
            half = 2**31 if column.type == "int" else 2**63
            return (result + half) % (2 * half) - half
        return result

    def _partition(self, spec: PartitionSpec, row: Mapping[int, Any]) -> dict[str, Any]:
        return {
            field.name: _avro(self._transformed(field, row[field.source_id or 0]), self._type_of(field))
            for field in spec.fields
        }

    def _type_of(self, field: PartitionField) -> str:
        source = self.schemas.known[field.source_id or 0].type
        return str(result_type(field.transform, parse_primitive(source)) or source)

    def _metrics(
        self, rows: Sequence[Mapping[int, Any]], columns: Sequence[Column] | None = None
    ) -> dict[str, dict[int, Any]]:
        found: dict[str, dict[int, Any]] = {
            name: {}
            for name in (
                "value_counts",
                "null_value_counts",
                "nan_value_counts",
                "lower_bounds",
                "upper_bounds",
            )
        }
        for column in self.columns if columns is None else columns:
            if self.source.random() < 0.1:
                continue
            values = [row[column.id] for row in rows]
            known = [value for value in values if value is not None]
            numbers = [value for value in known if value == value]
            found["value_counts"][column.id] = len(values)
            found["null_value_counts"][column.id] = len(values) - len(known)
            if column.type in ("float", "double") and self.source.random() < 0.8:
                found["nan_value_counts"][column.id] = len(known) - len(numbers)
            if numbers and self.source.random() < 0.9:
                lower, upper = self._bounds(column, min(numbers, key=_order), max(numbers, key=_order))
                found["lower_bounds"][column.id] = lower
                if upper is not None:
                    found["upper_bounds"][column.id] = upper
        return found

    def _bounds(self, column: Column, lower: Any, upper: Any) -> tuple[bytes, bytes | None]:
        if column.type == "string" and self.source.random() < 0.3:
            cut = upper if len(upper) <= 1 else upper[:1]
            above: str | None = cut
            if len(upper) > 1:
                above = None if ord(cut) >= 0xFFFF else chr(ord(cut) + 1)
            return lower[:1].encode(), None if above is None else above.encode()
        kind = column.py_type
        return to_bytes(kind, lower), to_bytes(kind, upper)

    # -- documents ------------------------------------------------------------------------------------------

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return f"file://{path}"

    def _list(self, manifests: Sequence[ManifestFile]) -> bytes:
        target = BytesIO()
        records = []
        for manifest in manifests:
            record = msgspec.to_builtins(manifest, builtin_types=(bytes,))
            record["partitions"] = [dict(each) for each in record["partitions"] or ()]
            records.append(record)
        fastavro.writer(target, manifest_list_schema(max(self.version, 2)), records)
        return target.getvalue()

    def _metadata(self, manifest_list: str) -> dict[str, Any]:
        schemas = [self.schemas.json(schema_id) for schema_id in range(len(self.schemas.history))]
        snapshot = {
            "snapshot-id": 1,
            "timestamp-ms": 1,
            "manifest-list": manifest_list,
            "schema-id": len(schemas) - 1,
            "summary": {"operation": "append"},
        }
        document: dict[str, Any] = {}
        if self.version == 1:
            document = {"schema": schemas[-1], "partition-spec": []}
        else:
            snapshot |= {"sequence-number": self.sequence_number}
            document = {"last-sequence-number": self.sequence_number}
        if self.version > 2:
            snapshot |= {"first-row-id": 0, "added-rows": 10**6}
            document |= {"next-row-id": 10**6}
        return document | {
            "format-version": self.version,
            "table-uuid": "c9b1f1c3-25a1-4a5c-8f6b-3f1d5d3b2a10",
            "location": f"file://{self.folder}",
            "last-updated-ms": 1,
            "last-column-id": 100,
            "schemas": schemas,
            "current-schema-id": len(schemas) - 1,
            "partition-specs": [msgspec.to_builtins(spec) for spec in self.specs],
            "default-spec-id": 0,
            "last-partition-id": 1999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
            "current-snapshot-id": 1,
            "snapshots": [snapshot],
            "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        }


def _py(type: str) -> PyType:
    return Column(1, "x", type).py_type


def _avro(value: Any, type: str) -> Any:
    """A partition value as fastavro takes it."""
    if isinstance(value, UUID):
        return value.bytes
    if value is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    if type == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if type == "time":
        return (EPOCH + timedelta(microseconds=value)).time()
    if type in ("timestamp", "timestamptz"):
        return (EPOCH + timedelta(microseconds=value)).replace(tzinfo=UTC)
    return value


def _plain(value: Any, type: str) -> Any:
    """The reverse."""
    if type == "uuid":
        return UUID(bytes=value)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if type == "time":
        return (datetime.combine(date(1970, 1, 1), value) - EPOCH) // timedelta(microseconds=1)
    return value


def _without(entry: dict[str, Any], lost: Collection[str]) -> dict[str, Any]:
    """An entry without the values of some partition fields."""
    partition = entry["data_file"]["partition"] | dict.fromkeys(lost)
    return entry | {"data_file": entry["data_file"] | {"partition": partition}}


def _order(value: Any) -> Any:
    if isinstance(value, float):
        return value, math.copysign(1, value)
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, UUID) else value


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return bool(left == right)
