from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from floecat.delta.log import commit_files as commits
from floecat.delta.log.commit_files import FileActions, LogText, read_file_actions
from floecat.delta.log.file_tables import REMOVES_SCHEMA, files_schema
from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError
from tests.unit.delta.log_lines import PARTITIONED, PROTOCOL, add, commit_bytes, descriptor, remove

PATHS = PathReader("s3://bucket/t")


def read(*texts: bytes, names: Sequence[str] = ()) -> list[FileActions]:
    given = [LogText(f"{number}.json", data) for number, data in enumerate(texts)]
    return list(read_file_actions(given, names, PATHS))


def test_adds() -> None:
    data = commit_bytes(
        PROTOCOL,
        add("a%20b", stats='{"numRecords":3}', tags={"x": "y"}, unknown=[{"a": 1}]),
        PARTITIONED,
        add("c", partitionValues={"p": "1", "q": None, "other": "z"}, deletionVector=descriptor()),
        add("d", partitionValues={"q": ""}, deletionVector=None),
    )
    (found,) = read(data, names=["q", "p"])
    assert found.adds.schema == files_schema(["q", "p"])
    assert found.adds.to_pylist() == [
        {
            "path": "a b",
            "partition_values": {"q": None, "p": None},
            "size_bytes": 100,
            "modified_at_ms": 5,
            "stats": '{"numRecords":3}',
            "deletion_vector": None,
            "dv_id": None,
        },
        {
            "path": "c",
            "partition_values": {"q": None, "p": "1"},
            "size_bytes": 100,
            "modified_at_ms": 5,
            "stats": None,
            "deletion_vector": {
                "storage_type": "u",
                "path_or_inline_dv": "ab^-aqEH.-t@S}K{vb[*k^",
                "offset": 1,
                "size_bytes": 36,
                "cardinality": 2,
            },
            "dv_id": "uab^-aqEH.-t@S}K{vb[*k^@1",
        },
        {
            "path": "d",
            "partition_values": {"q": "", "p": None},
            "size_bytes": 100,
            "modified_at_ms": 5,
            "stats": None,
            "deletion_vector": None,
            "dv_id": None,
        },
    ]
    assert found.adds["partition_values"].null_count == 0
    assert found.add_rows.tolist() == [1, 3, 4]
    assert (len(found.removes), found.rows) == (0, 5)


def test_a_table_without_partitions() -> None:
    (found,) = read(commit_bytes(add("a"), add("b")))
    assert found.adds.schema == files_schema([])
    assert found.adds["partition_values"].to_pylist() == [{}, {}]


def test_removes() -> None:
    data = commit_bytes(
        remove("a%20b"),
        add("x"),
        remove(
            "c", deletionVector=descriptor("i", "inline", offset=None), size=5, partitionValues={"p": "1"}
        ),
        remove("d", deletionVector=descriptor("p", "s3://bucket/dv.bin", offset=0)),
    )
    (found,) = read(data)
    assert found.removes.schema == REMOVES_SCHEMA
    assert found.removes.to_pylist() == [
        {"path": "a b", "dv_id": None},
        {"path": "c", "dv_id": "iinline"},
        {"path": "d", "dv_id": "ps3://bucket/dv.bin@0"},
    ]
    assert found.remove_rows.tolist() == [0, 2, 3]


def test_other_actions_have_no_files() -> None:
    (found,) = read(
        commit_bytes(PROTOCOL, {"txn": {"appId": "a", "version": 1}}, {"cdc": {"path": "c", "size": 1}})
    )
    assert (len(found.adds), len(found.removes), found.rows) == (0, 0, 3)
    assert found.adds.schema == files_schema([])
    assert list(read()) == []


def test_blank_lines_and_a_missing_newline_at_the_end() -> None:
    (found,) = read(b"\n" + commit_bytes(add("a")) + b"\n\n" + commit_bytes(add("b")).rstrip())
    assert found.adds["path"].to_pylist() == ["a", "b"]


def test_texts_that_are_not_ascii() -> None:
    line = json.dumps(add("ü", partitionValues={"p": "表\U0001f600"}), ensure_ascii=False).encode()
    escaped = json.dumps(add("ü", partitionValues={"p": "表\U0001f600"})).encode()
    (found,) = read(line + b"\n" + escaped, names=["p"])
    assert found.adds["path"].to_pylist() == ["ü", "ü"]
    assert found.adds["partition_values"].to_pylist() == [{"p": "表\U0001f600"}] * 2


