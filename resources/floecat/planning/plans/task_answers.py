"""File scan tasks as they are answered: JSON in chunks, each with the delete files of its tasks.

(Iceberg REST specification, `ScanTasks`.) Written as the REST specification spells content files; filters in
the legacy spelling, which is the only one that released clients read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.scans import ContentFiles, FileTasks, ScanPlan
from floecat.planning.files.targets import spec_types
from floecat.planning.filters.expression_json import write_expression
from floecat.planning.plans import json_columns as columns
from floecat.planning.plans.plan_answers import TaskChunk
from floecat.store.documents import compress

__all__ = ["PartitionTypes", "Partitions", "client_types", "render_tasks"]

PartitionTypes: TypeAlias = Mapping[int, Sequence[PrimitiveType | None]]
"""Result types of the fields of partition specs, by spec id; None where only files know it."""

Partitions: TypeAlias = Callable[
    [ContentFiles, Sequence[PrimitiveType | None]], tuple[pa.StringArray | str, pa.StringArray | str]
]
"""Spec ids and partitions of files, as JSON; the same for all files where it is not an array."""

_UNKNOWN: Final = PrimitiveType("unknown")
_LARGEST_CHUNK_BYTES: Final = 8 << 20

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
    files_per_chunk: int,
    partitions: Partitions | None = None,
) -> Iterator[TaskChunk]:
    """Renders a plan while it is made.

    Args:
        plan: the plan.
        types: of all specs of the table.
        files_per_chunk: most tasks in a chunk.
        partitions: how partitions are spelled for a client that does not take them as specified.
    """
    return _Renderer(plan, types, files_per_chunk, partitions or _specified).chunks()


class _Renderer:
    def __init__(
        self, plan: ScanPlan, types: PartitionTypes, files_per_chunk: int, partitions: Partitions
    ) -> None:
        self._partitions = partitions
        self._plan = plan
        self._types = types
        self._most = files_per_chunk
        self._residuals: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self._tasks: list[str] = []
        self._size = 0
        self._used: dict[int, int] = {}

    def chunks(self) -> Iterator[TaskChunk]:
        for batch in self._plan:
            for task, deletes in self._rendered(batch):
                self._add(task if deletes is None else f"{task[:-1]},{self._references(deletes)}}}")
                if len(self._tasks) >= self._most or self._size >= _LARGEST_CHUNK_BYTES:
                    yield self._chunk()
        if self._tasks:
            yield self._chunk()

    def _add(self, task: str) -> None:
        self._tasks.append(task)
        self._size += len(task)

    def _references(self, deletes: Sequence[int]) -> str:
        """Delete files by their place in the chunk, which lists each once."""
        places = [self._used.setdefault(delete, len(self._used)) for delete in deletes]
        return f'"delete-file-references":{places}'

    def _chunk(self) -> TaskChunk:
        body = f'"file-scan-tasks":[{",".join(self._tasks)}]'
        if self._used:
            body += f',"delete-files":[{",".join(self._delete_file(delete) for delete in self._used)}]'
        made = TaskChunk(compress(body.encode()), len(self._tasks))
        self._begin()
        return made

    def _rendered(self, batch: FileTasks) -> Iterator[tuple[str, Sequence[int] | None]]:
        residuals = self._plan.residuals
        while len(self._residuals) < len(residuals):
            written = write_expression(residuals[len(self._residuals)])
            self._residuals.append(msgspec.json.encode(written).decode())
        residual = pa.array(self._residuals, pa.string()).take(batch.residuals)
        files = self._content_files(batch.files)
        tasks = columns.concat('{"data-file":', files, ',"residual-filter":', residual, "}").to_pylist()
        if batch.deletes is None:
            return zip(tasks, [None] * len(tasks), strict=True)
        return zip(tasks, (deletes or None for deletes in batch.deletes.to_pylist()), strict=True)

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
