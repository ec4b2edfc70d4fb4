from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.iceberg.avro.string_hashes import string_hashes

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@settings(deadline=None)
@given(st.lists(TEXT, unique=True))
def test_hashes(texts: list[str]) -> None:
    hashes = string_hashes(pa.array(texts, pa.string()))
    assert len(set(hashes.tolist())) == len(texts)
    # of each for itself, whatever stands around it
    assert [string_hashes(pa.array([text]))[0] for text in texts] == hashes.tolist()


def test_hashes_never_change() -> None:
    # They are in files that outlive this version.
    texts = ["", "a", "s3://bucket/table/part-00000.parquet", "12345678", "é" * 100]
    assert string_hashes(pa.array(texts)).tolist() == [
        0,
        13656869943007173965,
        7355888685807562989,
        6807069727391193880,
        7462097657610821044,
    ]


def test_nulls_and_chunks() -> None:
    assert string_hashes(pa.array([None, ""], pa.string())).tolist() == [0, 0]
    assert string_hashes(pa.array([], pa.string())).tolist() == []
    one, two = string_hashes(pa.array(["a", "b"])).tolist()
    assert string_hashes(pa.chunked_array([["a"], ["b"]])).tolist() == [one, two]