def test_names_of_partitions_are_names_and_no_paths() -> None:
    (found,) = read(
        commit_bytes(add("f", partitionValues={"a.b": "1", "c d": "2", "": "3"})), names=["a.b", "c d", ""]
    )
    assert found.adds["partition_values"].to_pylist() == [{"a.b": "1", "c d": "2", "": "3"}]


def test_small_files_are_read_together_in_their_order() -> None:
    (found,) = read(*(commit_bytes(add(f"{number}"), remove(f"-{number}")) for number in range(50)))
    assert found.adds["path"].to_pylist() == [f"{number}" for number in range(50)]
    assert found.add_rows.tolist() == list(range(0, 100, 2))
    assert found.remove_rows.tolist() == list(range(1, 100, 2))


def test_large_files_are_read_alone_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_BLOCK_BYTES", 1000)
    texts = [
        commit_bytes(*(add(f"{text}-{number}") for number in range(size)))
        for text, size in enumerate([1, 300, 2])
    ]
    found = read(*texts)
    assert [len(part.adds) for part in found] == [1, 300, 2]
    assert found[1].adds["path"].to_pylist() == [f"1-{number}" for number in range(300)]
    assert found[1].add_rows.tolist() == list(range(300))
    assert found[1].adds["path"].num_chunks > 10


def test_a_line_may_be_longer_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_BLOCK_BYTES", 1000)
    stats = "x" * 100_000
    (found,) = read(commit_bytes(add("a"), add("b", stats=stats), add("c")))
    assert found.adds["stats"].to_pylist() == [None, stats, None]


def test_half_of_a_pair_is_passed_over_where_no_file_has_it() -> None:
    (found,) = read(rb'{"add":{"path":"\ud83d\ude00","size":1,"tags":{"\ud800":"\udc00"}}}')
    assert found.adds["path"].to_pylist() == ["\U0001f600"]
    for action in (rb'{"add":{"path":"\ud800","size":1}}', rb'{"remove":{"path":"\udc00"}}'):
        with pytest.raises(InvalidDeltaTableError, match=r"Line 2 of .* is not a valid Delta action"):
            list(read(b'{"txn":{}}\n' + action))


