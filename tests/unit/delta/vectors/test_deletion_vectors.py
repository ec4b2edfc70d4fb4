from __future__ import annotations

import contextlib
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from floecat.delta.vectors.deletion_vectors import (
    VERSION_RANGE,
    DeletionVector,
    check,
    check_file_version,
    decode_z85,
    file_of,
    framed_range,
    inline_payload,
    position_chunks,
    unframe,
)
from floecat.errors import InvalidDeltaTableError
from tests.clients.delta.writer import z85_encode
from tests.delta_tables import delta_table

MAGIC = bytes.fromhex("d1d33964")
UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
UUID_Z85 = "^-aqEH.-t@S}K{vb[*k^"
TABLE = "s3://bucket/table"
DATA = "part-0.parquet"
ROWS = [3, 4, 7, 11, 18, 29]


def encode_z85(data: bytes) -> str:
    return z85_encode(data + bytes(-len(data) % 4))


def positions(payload: bytes, vector: DeletionVector, data_file: str) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *position_chunks(payload, vector, data_file)])


def payload_of(rows: list[int], *, runs: bool = False) -> bytes:
    bitmap = BitMap64(rows)
    if runs:
        bitmap.run_optimize()
    return MAGIC + bitmap.serialize()


def inline(payload: bytes, cardinality: int, *, size: int | None = None) -> DeletionVector:
    size = len(payload) if size is None else size
    return DeletionVector("i", encode_z85(payload), None, size, cardinality)


def stored(payload: bytes, cardinality: int, *, offset: int = 1) -> DeletionVector:
    return DeletionVector("u", UUID_Z85, offset, len(payload), cardinality)


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload + zlib.crc32(payload).to_bytes(4, "big")


def refused(reason: str) -> pytest.RaisesExc[InvalidDeltaTableError]:
    return pytest.raises(
        InvalidDeltaTableError, match=f"^Invalid (inline )?deletion vector of {DATA}.*: .*{reason}"
    )


@pytest.mark.parametrize(
    ("kind", "text", "location"),
    [
        ("u", UUID_Z85, f"{TABLE}/deletion_vector_{UUID}.bin"),
        ("u", f"ab{UUID_Z85}", f"{TABLE}/ab/deletion_vector_{UUID}.bin"),
        ("u", f"a/b{UUID_Z85}", f"{TABLE}/a/b/deletion_vector_{UUID}.bin"),
        ("u", f"a%20{UUID_Z85}", f"{TABLE}/a%20/deletion_vector_{UUID}.bin"),
        ("p", f"s3://other/d%20v_{UUID}.bin", f"s3://other/d v_{UUID}.bin"),
        ("p", "file:/tmp/a%25b.bin", "file:/tmp/a%b.bin"),
        ("p", "abfss://c@account.dfs/a.bin", "abfss://c@account.dfs/a.bin"),
        ("p", "/tmp/%C3%A9.bin", "/tmp/é.bin"),
    ],
)
def test_where_the_file_is(kind: str, text: str, location: str) -> None:
    vector = DeletionVector(kind, text, 1, 40, 6)
    assert file_of(vector, TABLE, DATA) == location
    assert file_of(vector, f"{TABLE}/", DATA) == location


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("x", UUID_Z85, "not u, p or i"),
        ("r", "deletion_vector.bin", "not u, p or i"),
        ("", "", "not u, p or i"),
        ("i", "HelloWorld", "not u, p or i"),
        ("u", "", "not a UUID"),
        ("u", UUID_Z85[1:], "not a UUID"),
        ("u", UUID_Z85[:-1] + "~", "not a UUID"),
        ("u", UUID_Z85[:15] + "##093", "not a UUID"),
        ("u", UUID_Z85[:15] + "é0000", "not a UUID"),
        ("u", f"../{UUID_Z85}", "folder"),
        ("u", f"..{UUID_Z85}", "folder"),
        ("u", f"/etc{UUID_Z85}", "folder"),
        ("u", f"a//b{UUID_Z85}", "folder"),
        ("u", f"a/./b{UUID_Z85}", "folder"),
        ("p", "deletion_vector.bin", "not absolute"),
        ("p", "", "not absolute"),
        ("p", "a b:/c", "not absolute"),
        ("p", "s3:bucket/c", "not absolute"),
        ("p", "s3://bucket/%ff.bin", "UTF-8"),
    ],
)
def test_refuses_places_that_are_none(kind: str, text: str, reason: str) -> None:
    with refused(reason):
        file_of(DeletionVector(kind, text, 1, 40, 6), TABLE, DATA)


