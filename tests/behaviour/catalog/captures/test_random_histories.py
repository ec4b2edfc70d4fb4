"""Captures after each commit of random histories have the numbers of the rows that PyIceberg reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec import Raw
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.io import load_file_io
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType

from floecat.commits.commit import CreateTable
from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.runtime import Kernel
from floecat.statistics.records import Completeness, ScalarStatistics
from tests.behaviour.catalog.changes import table as named
from tests.updates import decode_requirements, decode_updates

T = named("t")
_SCHEMA = Raw(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "id", "required": False, "type": "int"},
                {"id": 2, "name": "x", "required": False, "type": "float"},
                {"id": 3, "name": "text", "required": False, "type": "string"},
            ],
        }
    ).encode()
)
_PATH, _POS = 2147483546, 2147483545


class _KernelCatalog(NoopCatalog):
    """What PyIceberg needs of a catalog to commit."""

    def __init__(self, kernel: Kernel, call: Call) -> None:
        super().__init__("kernel")
        self._kernel = kernel
        self._call = call

    def load_table(self, identifier: Any) -> Table:
        loaded = self._kernel.catalog.tables.load(self._call, T)
        metadata = TableMetadataUtil.parse_raw(loaded.metadata.decode())
        return Table(("ns", "t"), metadata, loaded.metadata_location, load_file_io(), self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        def body(parts: Any) -> Raw:
            return Raw(f"[{','.join(each.model_dump_json() for each in parts)}]".encode())

        change = TableChange(T, decode_requirements(body(requirements)), decode_updates(body(updates)))
        self._kernel.commits.tables.commit(self._call, change)
        now = self.load_table(T)
        return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)


class _DeleteWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return super()._meta | {"content": "deletes"}


class _RowDelta(_FastAppendFiles):
    """Adds a file of position deletes."""

    deletes: DataFile

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        output = self.new_manifest_output()
        with _DeleteWriter(
            metadata.spec(), metadata.schema(), output, self._snapshot_id, self._compression
        ) as writer:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self.deletes
                )
            )
        return [*manifests, writer.to_manifest_file()]


class _History:
    def __init__(self, seed: int, kernel: Kernel, call: Call, version: int) -> None:
        self.random = Random(seed)
        self.kernel = kernel
        self.call = call
        self.version = version
        made = CreateTable(
            name="t",
            schema=_SCHEMA,
            properties={
                "format-version": str(version),
                "commit.manifest-merge.enabled": self.random.choice(["true", "false"]),
                "commit.manifest.min-count-to-merge": "3",
            },
        )
        kernel.commits.tables.create_table(call, ("ns",), made)
        self.catalog = _KernelCatalog(kernel, call)
        self.table = self.catalog.load_table(T)
        self.entry_id = next(each.id for each in kernel.catalog.tables.list_all(call))
        self.added = 0

    def step(self) -> str:
        kinds = ["append"] * 5 + [
            "delete",
            "overwrite",
            "rollback",
            "schema",
            "branch",
            "policy",
            "positions",
            "again",
        ]
        kind = self.random.choice(kinds)
        getattr(self, f"_{kind}")()
        self.table = self.catalog.load_table(T)
        return kind

    def _rows(self) -> pa.Table:
        count = self.random.randrange(1, 30)
        schema = self.table.schema().as_arrow()
        low = self.random.randrange(100)
        columns = []
        for field in schema:
            values: list[Any] = [self.random.choice([None, low + n]) for n in range(count)]
            if pa.types.is_floating(field.type):
                values = [
                    v if v is None else self.random.choice([v / 4, -v / 2, float("nan")]) for v in values
                ]
            elif not pa.types.is_integer(field.type):
                values = [v if v is None else f"v{v % 17}" for v in values]
            columns.append(pa.array(values, field.type))
        return pa.Table.from_arrays(columns, schema=schema)

    def _append(self, branch: str = "main") -> None:
        self.table.append(self._rows(), branch=branch)

    def _again(self) -> None:
        """Appends a data file that is there. PyIceberg applies deletes of one copy to the other, too."""
        files = [each for each in self.table.scan().plan_files() if not each.delete_files]
        if files:
            with self.table.transaction() as change, change.update_snapshot().fast_append() as append:
                append.append_data_file(self.random.choice(files).file)

    def _filter(self) -> Any:
        low = self.random.randrange(110)
        return And(GreaterThanOrEqual("id", low), LessThan("id", low + self.random.choice([5, 60])))

    def _delete(self) -> None:
        self.table.delete(self._filter())

    def _overwrite(self) -> None:
        self.table.overwrite(self._rows(), self._filter())

    def _rollback(self) -> None:
        snapshot = self.random.choice(self.table.snapshots() or [None])
        if snapshot is not None:
            self.table.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()

    def _branch(self) -> None:
        """Commits to a branch, to which main is set at times."""
        if self.table.current_snapshot() is None:
            return
        if "b" not in self.table.refs():
            self.table.manage_snapshots().create_branch(
                self.table.current_snapshot().snapshot_id, "b"
            ).commit()
        self._append("b")
        if self.random.random() < 0.5:
            self.table.manage_snapshots().set_current_snapshot(ref_name="b").commit()

    def _schema(self) -> None:
        names = [field.name for field in self.table.schema().fields if field.name not in ("id", "x")]
        self.added += 1
        with self.table.update_schema() as update:
            match self.random.randrange(5):
                case 0:
                    update.add_column(f"c{self.added}", self.random.choice([LongType(), DoubleType()]))
                case 1 if names:
                    update.delete_column(self.random.choice(names))
                case 2 if names:
                    update.rename_column(self.random.choice(names), f"r{self.added}")
                case 3:
                    update.update_column("id", LongType())
                case 4:
                    update.update_column("x", DoubleType())

    def _policy(self) -> None:
        key = "floecat.statistics.first-columns"
        with self.table.transaction() as change:
            change.set_properties({key: str(self.random.choice([0, 1, 2]))})

    def _positions(self) -> None:
        """Deletes some rows of a data file by a file of position deletes."""
        files = list(self.table.scan().plan_files())
        if self.version < 2 or not files:
            return
        data = self.random.choice(files).file
        places = sorted(self.random.sample(range(data.record_count), min(3, data.record_count)))
        path = f"{self.table.location()}/data/deletes-{self.random.getrandbits(64)}.parquet"
        ids = [{b"PARQUET:field_id": str(id).encode()} for id in (_PATH, _POS)]
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), False, ids[0]),
                pa.field("pos", pa.int64(), False, ids[1]),
            ]
        )
        target = Path(path.removeprefix("file://"))
        rows = pa.table([[data.file_path] * len(places), places], schema=schema)
        pq.write_table(rows, target)
        deletes = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(places),
            file_size_in_bytes=target.stat().st_size,
            column_sizes={},
            value_counts={},
            null_value_counts={},
            nan_value_counts={},
        )
        deletes._spec_id = 0  # set by the manifest otherwise
        with self.table.transaction() as change:
            producer = _RowDelta(Operation.DELETE, change, self.table.io)
            producer.deletes = deletes
            producer.commit()

    def check(self, context: object) -> None:
        """Captures, and compares the numbers with those of the rows."""
        self.kernel.statistics.pipeline.search_commits()
        self.kernel.statistics.pipeline.drain(self.entry_id)
        current = self.table.current_snapshot()
        if current is None:
            return
        snapshot_id, page = self.kernel.statistics.targets.list(self.call, T)
        assert snapshot_id == current.snapshot_id
        records = page.items
        rows = self.table.scan(snapshot_id=current.snapshot_id).to_arrow()
        (of_table,) = [each for each in records if each.table is not None]
        assert of_table.table is not None
        paths = [each.file.file_path for each in self.table.scan(snapshot_id=snapshot_id).plan_files()]
        if of_table.metadata.completeness is Completeness.PARTIAL:
            # the same capture has read both copies of a file
            assert len(set(paths)) < len(paths), context
            return
        assert of_table.table.row_count == len(rows), context
        assert of_table.table.data_file_count == len(paths), context
        for scalar in (each.scalar for each in records):
            if scalar is not None and scalar.display_name in rows.column_names:
                _compare(scalar, rows[scalar.display_name].combine_chunks(), context)


def _compare(scalar: ScalarStatistics, values: pa.Array, context: object) -> None:
    name = (context, scalar.display_name)
    assert scalar.row_count == len(values), name
    assert scalar.null_count == values.null_count, name
    values = values.drop_null()
    nans = 0
    if pa.types.is_floating(values.type):
        nans = pc.sum(pc.is_nan(values)).as_py() or 0
        assert scalar.nan_count == nans, name
    ordered = values.filter(pc.invert(pc.is_nan(values))) if nans else values
    if len(ordered):
        bounds = pc.min_max(ordered).as_py()
        kind = type(bounds["min"])
        assert (kind(scalar.min), kind(scalar.max)) == (bounds["min"], bounds["max"]), name
    else:
        assert (scalar.min, scalar.max) == (None, None), name
    if scalar.ndv is not None:
        distinct = set(ordered.to_pylist())
        assert scalar.ndv.exact == len(distinct) + bool(nans), (name, distinct)
    else:
        assert not len(values), name


@pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_numbers_are_those_of_the_rows(open_catalog: Callable[..., tuple[Kernel, Call]], seed: int) -> None:
    history = _History(seed, *open_catalog(files_per_group=4), version=1 + seed % 2)
    steps: list[str] = []
    for _ in range(25):
        steps.append(history.step())
        history.check((seed, steps))
