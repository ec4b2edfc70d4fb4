"""The data files of a snapshot with the deletes that apply to each, as a scan of it would read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

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
from floecat.storage.own_folders import OwnFolders

if TYPE_CHECKING:
    from floecat.planning.files.planner import Planner

__all__ = ["LiveFile", "added_files", "file_key", "live_batches", "live_files"]

_STORAGE_ID = len("file-") + 64
_BATCH: Final = 1_000

_Constants = Mapping[int, Sequence[tuple[int, int, PrimitiveType]]]
"""Identity fields of each partition spec: place, source column and its type."""


class LiveFile(msgspec.Struct, frozen=True):
    """A data file of a snapshot."""

    key: str
    """Names the file together with the deletes that apply: the same key has the same statistics."""
    file: DataFile

    @property
    def storage_id(self) -> str:
        """The id of the file as a target of statistics."""
        return self.key[:_STORAGE_ID]


def live_batches(
    planner: Planner,
    storage: CatalogStorage,
    metadata: TableMetadata,
    snapshot_id: int,
    check: Callable[[], None] = lambda: None,
    own: OwnFolders | None = None,
) -> Iterator[list[LiveFile]]:
    """The data files of a snapshot, in the order of its manifests, some at a time.

    Args:
        planner: plans the scan.
        check: called now and then; raises to stop.
        own: as of `ScanRequest`.

    Raises:
        BadRequestError: there is no such snapshot, or a file lies in a folder of another entry.
        FileMissingError: a manifest is gone.
        InvalidMetadataError: a manifest is damaged.
        UnavailableError: storage fails.
    """
    request = ScanRequest(snapshot_id=snapshot_id, own=own)
    read_check = planner.read_check(storage, own)
    work = partial(_data_files, constants=_identity_fields(metadata))
    for batch in planner.run(storage, metadata, request, work):
        check()
        read_check.files(_read_files(batch))
        yield [LiveFile(file_key(file), file) for file in batch]


def live_files(
    planner: Planner,
    storage: CatalogStorage,
    metadata: TableMetadata,
    snapshot_id: int,
    own: OwnFolders | None = None,
) -> list[LiveFile]:
    """The files of `live_batches`, each once."""
    batches = live_batches(planner, storage, metadata, snapshot_id, own=own)
    return list({live.key: live for batch in batches for live in batch}.values())


def added_files(
    planner: Planner,
    storage: CatalogStorage,
    metadata: TableMetadata,
    snapshot_id: int,
    base_id: int,
    most: int,
    own: OwnFolders | None = None,
) -> list[LiveFile] | None:
    """The data files that a snapshot has beyond those of another one, which are all in it.

    Only manifests are read that one of them lacks, and delete manifests.

    Args:
        planner: plans the scans.
        base_id: the other one.
        most: files that are looked at in manifests of either.
        own: as of `ScanRequest`.

    Returns:
        The files. None if a file of the other snapshot is not there, or not under the same deletes, or if
        there are more to look at.

    Raises:
        FloecatError: as of `live_batches`.
    """

    def changed(one: int, other: int) -> dict[str, LiveFile] | None:
        found: dict[str, LiveFile] = {}
        request = ScanRequest(snapshot_id=one, unlike=other, own=own)
        for batch in planner.run(storage, metadata, request, work):
            read_check.files(_read_files(batch or ()))
            found |= {live.key: live for live in (LiveFile(file_key(file), file) for file in batch or ())}
            if batch is None or len(found) > most:
                return None
        return found

    read_check = planner.read_check(storage, own)
    work = partial(_changed_files, constants=_identity_fields(metadata))
    removed = changed(base_id, snapshot_id)
    added = None if removed is None else changed(snapshot_id, base_id)
    if removed is None or added is None or not removed.keys() <= added.keys():
        return None
    return [live for key, live in added.items() if key not in removed]


def file_key(file: DataFile) -> str:
    """Names a data file together with its deletes. It begins with the storage id of the file."""
    # one of another size is another file, which a writer has put in place of the first
    name = f"{target_storage_id(FileTarget(file.location))}-{file.size_bytes:x}"
    if not file.deletes:
        return name
    applied = sorted(f"{each.location}\x1f{each.content_offset}" for each in file.deletes)
    return f"{name}-{sha256(chr(30).join(applied).encode()).hexdigest()[:32]}"


def _read_files(files: Sequence[DataFile]) -> Iterator[str]:
    """The files that a capture opens."""
    for file in files:
        yield file.location
        yield from (delete.location for delete in file.deletes)


def _identity_fields(metadata: TableMetadata) -> _Constants:
    return {
        spec_id: [
            (place, field.source_id, type)
            for place, field in enumerate(found.spec.fields)
            if field.transform == "identity"
            and field.source_id is not None
            and (type := found.types[place]) is not None
        ]
        for spec_id, found in spec_types(metadata).items()
    }


def _changed_files(plan: ScanPlan, *, constants: _Constants) -> Iterator[list[DataFile] | None]:
    if plan.has_other_deletes:
        yield None
    else:
        yield from _data_files(plan, constants=constants)


def _data_files(plan: ScanPlan, *, constants: _Constants) -> Iterator[list[DataFile]]:
    deletes = [delete for files in plan.deletes for delete in _delete_files(files)]
    for tasks in plan:
        files = tasks.files
        for start in range(0, len(tasks), _BATCH):
            some = ContentFiles(
                files.spec_id, files.table.slice(start, _BATCH), files.partitions.slice(start, _BATCH)
            )
            applied: Sequence[Sequence[int] | None] = (
                [None] * len(some)
                if tasks.deletes is None
                else tasks.deletes.slice(start, _BATCH).to_pylist()
            )
            rows = _rows(some, "file_path", "file_format", "record_count", "file_size_in_bytes")
            values = _constant_values(some, constants.get(some.spec_id, ()))
            yield [
                DataFile(
                    location=path,
                    format=str(format).lower(),
                    record_count=max(records, 0),
                    size_bytes=size,
                    deletes=tuple(deletes[place] for place in of_file or ()),
                    constants=constant,
                )
                for (path, format, records, size), of_file, constant in zip(
                    rows, applied, values, strict=True
                )
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
        if pa.types.is_null(values.type):
            continue  # the manifest was rewritten without them
        for constants, value in zip(found, single_values.encode(values, type).to_pylist(), strict=True):
            constants[source_id] = value
    return found