def test_unique_ids() -> None:
    assert DeletionVector("u", "ab", 1, 40, 6).unique_id == "uab@1"
    assert DeletionVector("u", "ab", 0, 40, 6).unique_id == "uab@0"
    assert DeletionVector("i", "ab", None, 40, 6).unique_id == "iab"


@pytest.mark.parametrize("runs", [False, True])
def test_a_vector_of_a_file(runs: bool) -> None:
    first, second = payload_of([0]), payload_of([*ROWS, *range(50, 90)], runs=runs)
    file = b"\x01" + frame(first) + frame(second)
    vector = stored(second, 46, offset=1 + len(frame(first)))
    offset, length = framed_range(vector, DATA)
    check_file_version(file[slice(*VERSION_RANGE)], vector, DATA)
    payload = unframe(file[offset : offset + length], vector, DATA)
    assert payload == second
    check(payload, vector, DATA, rows=90)
    found = positions(payload, vector, DATA)
    assert found.dtype == np.int64
    assert found.tolist() == [*ROWS, *range(50, 90)]


def test_an_absent_offset_is_the_start_of_the_file() -> None:
    assert framed_range(DeletionVector("p", "/x", None, 40, 6), DATA) == (0, 48)


def test_the_format_version_of_a_file_is_1() -> None:
    for data in (b"", b"\x02", b"\x00"):
        with refused("format version"):
            check_file_version(data, stored(payload_of(ROWS), 6), DATA)


def test_refuses_a_range_that_is_none() -> None:
    for offset, size in ((-1, 40), (1, -1)):
        with refused("negative"):
            framed_range(DeletionVector("u", UUID_Z85, offset, size, 6), DATA)


def test_refuses_a_damaged_frame() -> None:
    payload = payload_of(ROWS)
    good = frame(payload)
    vector = stored(payload, 6)
    for size in range(len(good)):
        with refused("ends too early"):
            unframe(good[:size], vector, DATA)
    for index in range(len(good)):
        damaged = bytearray(good)
        damaged[index] ^= 0x10
        with refused("size in the file" if index < 4 else "checksum"):
            unframe(bytes(damaged), vector, DATA)
    # as an offset that is wrong by a few bytes finds it
    with refused("size in the file"):
        unframe(b"\x00" + good[:-1], vector, DATA)


@pytest.mark.parametrize("rows", [ROWS, [*ROWS, 30], [5], [*range(10_000)]])
def test_an_inline_vector(rows: list[int]) -> None:
    payload = payload_of(rows)
    vector = inline(payload, len(rows))
    assert vector.is_inline
    assert inline_payload(vector, DATA) == payload
    check(payload, vector, DATA, rows=rows[-1] + 1)
    assert positions(payload, vector, DATA).tolist() == rows


def test_a_vector_without_rows() -> None:
    vector = DeletionVector("i", "", None, 0, 0)
    payload = inline_payload(vector, DATA)
    check(payload, vector, DATA, rows=0)
    assert positions(payload, vector, DATA).tolist() == []
    check(payload_of([]), stored(payload_of([]), 0), DATA, rows=0)


@pytest.mark.parametrize("size", [-1, 0, 40, 45, 48])
def test_refuses_an_inline_vector_of_another_size(size: int) -> None:
    payload = payload_of(ROWS)
    assert len(payload) == 44
    with refused("size"):
        inline_payload(inline(payload, 6, size=size), DATA)


@pytest.mark.parametrize("text", ["Hello World", "HelloWorld~~~~~", "%nSc1"])
def test_refuses_an_inline_vector_that_is_not_z85(text: str) -> None:
    with refused("Z85") as caught:
        inline_payload(DeletionVector("i", text, None, 8, 6), DATA)
    assert text not in caught.value.message


def test_refuses_the_old_format_of_the_example_in_the_protocol() -> None:
    vector = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 40, 6)
    payload = inline_payload(vector, DATA)
    with refused("older format, 1681511376"):
        check(payload, vector, DATA)
    with refused("older format, 1681511376"):
        positions(payload, vector, DATA)


