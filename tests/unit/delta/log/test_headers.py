from __future__ import annotations

import json
import tracemalloc

import pytest

from floecat.delta.log.headers import LogHeader, has_metadata, header_of_rows, read_header
from floecat.delta.log.log_bounds import LogBounds
from floecat.delta.protocol.actions import CommitInfo, Metadata, Protocol
from floecat.errors import InvalidDeltaTableError, PayloadTooLargeError
from floecat.settings.limits import LimitSettings
from tests.unit.delta.log_lines import PARTITIONED, PROTOCOL, add, commit_bytes, metadata

LOCATION = "s3://bucket/t/_delta_log/00000000000000000003.json"


def read(data: bytes) -> LogHeader:
    return read_header(data, location=LOCATION, bounds=LogBounds())


def test_what_a_commit_says_beside_its_files() -> None:
    info = {
        "commitInfo": {
            "timestamp": 1,
            "inCommitTimestamp": 2,
            "operation": "WRITE",
            "operationParameters": {"a": {}},
        }
    }
    features = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["a"],
            "writerFeatures": ["a", "b"],
        }
    }
    header = read(
        commit_bytes(info, features, add("f"), metadata("{}", ["p"], delta__appendOnly="true"), add("g"))
    )
    assert header.protocol == Protocol(3, 7, ("a",), ("a", "b"))
    assert header.metadata == Metadata(
        "some-id", "{}", ("p",), {"delta.appendOnly": "true"}, None, None, "parquet", 1700000000000
    )
    assert header.commit_info == CommitInfo(1, 2, "WRITE")
    assert header.sidecars == ()


def test_a_commit_of_files_only() -> None:
    data = commit_bytes(
        add("f"), add("g", partitionValues={"metaData": "protocol", "protocol": "commitInfo"})
    )
    assert read(data) == LogHeader()


def test_keys_inside_texts_are_no_actions() -> None:
    stats = json.dumps({"minValues": {"metaData": 1, "protocol": 2}})
    data = commit_bytes(add("f", stats=stats), PROTOCOL)
    assert read(data) == LogHeader(protocol=Protocol(1, 2))
    assert not has_metadata(data)
    assert has_metadata(commit_bytes(PARTITIONED))


def test_the_last_action_of_a_kind_wins() -> None:
    second = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    assert read(commit_bytes(PROTOCOL, second)).protocol == Protocol(2, 5)


def test_lines_may_lack_the_last_newline_and_be_spaced() -> None:
    spaced = b'\n { "protocol" : { "minReaderVersion" : 1, "minWriterVersion" : 2 } }\r\n\n' + commit_bytes(
        PARTITIONED
    )
    header = read(spaced.rstrip())
    assert header.protocol == Protocol(1, 2)
    assert header.metadata is not None


def test_what_may_be_left_out_of_metadata() -> None:
    header = read(b'{"metaData":{"schemaString":"{}","configuration":{"a":null,"b":"1"},"unknown":[1]}}')
    assert header.metadata == Metadata("", "{}", (), {"b": "1"})
    assert read(b'{"metaData":{"id":"x"}}').metadata == Metadata("x", "")


def test_provenance_may_be_anything() -> None:
    assert (
        read(b'{"commitInfo":{"timestamp":"now","inCommitTimestamp":1.5,"operation":7}}').commit_info
        == CommitInfo()
    )
    assert read(b'{"commitInfo":{"inCommitTimestamp":true}}').commit_info == CommitInfo()
    assert read(b'{"commitInfo":{}}').commit_info == CommitInfo()
    assert read(b'{"commitInfo":null}').commit_info is None


@pytest.mark.parametrize(
    "value", ["[]", '["inCommitTimestamp"]', '"text"', "7", "true", "1e999", "-1" + "0" * 5000, '{"a":1e999}']
)
def test_provenance_is_any_json(value: str) -> None:
    data = commit_bytes(PROTOCOL) + b'{"commitInfo":%s}\n' % value.encode()
    assert read(data) == LogHeader(protocol=Protocol(1, 2), commit_info=CommitInfo())


def test_what_does_not_matter_in_provenance_is_passed_over() -> None:
    rest = b'"operation":"' + b"x" * (1 << 20) + b'",' + b'"a":[{}],' * 2_000_000 + b'"timestamp":1e999'
    line = b'{"commitInfo":{"inCommitTimestamp":7,%b}}' % rest
    assert len(line) > LimitSettings().delta_header_bytes
    tracemalloc.start()
    try:
        assert read(line).commit_info == CommitInfo(None, 7, None)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(line)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rest", [b"", b',"protocol":{"minReaderVersion":1,"minWriterVersion":2}'])
@pytest.mark.parametrize("most", [16, 400])
def test_a_line_has_a_bounded_number_of_levels(rest: bytes, most: int) -> None:
    def line(levels: int) -> bytes:
        # the line is one of them
        return b'{"commitInfo":' + b"[" * (levels - 1) + b"]" * (levels - 1) + rest + b"}"

    limits = LimitSettings(nesting=most)
    assert read_header(line(most), location="l", bounds=LogBounds(limits)).commit_info == CommitInfo()
    for levels in (most + 1, 100_000):
        with pytest.raises(
            InvalidDeltaTableError, match=rf"more than {most} levels \(floecat.limits.nesting\)"
        ):
            read_header(line(levels), location="l", bounds=LogBounds(limits))