@pytest.mark.parametrize("block", [100, 4_000_000])
def test_what_no_file_has_is_any_json(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_BLOCK_BYTES", block)
    files = [add(f"{number}", tags={"a": 1}, partitionValues={"p": "x"}) for number in range(20)]
    lines = [
        b'{"commitInfo":1e999}',
        b'{"later":{"a":[-1e999]}}',
        b'{"txn":{"version":' + b"9" * 5000 + b"}}",
        b'{"add":{"path":"f","size":7,"stats":"s","partitionValues":{"p":"y"},"tags":{"a":1e999},"b":[{}]}}',
        b'{"remove":{"path":"g","size":1e999}}',
        rb'{"commitInfo":{"\ud800":"\udc00"}}',
    ]
    (found,) = read(commit_bytes(*files) + b"\n".join(lines) + b"\n\n" + commit_bytes(add("z")), names=["p"])
    assert found.adds["path"].to_pylist() == [*map(str, range(20)), "f", "z"]
    assert found.adds.slice(20, 1).drop_columns(["modified_at_ms"]).to_pylist() == [
        {
            "path": "f",
            "partition_values": {"p": "y"},
            "size_bytes": 7,
            "stats": "s",
            "deletion_vector": None,
            "dv_id": None,
        }
    ]
    assert (found.removes["path"].to_pylist(), found.remove_rows.tolist(), found.rows) == (["g"], [24], 27)


BROKEN = [
    b'{"add":{"path":"secret","size":1',
    b'{"add":{"path":"secret","size":1}}}',
    b'{"add":{"path":"secret","size":1}}{"add":{"path":"b","size":1}}',
    b'{"add":{"path":"secret","size":"1"}}',
    b'{"add":{"path":"secret","size":1.5}}',
    b'{"add":{"path":"secret","size":1e999}}',
    b'{"later":1e999,"add":{"path":"secret","path":"b","size":1}}',
    b'{"add":{"path":"secret","size":99999999999999999999}}',
    b'{"add":{"path":"secret","path":"b","size":1}}',
    b'{"add":{"path":["secret"],"size":1}}',
    b'{"add":{"path":"secret","size":1,"partitionValues":{"p":1}}}',
    b'{"add":{"path":"secret","size":1,"deletionVector":{"storageType":"u","offset":4294967296}}}',
    b'{"add":{"path":"secret\xff","size":1}}',
    b'{"add":{"path":"secret\\ud800","size":1}}',
    b'{"add":"secret"}',
    b'["secret"]',
    b"secret",
    b"\0",
    b" \t ",
]


@pytest.mark.parametrize("line", BROKEN)
@pytest.mark.parametrize("block", [100, 4_000_000])
def test_a_broken_line_is_named_and_not_quoted(
    line: bytes, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "_BLOCK_BYTES", block)
    good = commit_bytes(*(add(f"{number}") for number in range(40)))
    with pytest.raises(InvalidDeltaTableError) as raised:
        read(good, good + line + b"\n" + good, good, names=["p"])
    assert raised.value.message == "Line 41 of 1.json is not a valid Delta action"


@pytest.mark.parametrize(
    ("actions", "name"),
    [
        ([add("x"), {"add": {"path": "secret"}}], "size"),
        ([add("x"), {"add": {"size": 5}}], "path"),
        ([add("x"), {"remove": {"size": 5}}], "path"),
    ],
)
def test_a_file_without_path_or_size(actions: list[dict[str, object]], name: str) -> None:
    with pytest.raises(InvalidDeltaTableError) as raised:
        read(commit_bytes(add("a")), b"\n\n" + commit_bytes(*actions))
    assert raised.value.message == f"Line 4 of 1.json lacks the {name} of its file"


@pytest.mark.parametrize("part", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"])
def test_a_deletion_vector_in_parts(part: str) -> None:
    for action in (add, remove):
        with pytest.raises(
            InvalidDeltaTableError, match=r"A deletion vector in 1\.json is described incompletely"
        ):
            read(commit_bytes(add("a")), commit_bytes(action("f", deletionVector=descriptor(**{part: None}))))


def test_a_path_that_is_not_utf_8_is_told_by_its_commit() -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"A file path in 1\.json is not UTF-8"):
        read(commit_bytes(add("a")), commit_bytes(add("%FF")))


def test_a_cut_commit_is_broken_wherever_it_is_cut() -> None:
    data = commit_bytes(add("a"), add("b", stats='{"numRecords":1}', deletionVector=descriptor()))
    end_of_first = data.index(b"\n")
    for length in range(end_of_first + 2, len(data) - 1):
        with pytest.raises(InvalidDeltaTableError, match="Line 2 of"):
            read(data[:length])


def test_many_adds_become_few_python_objects() -> None:
    data = commit_bytes(
        *(
            add(f"p={number % 10}/{number}", partitionValues={"p": f"{number % 10}"})
            for number in range(100_000)
        )
    )
    tracemalloc.start()
    try:
        (found,) = read(data, names=["p"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.adds) == 100_000
    assert peak < 20_000_000
    assert pc.count_distinct(found.adds["path"]).as_py() == 100_000


def test_random_files_are_read_as_they_were_written() -> None:
    chance = random.Random(3)
    actions = []
    for number in range(2000):
        values = {name: chance.choice(["", "x", "ü", None]) for name in "pqr" if chance.random() < 0.7}
        vector = descriptor("i", f"{number}", offset=None) if chance.random() < 0.2 else None
        kind = chance.choice([add, add, remove])
        actions.append(kind(f"{number}", partitionValues=values, size=number, deletionVector=vector))
    (found,) = read(commit_bytes(*actions), names=["p", "q"])
    adds = [action["add"] for action in actions if "add" in action]
    assert found.adds["path"].to_pylist() == [each["path"] for each in adds]
    assert found.adds["size_bytes"].to_pylist() == [each["size"] for each in adds]
    assert found.adds["partition_values"].to_pylist() == [
        {name: each["partitionValues"].get(name) for name in "pq"} for each in adds
    ]
    vectors = [each["deletionVector"] and "i" + each["deletionVector"]["pathOrInlineDv"] for each in adds]
    assert found.adds["dv_id"].to_pylist() == vectors
    assert found.adds["deletion_vector"].is_valid().to_pylist() == [each is not None for each in vectors]
    removed = [action["remove"]["path"] for action in actions if "remove" in action]
    assert found.removes["path"].to_pylist() == removed
    assert isinstance(found.adds, pa.Table)
