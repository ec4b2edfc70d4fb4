"""Finds where records begin in the blocks of an Avro file; the format does not say.

Walking the records one by one works for any data. `RecordMarks` guesses a place inside every record at once,
from what the first record has there; the caller decodes from mark to mark and checks that each record ends
where the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from floecat.iceberg.avro.cursors import Chunk, DamagedRecordsError, RecordCursor
from floecat.iceberg.avro.decoding import skip
from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.avro.writer_schema import Encoding, SchemaField, WriterNode

__all__ = ["BlockPlace", "RecordMarks", "walk_records"]

_PREFIX = 16
"""Bytes of a path that hold its scheme, and usually its bucket."""

_WORD = 8

_SAMPLE_BYTES = 4096
_MOST_MATCHES = 64
"""Places of a byte for each record beyond which a search costs more than walking the records."""


class BlockPlace(NamedTuple):
    """The place of a block's records in a chunk.

    Attributes:
        start: of the first one.
        stop: end of the last one.
        rows: how many there are.
    """

    start: int
    stop: int
    rows: int


class RecordMarks:
    """Finds the first string field of every record: a path, whose beginning most records share.

    Attributes:
        place: which of the fields it is, None if there is none.
    """

    def __init__(self, fields: Sequence[SchemaField]) -> None:
        self._fields = fields
        strings = (place for place, field in enumerate(fields) if field.node.encoding is Encoding.BYTES)
        self.place = next(strings, None)

    def find(self, chunk: Chunk, blocks: Sequence[BlockPlace]) -> Int64s | None:
        """The place of the field in each record, None if that is not clear."""
        if self.place is None:
            return None
        try:
            prefix, following = self._first(chunk, blocks[0], self.place)
        except DamagedRecordsError:
            return None
        if not prefix:
            return None
        texts = _places(chunk, prefix, _MOST_MATCHES * sum(block.rows for block in blocks))
        if texts is None or not len(texts):
            return None
        # the length of the string is before it, a varint of up to three bytes
        marks = texts - 1
        for _ in range(2):
            marks = marks - (chunk.data[np.maximum(marks - 1, 0)] >= 0x80)
        cursor = RecordCursor(chunk, marks, np.full(len(marks), chunk.size))
        try:
            lengths = cursor.varints()
        except DamagedRecordsError:
            return None
        fits = (marks >= 0) & (cursor.positions == texts) & (lengths >= 0) & (lengths <= chunk.size - texts)
        fits &= self._is_followed(chunk, texts + np.where(fits, lengths, 0), following)
        marks = marks[fits]
        places = np.searchsorted(marks, [block.stop for block in blocks])
        found = np.diff(places, prepend=0)
        return marks if np.array_equal(found, [block.rows for block in blocks]) else None

    def _first(self, chunk: Chunk, block: BlockPlace, place: int) -> tuple[bytes, bytes]:
        """The first bytes of the field in the first record, and those of the string field after it."""
        cursor = RecordCursor(chunk, np.array([block.start]), np.array([block.stop]))
        for field in self._fields[:place]:
            skip(cursor, field.node)
        length = int(cursor.varints()[0])
        start = int(cursor.positions[0])
        cursor.advance(np.array([length]))
        end = int(cursor.positions[0])
        following = b""
        rest = self._fields[place + 1 :]
        if rest and rest[0].node.encoding is Encoding.BYTES:
            skip(cursor, rest[0].node)
            following = chunk.data[end : min(int(cursor.positions[0]), end + _WORD)].tobytes()
        text = chunk.data[start : min(end, start + _PREFIX)].tobytes()
        return text[: text.rfind(b"/") + 1] or text, following

    def _is_followed(self, chunk: Chunk, ends: Int64s, following: bytes) -> Any:
        if not following:
            return True
        mask = np.uint64((1 << 8 * len(following)) - 1)
        wanted = np.uint64(int.from_bytes(following, "little"))
        return (chunk.words[np.minimum(ends, chunk.size)] & mask) == wanted


def _places(chunk: Chunk, text: bytes, most: int) -> Int64s | None:
    """The places where a text of at most 16 bytes begins; None if one of its bytes is in too many places."""
    # one comparison of all bytes finds the rarest one, and few places are left to look at
    sample = chunk.padded[:_SAMPLE_BYTES]
    rarest = min(range(len(text)), key=lambda place: sample.count(text[place]))
    found = chunk.data[rarest : rarest + chunk.size] == text[rarest]
    if np.count_nonzero(found) > most:
        return None
    places = np.flatnonzero(found)
    for begin in range(0, len(text), _WORD):
        part = text[begin : begin + _WORD]
        unused = np.uint64(8 * (_WORD - len(part)))
        wanted = np.uint64(int.from_bytes(part, "little")) << unused
        places = places[chunk.words[places + begin] << unused == wanted]
    return places


def walk_records(schema: WriterNode, data: bytes, rows: int) -> tuple[list[int], bool]:
    """Walks the records of a block.

    Args:
        schema: of a record.
        data: the records.
        rows: how many there are.

    Returns:
        Where each begins, and whether the block holds exactly these. If not, the records before the damage.
    """
    import fastavro

    names = (f"r{number}" for number in range(1 << 62))
    written: Any = fastavro.parse_schema(_as_avro(schema, names), _write_hint=False)
    nothing = fastavro.parse_schema(
        {"type": "record", "name": written["name"], "fields": []}, _write_hint=False
    )
    file = BytesIO(data)
    starts: list[int] = []
    at = 0
    for _ in range(rows):
        try:
            fastavro.schemaless_reader(file, written, nothing)
        except Exception:  # noqa: BLE001 - on damaged bytes the Avro library raises almost anything
            return starts, False
        end = file.tell()
        if not at < end <= len(data):
            return starts, False
        starts.append(at)
        at = end
    return starts, at == len(data)


def _as_avro(node: WriterNode, names: Any) -> Any:
    """A plain schema with the same encoding."""
    match node.encoding:
        case Encoding.RECORD:
            fields = [
                {"name": f"f{place}", "type": _as_avro(part, names)} for place, part in enumerate(node.parts)
            ]
            return {"type": "record", "name": next(names), "fields": fields}
        case Encoding.ARRAY:
            return {"type": "array", "items": _as_avro(node.parts[0], names)}
        case Encoding.UNION:
            return [_as_avro(part, names) for part in node.parts]
        case Encoding.FIXED:
            return {"type": "fixed", "name": next(names), "size": node.size}
        case encoding:
            return encoding.value