@pytest.mark.parametrize(
    "payload", [b"", MAGIC[:3], MAGIC[::-1] + bytes(8), frame(payload_of(ROWS)), b"PFA1"]
)
def test_refuses_another_magic_number(payload: bytes) -> None:
    for use in (check, positions):
        with refused("magic number is not 1681511377"):
            use(payload, stored(payload, 6), DATA)


def test_refuses_a_payload_that_is_cut_off() -> None:
    payload = payload_of([*ROWS, *range(70_000, 80_000)], runs=True)
    vector = stored(payload, 10_006)
    for size in range(4, len(payload)):
        for use in (check, positions):
            with refused("bitmap is damaged"):
                use(payload[:size], vector, DATA)


def test_refuses_another_cardinality_than_that_of_the_log() -> None:
    payload = payload_of(ROWS)
    for cardinality in (-1, 0, 5, 7):
        with refused("number of rows"):
            check(payload, stored(payload, cardinality), DATA)


def test_refuses_rows_that_the_data_file_does_not_have() -> None:
    payload = payload_of(ROWS)
    check(payload, stored(payload, 6), DATA, rows=30)
    with refused("row 29, counted from 0, and the file has 29 rows"):
        check(payload, stored(payload, 6), DATA, rows=29)


def test_errors_name_both_files() -> None:
    payload = payload_of(ROWS)
    places = {
        f"ab{UUID_Z85}": f" in ./ab/deletion_vector_{UUID}.bin",
        f"../{UUID_Z85}": "",
        "short": "",
    }
    for text, place in places.items():
        with pytest.raises(InvalidDeltaTableError) as caught:
            check(payload, DeletionVector("u", text, 1, 44, 5), DATA)
        assert caught.value.message.startswith(f"Invalid deletion vector of {DATA}{place}: its number")
    with pytest.raises(InvalidDeltaTableError, match=r"in s3://b/a b\.bin: its number"):
        check(payload, DeletionVector("p", "s3://b/a%20b.bin", 1, 44, 5), DATA)
    with pytest.raises(
        InvalidDeltaTableError, match=f"^Invalid inline deletion vector of {DATA}: its number"
    ):
        check(payload, inline(payload, 5), DATA)


def test_the_positions_of_a_large_vector() -> None:
    rows = np.arange(0, 6_000_000, 2)
    payload = payload_of(rows.tolist())
    assert np.array_equal(positions(payload, stored(payload, len(rows)), DATA), rows)


@settings(max_examples=200)
@given(
    kind=st.sampled_from(["u", "p", "i", "x"]),
    text=st.one_of(st.text(max_size=40), st.binary(max_size=60).map(encode_z85)),
    offset=st.one_of(st.none(), st.integers(-(1 << 31), (1 << 31) - 1)),
    size=st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-1, 60),
    cardinality=st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 6),
    data=st.binary(max_size=60),
)
def test_a_hostile_log_gets_the_one_error_or_an_answer(
    kind: str, text: str, offset: int | None, size: int, cardinality: int, data: bytes
) -> None:
    vector = DeletionVector(kind, text, offset, size, cardinality)
    for use in (
        lambda: file_of(vector, TABLE, DATA),
        lambda: framed_range(vector, DATA),
        lambda: inline_payload(vector, DATA),
        lambda: unframe(data, vector, DATA),
        lambda: check(MAGIC + data, vector, DATA),
        lambda: positions(MAGIC + data, vector, DATA),
    ):
        try:
            use()
        except InvalidDeltaTableError:
            continue


def real_vectors(name: str) -> Iterator[tuple[Path, str, DeletionVector, int | None]]:
    """The vectors of all versions of a table, in order: its folder, the data file, the vector, its rows."""
    folder = delta_table(name)
    for log_file in sorted((folder / "_delta_log").glob("*.json")):
        for line in log_file.read_bytes().splitlines():
            add = msgspec.json.decode(line).get("add")
            if not add or not add.get("deletionVector"):
                continue
            told = add["deletionVector"]
            vector = DeletionVector(
                told["storageType"],
                told["pathOrInlineDv"],
                told.get("offset"),
                told["sizeInBytes"],
                told["cardinality"],
            )
            rows = msgspec.json.decode(add["stats"])["numRecords"] if "stats" in add else None
            yield folder, add["path"], vector, rows


