"""Rows of a snapshot, read by Iceberg's runtime for Spark through the catalog and counted file by file.

Iceberg applies deletes and schema evolution. It reads a snapshot as a whole, so this is for captures of most
of a snapshot. Executors need this package and `floecat` installed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa

from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import MapType, PrimitiveType, StructType
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.filters.transforms import result_type
from floecat.statistics.files.leaf_values import leaf_values
from floecat.statistics.files.merging import merge_columns
from floecat.statistics.files.summaries import (
    CountedColumns,
    FileSummary,
    StoredColumns,
    Term,
)
from floecat.statistics.files.term_counts import TermCounts
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CatalogRows", "CatalogTable", "RowCounter", "join_parts"]

_FILE: Final = "_file"
_SCHEMA: Final = "location string, part binary"
_RUNTIME: Final = "SELECT reflect('org.apache.iceberg.IcebergBuild', 'version')"
_TEXT: Final = PrimitiveType("string")


class CatalogTable(NamedTuple):
    """A table as clients name it."""

    catalog: str
    """The warehouse of the REST catalog."""
    identifier: TableIdentifier


class CatalogRows:
    """Reads snapshots through the catalog. Safe to share between threads."""

    def __init__(self, session: SparkSession, properties: Mapping[str, str]) -> None:
        """Takes a session with Iceberg's runtime, and properties of its REST catalog, `uri` among them."""
        self._session = session
        self._properties = properties
        self._lock = threading.Lock()
        self._frames: dict[tuple[CatalogTable, int, bytes], DataFrame] = {}

    @staticmethod
    def can_read(session: SparkSession) -> bool:
        """Whether the session has Iceberg's runtime, and runs Python functions over Arrow."""
        try:
            session.sql(_RUNTIME).collect()
            session.range(1).mapInArrow(lambda batches: batches, "id bigint").collect()
        except Exception:  # noqa: BLE001 - of Py4J or gRPC, and then Spark reads lists of files
            return False
        return True

    def parts(
        self,
        table: CatalogTable,
        snapshot_id: int,
        schema: Schema,
        columns: CountedColumns,
        files: Sequence[str],
    ) -> dict[str, list[FileSummary]]:
        """Counts the rows of data files. The first call for a snapshot reads all of it, for later ones too.

        Args:
            table: the table.
            snapshot_id: the snapshot.
            schema: of the snapshot.
            columns: what is counted.
            files: locations of its data files.

        Returns:
            By location, parts of the file; none of a file without live rows.

        Raises:
            Exception: of Py4J or gRPC; Spark fails, or cannot read the table.
        """
        from pyspark.sql.functions import col

        frame = self._frame(table, snapshot_id, schema, columns)
        found: dict[str, list[FileSummary]] = {}
        for row in frame.where(col("location").isin(list(files))).collect():
            part = msgspec.msgpack.decode(row["part"], type=FileSummary)
            found.setdefault(part.location, []).append(part)
        return found

    def close(self) -> None:
        """Forgets what was counted."""
        with self._lock:
            frames, self._frames = self._frames, {}
        for frame in frames.values():
            frame.unpersist()

    def _frame(
        self, table: CatalogTable, snapshot_id: int, schema: Schema, columns: CountedColumns
    ) -> DataFrame:
        from pyspark import StorageLevel

        key = (table, snapshot_id, msgspec.json.encode(columns))
        with self._lock:
            if key not in self._frames:
                counter = RowCounter.of(schema, columns)
                chosen = ", ".join([_FILE, *map(_quoted, counter.columns)])
                name = ".".join(map(_quoted, (self._catalog(table), *_levels(table))))
                # names are quoted
                query = f"SELECT {chosen} FROM {name} VERSION AS OF {snapshot_id}"  # noqa: S608
                rows = self._session.sql(query)
                # a method of an object is pickled with it; PySpark asks for a function
                counted = rows.mapInArrow(partial(RowCounter.parts, counter), _SCHEMA)
                self._frames[key] = counted.persist(StorageLevel.DISK_ONLY)
            return self._frames[key]

    def _catalog(self, table: CatalogTable) -> str:
        """The catalog of Spark for a warehouse, which is made at its first use."""
        name = f"floecat_{table.catalog.encode().hex()}"
        properties = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".warehouse": table.catalog,
            ".cache-enabled": "false",
            **{f".{key}": value for key, value in self._properties.items()},
        }
        for key, value in properties.items():
            self._session.conf.set(f"spark.sql.catalog.{name}{key}", value)
        return name


