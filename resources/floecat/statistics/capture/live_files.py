"""The data files of a snapshot with the deletes that apply to each, as a scan of it would read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas import single_values
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.scans import ContentFiles, ScanPlan, ScanRequest
from floecat.planning.files.targets import spec_types
from floecat.statistics.files.summaries import DataFile, DeleteFile
from floecat.statistics.records import FileTarget, target_storage_id
from floecat.storage.catalog_storage import CatalogStorage

if TYPE_CHECKING:
    from floecat.planning.files.planner import Planner

__all__ = ["LiveFile", "file_key", "live_files"]

_STORAGE_ID = len("file-") + 64

_Constants = Mapping[int, Sequence[tuple[int, int, PrimitiveType]]]
"""Of each partition spec its identity fields: place, source column and its type."""


class LiveFile(msgspec.Struct, frozen=True):
    """A data file of a snapshot."""

    key: str
    """Names the file together with the deletes that apply: the same key has the same statistics."""
    file: DataFile

    @property
    def storage_id(self) -> str:
        """Of the file as a target of statistics."""
        return self.key[:_STORAGE_ID]


def live_files(
    planner: Planner,
    storage: CatalogStorage,
    metadata: TableMetadata,
    snapshot_id: int,
    check: Callable[[], None] = lambda: None,
) -> list[LiveFile]:
    """The data files of a snapshot, in the order of its manifests; each once.

    Args:
        planner: plans the scan.
        storage: of the catalog.
        metadata: of the table.
        snapshot_id: the snapshot.
        check: called now and then; raises to stop.

    Raises:
        BadRequestError: there is no such snapshot.
        FileMissingError: a manifest is gone.
        InvalidMetadataError: a manifest is damaged.
        UnavailableError: storage fails.
    """
    constants = {
        spec_id: [
            (place, field.source_id, found.types[place])
            for place, field in enumerate(found.spec.fields)
            if field.transform == "identity"
            and field.source_id is not None
            and found.types[place] is not None
        ]
        for spec_id, found in spec_types(metadata).items()
    }
    files: dict[str, LiveFile] = {}
    request = ScanRequest(snapshot_id=snapshot_id)
    for batch in planner.run(storage, metadata, request, partial(_data_files, constants=constants)):
        check()
        files |= {found.key: found for found in map(_live, batch)}
    return list(files.values())


def file_key(file: DataFile) -> str:
    """Names a data file together with its deletes. It begins with the storage id of the file."""
    storage_id = target_storage_id(FileTarget(file.location))
    if not file.deletes:
        return storage_id
    applied = sorted(f"{each.location}\x1f{each.content_offset}" for each in file.deletes)
    return f"{storage_id}-{sha256(chr(30).join(applied).encode()).hexdigest()[:32]}"


def _live(file: DataFile) -> LiveFile:
    return LiveFile(file_key(file), file)


def _data_files(plan: ScanPlan, *, constants: Any) -> Iterator[list[DataFile]]:
    deletes = [delete for files in plan.deletes for delete in _delete_files(files)]
    for tasks in plan:
        applied: Sequence[Sequence[int] | None] = (
            [None] * len(tasks) if tasks.deletes is None else tasks.deletes.to_pylist()
        )
        rows = _rows(tasks.files, "file_path", "file_format", "record_count", "file_size_in_bytes")
        values = _constant_values(tasks.files, constants.get(tasks.files.spec_id, ()))
        yield [
            DataFile(
                location=path,
                format=str(format).lower(),
                record_count=max(records, 0),
                size_bytes=size,
                deletes=tuple(deletes[place] for place in of_file or ()),
                constants=constant,
            )
            for (path, format, records, size), of_file, constant in zip(rows, applied, values, strict=True)
        ]


def _delete_files(files: ContentFiles) -> Iterator[DeleteFile]:
    names = (
        "content",
        "file_path",
        "file_format",
        "record_count",
        "file_size_in_bytes",
        "equality_ids",
        "content_offset",
        "content_size_in_bytes",
    )
    for content, path, format, records, size, equality_ids, offset, length in _rows(files, *names):
        is_equality = content == FileContent.EQUALITY_DELETES
        yield DeleteFile(
            path,
            str(format).lower(),
            records,
            size,
            tuple(equality_ids or ()) if is_equality else (),
            offset,
            length,
        )


def _rows(files: ContentFiles, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(files.table[name].to_pylist() for name in names), strict=True)


def _constant_values(
    files: ContentFiles, fields: Sequence[tuple[int, int, PrimitiveType]]
) -> list[dict[int, bytes | None]]:
    found: list[dict[int, bytes | None]] = [{} for _ in range(len(files))]
    for place, source_id, type in fields:
        values: pa.Array = files.partitions.field(place)
        for constants, value in zip(found, single_values.encode(values, type).to_pylist(), strict=True):
            constants[source_id] = value
    return found