def read_real(folder: Path, data_file: str, vector: DeletionVector) -> bytes:
    if vector.is_inline:
        return inline_payload(vector, data_file)
    location = file_of(vector, str(folder), data_file)
    path = "/" + location.removeprefix("file:").lstrip("/")
    content = Path(path).read_bytes()
    check_file_version(content[:1], vector, data_file)
    offset, length = framed_range(vector, data_file)
    return unframe(content[offset : offset + length], vector, data_file)


REAL = {
    "kernel-rs/table-with-dv-small": [[0, 9]],
    "made/table-with-dv-small-p": [[0, 9]],
    "made/table-with-dv-small-i": [[0, 9]],
    # The last one is filled up in the way of the Rust library.
    "kernel-rs/cdf-table-with-dv": [[0, 9], [0, 1, 4, 5], [0, 5], [3]],
    "delta/table-with-dv-special-char": [[0, 2, 4, 6, 8]],
}


@pytest.mark.parametrize("name", REAL)
def test_vectors_of_real_tables(name: str) -> None:
    found = []
    for folder, data_file, vector, rows in real_vectors(name):
        payload = read_real(folder, data_file, vector)
        check(payload, vector, data_file, rows)
        found.append(positions(payload, vector, data_file).tolist())
    assert found == REAL[name]


@pytest.mark.parametrize(
    "name",
    [
        "delta/table-with-dv-large",
        "golden/dv-partitioned-with-checkpoint/delta",
        "golden/dv-with-columnmapping/delta",
        "kernel-rs/cdf-table-with-cdc-and-dvs",
        "made/sail-dv_plain",
        "made/sail-dv_cm_id",
    ],
)
def test_vectors_of_more_real_tables(name: str) -> None:
    seen = 0
    for folder, data_file, vector, rows in real_vectors(name):
        payload = read_real(folder, data_file, vector)
        check(payload, vector, data_file, rows)
        assert len(positions(payload, vector, data_file)) == vector.cardinality
        seen += 1
    assert seen


def test_a_real_inline_vector_with_a_character_changed() -> None:
    [(_, data_file, vector, rows)] = real_vectors("made/table-with-dv-small-i")
    text = vector.path_or_inline_dv
    assert "%" not in text
    for index in range(len(text) - 10):
        damaged = msgspec.structs.replace(vector, path_or_inline_dv=f"{text[:index]}%{text[index + 1 :]}")
        with pytest.raises(InvalidDeltaTableError, match=f"^Invalid inline deletion vector of {data_file}: "):
            check(inline_payload(damaged, data_file), damaged, data_file, rows)


def test_the_example_of_the_standard() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_the_example_of_the_protocol() -> None:
    assert uuid.UUID(bytes=decode_z85("^-aqEH.-t@S}K{vb[*k^")) == uuid.UUID(
        "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
    )


@pytest.mark.parametrize(
    ("text", "data"), [("", ""), ("00000", "00000000"), ("%nSc0", "ffffffff"), ("0rr91", "01000000")]
)
def test_words(text: str, data: str) -> None:
    assert decode_z85(text).hex() == data


@given(st.binary(max_size=70))
def test_what_was_written_is_read(data: bytes) -> None:
    padded = data + bytes(-len(data) % 4)
    assert decode_z85(z85_encode(padded)) == padded


@pytest.mark.parametrize(
    ("text", "data"),
    [("##093", "0300"), ("HelloWorld##093", "864fd26fb559f75b0300"), ("###30", "ff"), ("#0rr9", "030303")],
)
def test_fewer_bytes_at_the_end_as_the_rust_library_writes_them(text: str, data: str) -> None:
    assert decode_z85(text).hex() == data


@pytest.mark.parametrize(
    "text",
    [
        "Hello ",
        "Hell",
        "Hell ",
        "Hell~",
        'Hell"',
        "Hell,",
        "Hell\n",
        "Hellé",
        "Hell\ud800",
        "%nSc1",
        "$####",
        "##093World",
        "###31",
        "#%%%%",
        "####0",
        "#####",
    ],
)
def test_refuses_what_is_not_z85(text: str) -> None:
    with pytest.raises(ValueError, match="Z85") as caught:
        decode_z85(text)
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert len(decode_z85(text)) <= len(text)