def join_parts(
    location: str,
    parts: Sequence[FileSummary],
    stored: StoredColumns,
    schema: Schema,
    expressions: Sequence[Term] = (),
) -> FileSummary:
    """A data file, of the parts that tasks counted.

    Args:
        location: of the file.
        parts: no row is in two.
        stored: of the file.
        schema: of the snapshot.
        expressions: that were counted.
    """
    columns = []
    for id in stored.columns:
        type = schema.find_type(id)
        if not isinstance(type, PrimitiveType):
            continue
        for empty in TermCounts(id, type, expressions).summaries():
            counted = [column for part in parts for column in part.columns if column.term == empty.term]
            merged = merge_columns(counted, result_type(empty.transform, type) or type) if counted else empty
            columns.append(merged)
    return FileSummary(location, sum(part.row_count for part in parts), tuple(columns))


class _Leaf(NamedTuple):
    """A column of a primitive type."""

    field_id: int
    place: int
    """Of the column of the table that it is, or is in."""
    path: tuple[int, ...]
    """As of `leaf_values`."""
    type: PrimitiveType
    expressions: tuple[Term, ...]


class RowCounter(NamedTuple):
    """Counts rows file by file. It can be pickled.

    Attributes:
        columns: of the table that are read, after the file of each row.
        leaves: what is counted of them.
    """

    columns: tuple[str, ...]
    leaves: tuple[_Leaf, ...]

    @staticmethod
    def of(schema: Schema, columns: CountedColumns) -> RowCounter:
        """Counts columns of a schema."""
        names: dict[str, int] = {}
        leaves = []
        for id in columns.types:
            type = schema.find_type(id)
            if isinstance(type, PrimitiveType):
                top, path = _way_to(schema, id)
                place = names.setdefault(schema.fields_by_id[top].name, len(names) + 1)
                leaves.append(_Leaf(id, place, path, type, columns.expressions))
        return RowCounter(tuple(names), tuple(leaves))

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs on an executor. The rows of a file, or of a split of it, come one after the other.

        Yields:
            The location of a file, and a part of its summary.
        """
        prepare_struct_types()
        held: _Part | None = None
        for location, rows in (run for batch in batches for run in _runs(batch)):
            if held is None or held.location != location:
                if held is not None:
                    yield held.batch()
                held = _Part(location, self.leaves)
            held.add(rows)
        if held is not None:
            yield held.batch()


def _way_to(schema: Schema, field_id: int) -> tuple[int, tuple[int, ...]]:
    """The column of the table that holds a field, and the way to it as of `leaf_values`."""
    path: list[int] = []
    at = field_id
    while (owner := schema.parents.get(at)) is not None:
        outer = schema.fields_by_id[owner].type
        if isinstance(outer, StructType):
            path.insert(0, [field.id for field in outer.fields].index(at))
        elif isinstance(outer, MapType):
            path.insert(0, int(at == outer.value_id))
        at = owner
    return at, tuple(path)


class _Part:
    """Rows of a file."""

    def __init__(self, location: str, leaves: Sequence[_Leaf]) -> None:
        self.location = location
        self._rows = 0
        self._counts = [(leaf, TermCounts(leaf.field_id, leaf.type, leaf.expressions)) for leaf in leaves]

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        for leaf, counts in self._counts:
            counts.add(_values(rows.column(leaf.place), leaf))

    def batch(self) -> pa.RecordBatch:
        columns = tuple(column for _, counts in self._counts for column in counts.summaries())
        part = msgspec.msgpack.encode(FileSummary(self.location, self._rows, columns))
        return pa.record_batch([pa.array([self.location]), pa.array([part])], ["location", "part"])


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Consecutive rows of one file each."""
    if not batch.num_rows:
        return
    locations = batch.column(0).dictionary_encode()
    numbers = locations.indices.to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    for start, stop in pairwise(starts):
        yield locations.dictionary[int(numbers[start])].as_py(), batch.slice(start, stop - start)


def _values(rows: pa.Array, leaf: _Leaf) -> pa.Array:
    if leaf.type.name != "uuid":
        return leaf_values(rows, leaf.type, leaf.path)
    # Spark has UUIDs as text
    texts = leaf_values(rows, _TEXT, leaf.path).to_pylist()
    return pa.array([None if text is None else UUID(text).bytes for text in texts], pa.binary())


def _levels(table: CatalogTable) -> tuple[str, ...]:
    return (*table.identifier.namespace, table.identifier.name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