@pytest.mark.parametrize(
    "line",
    [
        rb'{"commitInfo":"\ud800"}',
        rb'{"commitInfo":{"\udc00":["\ud800\ud800","\udfff"],"inCommitTimestamp":7}}',
        rb'{"later":"\uDBFF","commitInfo":{"inCommitTimestamp":7}}',
        rb'{"\ud800":1,"commitInfo":{"inCommitTimestamp":7,"a":"\ud83d\ude00"}}',
    ],
)
def test_what_does_not_matter_may_hold_half_of_a_pair(line: bytes) -> None:
    found = read(line[:-1] + b',"protocol":{"minReaderVersion":1,"minWriterVersion":2}}')
    assert found.protocol == Protocol(1, 2)
    assert found.commit_info == CommitInfo(None, 7 if b"7" in line else None, None)


def test_half_of_a_pair_in_what_matters_is_damage() -> None:
    assert read(rb'{"commitInfo":{"operation":"a\ud800"}}').commit_info == CommitInfo(None, None, "a\ufffd")
    for line in (rb'{"metaData":{"name":"\ud800"}}', rb'{"sidecar":{"path":"\udc00"},"commitInfo":{}}'):
        with pytest.raises(InvalidDeltaTableError, match="is not a valid Delta action"):
            read(line)


def test_sidecars_are_told_by_their_last_name() -> None:
    data = commit_bytes(
        {"sidecar": {"path": "a.parquet", "sizeInBytes": 1}},
        {"sidecar": {"path": "s3://bucket/t/_delta_log/_sidecars/b%20c.parquet"}},
        {"sidecar": {"path": "../../d.parquet"}},
    )
    assert read(data).sidecars == ("a.parquet", "b c.parquet", "d.parquet")


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\n"])
def test_an_empty_file(data: bytes) -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"00000000000000000003\.json of the log is empty"):
        read(data)


@pytest.mark.parametrize(
    "line",
    [
        b'{"protocol":{"minReaderVersion":"secret","minWriterVersion":2}}',
        b'{"protocol":{"minReaderVersion":1}}',
        b'{"metaData":{"schemaString":"secret"',
        b'{"metaData":{"schemaString":["secret"]}}',
        b'{"metaData":{"schemaString":"\xff secret"}}',
        b'["protocol"]',
        b'{"metaData":{"schemaString":"","id":"a","id":"secret"}}',
        b'{"metaData":{"schemaString":"","configuration":{"a":"b","a":"secret"}}}',
        b'{"protocol":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_broken_line_is_named_and_not_quoted(line: bytes) -> None:
    with pytest.raises(InvalidDeltaTableError) as raised:
        read(commit_bytes(add("f"), add("g")) + line)
    assert raised.value.message.startswith(f"Line 3 of {LOCATION} ")
    assert "secret" not in raised.value.message


def test_rows_of_a_checkpoint() -> None:
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None}},
        {
            "metaData": {
                "schemaString": "{}",
                "configuration": [("a", "b")],
                "format": {"provider": None, "options": []},
            }
        },
        {"sidecar": {"path": "x"}},
    ]
    header = header_of_rows(rows, location=LOCATION)
    assert header == LogHeader(Protocol(1, 2), Metadata("", "{}", (), {"a": "b"}), None, ("x",))


@pytest.mark.parametrize(
    "row",
    [
        {"protocol": {"minReaderVersion": None}},
        {"metaData": {"configuration": [("a",)]}},
        {"sidecar": {"path": 5}},
    ],
)
def test_broken_rows_of_a_checkpoint(row: dict[str, dict[str, object]]) -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"Protocol, metadata or a sidecar in .* is broken"):
        header_of_rows([row], location=LOCATION)


def test_lines_that_become_objects_are_bounded() -> None:
    line = commit_bytes(PROTOCOL)
    limits = LimitSettings(delta_header_bytes=3 * len(line))
    # lines of files do not count, nor those that hold a key as something else
    files = commit_bytes(*[add("f", partitionValues={"protocol": "x"})] * 50)
    assert read_header(files + line * 3, location=LOCATION, bounds=LogBounds(limits)).protocol
    with pytest.raises(PayloadTooLargeError, match=r"floecat\.limits\.delta-header-bytes"):
        read_header(line * 4, location=LOCATION, bounds=LogBounds(limits))
    with pytest.raises(PayloadTooLargeError, match=r"floecat\.limits\.delta-header-bytes"):
        read_header(commit_bytes(metadata("x" * 400)), location=LOCATION, bounds=LogBounds(limits))


@pytest.mark.parametrize(
    "line",
    [
        b'{"protocol":{"minReaderVersion":1,"minReaderVersion":2,"minWriterVersion":2}}',
        b'{"metaData":{"id":"a","schemaString":"{}"},"metaData":{"id":"b","schemaString":"{}"}}',
        b'{"metaData":{"id":"a","configuration":{"k":"1","k":"2"},"schemaString":"{}"}}',
        b'{"commitInfo":{"inCommitTimestamp":1,"inCommitTimestamp":2}}',
    ],
)
def test_a_key_that_is_there_twice_is_damage(line: bytes) -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"Line 2 of .* has a key more than once"):
        read(commit_bytes(PROTOCOL) + line + b"\n")


def test_a_raised_bound_leads_to_one_that_is_named() -> None:
    data = commit_bytes(PROTOCOL, metadata("x" * (17 << 20)))
    limits = LimitSettings(delta_header_bytes=64 << 20)
    with pytest.raises(InvalidDeltaTableError, match=r"Line 2 .*\(floecat\.limits\.json-text-bytes\)"):
        read_header(data, location=LOCATION, bounds=LogBounds(limits))
