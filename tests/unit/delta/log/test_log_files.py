from __future__ import annotations

import random

from floecat.delta.log.log_files import LogFile, commit_name, parse_log_files

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def files(*names: str) -> list[LogFile]:
    return [LogFile(name, 10, 20) for name in names]


def test_files_are_told_by_their_names() -> None:
    found = parse_log_files(
        files(
            "00000000000000000000.json",
            "00000000000000000001.json",
            "00000000000000000001.checkpoint.parquet",
            "00000000000000000002.00000000000000000004.compacted.json",
            f"00000000000000000003.checkpoint.{UUID}.json",
            f"00000000000000000004.checkpoint.{UUID.upper()}.parquet",
            "00000000000000000005.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000005.checkpoint.0000000002.0000000002.parquet",
        )
    )
    assert {version: file.name for version, file in found.commits.items()} == {
        0: "00000000000000000000.json",
        1: "00000000000000000001.json",
    }
    assert sorted(found.checkpoints) == [1, 3, 4, 5]
    assert [file.name for file in found.checkpoints[5].files] == [
        "00000000000000000005.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000005.checkpoint.0000000002.0000000002.parquet",
    ]
    assert list(found.compactions) == [(2, 4)]
    assert found.missing_parts == {}


def test_other_files_are_passed_over() -> None:
    found = parse_log_files(
        files(
            "_last_checkpoint",
            "00000000000000000001.crc",
            ".00000000000000000001.json.crc",
            "00000000000000000001.json.tmp",
            "1.json",
            "000000000000000000001.json",
            "0000000000000000000a.json",
            "\N{ARABIC-INDIC DIGIT ONE}" * 20 + ".json",
            f"00000000000000000001.{UUID}.json",
            f"00000000000000000001.checkpoint.{UUID}.parquet.tmp",
            "00000000000000000001.checkpoint.json",
            "00000000000000000001.checkpoint.1.2.parquet",
            "00000000000000000001.checkpoint.0000000000.0000000000.parquet",
            "00000000000000000001.2.compacted.json",
            "99999999999999999999.json",
            "09223372036854775808.json",
            "_sidecars/00000000000000000001.json",
        )
    )
    assert (found.commits, found.checkpoints, found.compactions, found.missing_parts) == ({}, {}, {}, {})


def test_a_checkpoint_with_a_missing_part_is_none() -> None:
    parts = [f"00000000000000000007.checkpoint.{number:010}.0000000003.parquet" for number in (1, 2, 3)]
    assert list(parse_log_files(files(*parts)).checkpoints) == [7]
    found = parse_log_files(files(parts[0], parts[2]))
    assert found.checkpoints == {}
    assert found.missing_parts == {7: [parts[1]]}


def test_parts_of_checkpoints_of_different_sizes_do_not_mix() -> None:
    found = parse_log_files(
        files(
            "00000000000000000007.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000007.checkpoint.0000000002.0000000003.parquet",
            "00000000000000000007.checkpoint.0000000003.0000000003.parquet",
            "00000000000000000007.checkpoint.0000000004.0000000003.parquet",
        )
    )
    assert found.checkpoints == {}
    assert found.missing_parts == {
        7: [
            "00000000000000000007.checkpoint.0000000002.0000000002.parquet",
            "00000000000000000007.checkpoint.0000000001.0000000003.parquet",
        ]
    }


def test_of_several_checkpoints_the_one_in_a_single_file_is_taken() -> None:
    names = [
        "00000000000000000007.checkpoint.0000000001.0000000001.parquet",
        f"00000000000000000007.checkpoint.{UUID}.json",
        "00000000000000000007.checkpoint.parquet",
    ]
    for _ in range(5):
        random.shuffle(names)
        assert [file.name for file in parse_log_files(files(*names)).checkpoints[7].files] == [
            "00000000000000000007.checkpoint.parquet"
        ]


def test_the_order_of_files_does_not_matter() -> None:
    names = [commit_name(version) for version in range(20)]
    shuffled = random.sample(names, len(names))
    assert list(parse_log_files(files(*shuffled)).commits) == list(range(20))


def test_a_replaced_file_has_another_fingerprint() -> None:
    file = LogFile(commit_name(3), 10, 20)
    assert file.fingerprint == "00000000000000000003.json:10:20"
    assert (
        len(
            {file.fingerprint, LogFile(file.name, 11, 20).fingerprint, LogFile(file.name, 10, 21).fingerprint}
        )
        == 3
    )
