"""The metadata log while commits add to it."""

from __future__ import annotations

import pytest

from floecat.iceberg.metadata.refs_and_logs import append_metadata_log

FIRST = b'{"timestamp-ms":1,"metadata-file":"s3://m/1"}'
SECOND = b'{ "metadata-file" : "s3://m/],{2" , "timestamp-ms" : 2, "more": [{"a": "]"}] }'
NEW = b'{"timestamp-ms":9,"metadata-file":"s3://m/9"}'


@pytest.mark.parametrize(
    ("log", "most", "kept", "dropped"),
    [
        (b"[%b, %b]" % (FIRST, SECOND), 3, b"[%b, %b,%b]" % (FIRST, SECOND, NEW), []),
        (b"[ %b ,\n%b]" % (FIRST, SECOND), 2, b"[%b,%b]" % (SECOND, NEW), ["s3://m/1"]),
        (b"[%b,%b]" % (SECOND, FIRST), 2, b"[%b,%b]" % (FIRST, NEW), ["s3://m/],{2"]),
        # the same file twice, as after a rollback of a writer
        (b"[%b,%b,%b]" % (FIRST, FIRST, SECOND), 3, b"[%b,%b,%b]" % (FIRST, SECOND, NEW), ["s3://m/1"]),
        (b"[%b,%b]" % (FIRST, SECOND), 1, b"[%b]" % NEW, ["s3://m/1", "s3://m/],{2"]),
        (b"[ ]", 1, b"[ %b]" % NEW, []),
    ],
)
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_entries_that_stay_keep_their_bytes(
    log: bytes, most: int, kept: bytes, dropped: list[str], kind: type
) -> None:
    array, gone = append_metadata_log((kind(log),), "s3://m/9", 9, most)

    assert b"".join(array) == kept
    assert [entry.metadata_file for entry in gone] == dropped
