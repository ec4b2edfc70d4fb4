"""File scan tasks as they are answered: JSON in chunks, each with the delete files of its tasks.

(Iceberg REST specification, `ScanTasks`.) Written as the REST specification spells content files; filters in
the legacy spelling, which is the only one that released clients read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import UnsupportedOperationError
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.scans import ContentFiles, FileTasks, ScanPlan
from floecat.planning.files.targets import spec_types
from floecat.planning.plans import json_columns as columns
from floecat.planning.plans.plan_answers import TaskChunk
from floecat.planning.plans.residual_texts import MARK, ResidualTexts
from floecat.store.entries.documents import compress

__all__ = ["ChunkSize", "PartitionTypes", "Partitions", "client_types", "render_tasks"]

PartitionTypes: TypeAlias = Mapping[int, Sequence[PrimitiveType | None]]
"""Result types of the fields of partition specs, by spec id; None where only files know it."""

Partitions: TypeAlias = Callable[
    [ContentFiles, Sequence[PrimitiveType | None]], tuple[pa.StringArray | str, pa.StringArray | str]
]
"""Spec ids and partitions of files, as JSON; the same for all files where it is not an array."""


class ChunkSize(NamedTuple):
    """Bounds of a chunk: file scan tasks, and bytes of JSON. One task may be longer, up to `task_bytes`."""

    files: int
    size_bytes: int
    task_bytes: int


_UNKNOWN: Final = PrimitiveType("unknown")
_LARGEST_CHUNK_BYTES: Final = 8 << 20
"""Bytes of chunks with large residuals, of which few fit into one of the usual size."""

_REFERENCE_BYTES: Final = 8
_ROWS: Final = 2048
"""Files that are rendered together."""

_FEW_ROWS: Final = 128
"""The same of files with metrics, which may be long."""

_CONTENT: Final = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}


def client_types(metadata: TableMetadata) -> dict[int, tuple[PrimitiveType | None, ...]]:
    """Types of partition fields as clients know them.

    They take the type of a field to be unknown once its source column was dropped. Iceberg's library for Java
    reads no value of it but null then.
    """
    found = metadata.current_schema.find_type
    return {
        spec_id: tuple(
            _UNKNOWN if field.source_id is not None and found(field.source_id) is None else type
            for field, type in zip(spec.spec.fields, spec.types, strict=True)
        )
        for spec_id, spec in spec_types(metadata).items()
    }


def render_tasks(
    plan: ScanPlan,
    *,
    types: PartitionTypes,
    most: ChunkSize,
    partitions: Partitions | None = None,
) -> Iterator[TaskChunk]:
    """Renders a plan while it is made.

    Args:
        types: of all specs of the table.
        most: of a chunk.
        partitions: how partitions are spelled for a client that does not take them as specified. It is one
            that filters rows by its own filter alone; see `ResidualTexts`.

    Raises:
        UnsupportedOperationError: one file has so many delete files, and so long a filter, that no answer may
            be so long.
    """
    return _Renderer(plan, types, most, partitions).chunks()


class _Renderer:
    def __init__(
        self, plan: ScanPlan, types: PartitionTypes, most: ChunkSize, partitions: Partitions | None
    ) -> None:
        self._partitions = partitions or _specified
        self._plan = plan
        self._types = types
        self._most = most
        self._residuals = ResidualTexts(plan.residuals, plan.whole, is_exact=partitions is None)
        self._begin()

    def _begin(self) -> None:
        self._tasks: list[str] = []
        self._size = 0
        self._used: dict[int, str] = {}
        self._places: dict[int, int] = {}

    def chunks(self) -> Iterator[TaskChunk]:
        for batch in self._plan:
            rows = _FEW_ROWS if batch.files.metrics else _ROWS
            for begin in range(0, len(batch), rows):
                yield from self._add(batch, begin, min(rows, len(batch) - begin))
        if self._tasks:
            yield self._chunk()

    def _add(self, batch: FileTasks, begin: int, size: int) -> Iterator[TaskChunk]:
        files = self._content_files(batch.files.slice(begin, size)).to_pylist()
        numbers = batch.residuals.slice(begin, size).to_pylist()
        deletes = None if batch.deletes is None else batch.deletes.slice(begin, size).to_pylist()
        for row, (file, number) in enumerate(zip(files, numbers, strict=True)):
            residual = self._residuals.of(number, begin + row, batch.slices)
            own = {
                delete: self._used.get(delete) or self._delete_file(delete)
                for delete in (deletes and deletes[row]) or ()
            }
            new = sum(len(text) for delete, text in own.items() if delete not in self._used)
            added = len(file) + residual.size + new + _REFERENCE_BYTES * len(own)
            most = _LARGEST_CHUNK_BYTES if residual.has_references else self._most.size_bytes
            if self._tasks and (self._size + added > most or len(self._tasks) >= self._most.files):
                yield self._chunk()
            if added > self._most.task_bytes:
                raise UnsupportedOperationError(
                    f"The task of a data file with {len(own):,} delete files and a residual of"
                    f" {residual.size:,} bytes has more than half of floecat.limits.working-memory-bytes: set"
                    " scan-planning-mode to client, or compact the table"
                )
            references = f',"delete-file-references":{self._references(own)}' if own else ""
            self._tasks.append(f'{{"data-file":{file},"residual-filter":{residual.text}{references}}}')
            self._size += added

    def _references(self, deletes: Mapping[int, str]) -> list[int]:
        """Delete files by their place in the chunk, which lists each once."""
        for delete, text in deletes.items():
            if self._places.setdefault(delete, len(self._used)) == len(self._used):
                self._used[delete] = text
        return [self._places[delete] for delete in deletes]

    def _chunk(self) -> TaskChunk:
        body = f'"file-scan-tasks":[{",".join(self._tasks)}]'
        if self._used:
            body += f',"delete-files":[{",".join(self._used.values())}]'
        made = TaskChunk(compress(body.encode()), len(self._tasks), MARK in body)
        self._begin()
        return made

    def _delete_file(self, position: int) -> str:
        found = self._plan.delete(position)
        row = found.row
        files = found.files
        one = ContentFiles(files.spec_id, files.table.slice(row, 1), files.partitions.slice(row, 1))
        return str(self._content_files(one)[0])

    def _content_files(self, files: ContentFiles) -> pa.StringArray:
        return _content_files(files, *self._partitions(files, self._types[files.spec_id]))


def _specified(
    files: ContentFiles, types: Sequence[PrimitiveType | None]
) -> tuple[pa.StringArray | str, pa.StringArray | str]:
    return str(files.spec_id), columns.partitions(files.partitions, types)


def _content_files(
    files: ContentFiles, spec_ids: pa.StringArray | str, partitions: pa.StringArray | str
) -> pa.StringArray:
    """Content files as JSON objects."""

    def column(name: str) -> pa.Array:
        return files.table[name].combine_chunks()

    content = pc.fill_null(column("content"), int(FileContent.DATA)).to_numpy()
    names = pa.array([_CONTENT[FileContent(number)] for number in range(len(_CONTENT))])
    fields: list[pa.Array | str] = [
        '{"spec-id":',
        spec_ids,
        ',"partition":',
        partitions,
        ',"content":"',
        names.take(pa.array(content)),
        '","file-path":',
        columns.texts(column("file_path")),
        ',"file-format":',
        columns.texts(pc.utf8_lower(column("file_format"))),
        ',"file-size-in-bytes":',
        columns.integers(column("file_size_in_bytes")),
        ',"record-count":',
        columns.integers(column("record_count")),
        *_optional("key-metadata", column("key_metadata"), columns.hex_texts),
        *_optional("split-offsets", column("split_offsets"), columns.lists),
        *_optional("sort-order-id", column("sort_order_id"), columns.integers),
    ]
    if np.any(content == FileContent.DATA):
        fields += _optional("first-row-id", column("first_row_id"), columns.integers)
        fields += columns.metrics_maps(files.metrics)
    if np.any(content != FileContent.DATA):
        fields += _optional("equality-ids", column("equality_ids"), columns.lists)
        fields += _optional("referenced-data-file", column("referenced_data_file"), columns.texts)
        fields += _optional("content-offset", column("content_offset"), columns.integers)
        fields += _optional("content-size-in-bytes", column("content_size_in_bytes"), columns.integers)
    return columns.concat(*fields, "}")


def _optional(
    name: str, values: pa.Array, encode: Callable[[pa.Array], pa.StringArray]
) -> list[pa.StringArray]:
    """A field that files may lack."""
    return [] if values.null_count == len(values) else [columns.field(name, encode(values))]
