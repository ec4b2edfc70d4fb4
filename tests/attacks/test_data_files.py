"""Data files that are small, and large to decode, in tables whose commits are captured."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tests.attacks.attacked_service import LONG, AttackedService

TEXT_BYTES = 1_000_000
TEXTS = 3000
REFUSED = "(floecat.statistics.memory-bytes)"
FINALIZED = '"finalized"'


def write_repeated(file: Path) -> None:
    """Less than a kilobyte that decodes to 3 GB of texts."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * TEXTS, pa.int32()), ["x" * TEXT_BYTES])
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    pq.write_table(pa.table({"a": same}), file, dictionary_pagesize_limit=4 * TEXT_BYTES, **options)
    assert file.stat().st_size < 1000


def write_one(file: Path, length: int) -> None:
    """Few kilobytes that are one text."""
    texts = pa.table({"a": ["x" * length]})
    pq.write_table(texts, file, compression="zstd", store_schema=False, write_statistics=False)
    assert file.stat().st_size < length // 10_000


def write_large(file: Path) -> None:
    """Noise of 6 MB, so that no page is weighed before, beside a text of 200 MB that comes 3000 times."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * TEXTS, pa.int32()), ["x" * 200_000_000])
    noise = pa.array([os.urandom(2048) for _ in range(TEXTS)])
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    table = pa.table({"a": same, "b": noise})
    pq.write_table(table, file, dictionary_pagesize_limit=1 << 30, use_dictionary=["a"], **options)
    assert 5 << 20 < file.stat().st_size < 7 << 20


def write_orc(file: Path) -> None:
    """Few kilobytes of one stripe that decodes to 600 MB of texts."""
    texts = pa.table({"a": ["x" * TEXT_BYTES] * 600})
    orc.write_table(texts, file, compression="zstd", stripe_size=1 << 32, dictionary_key_size_threshold=1.0)
    assert file.stat().st_size < 4000


def add_orc(table: Table, file: Path) -> None:
    """Commits an append of an ORC file, which PyIceberg does not read."""
    data = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.as_uri(),
        file_format=FileFormat.ORC,
        partition=Record(),
        record_count=600,
        file_size_in_bytes=file.stat().st_size,
    )
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(data)


@pytest.mark.scale
@pytest.mark.parametrize(
    ("write", "outcome"),
    [
        # such a file is left out of the statistics, and named
        (write_repeated, REFUSED),
        (partial(write_one, length=1_500_000_000), REFUSED),
        (partial(write_one, length=200_000_000), FINALIZED),
        (write_large, REFUSED),
        (write_orc, REFUSED),
    ],
    ids=["repeated", "one of 1.5 GB", "one of 200 MB", "large", "ORC"],
)
@pytest.mark.parametrize("form", [LONG], ids=["long"], indirect=True)
def test_commits_of_data_files_are_captured(
    start_attacked: Callable[..., AttackedService], write: Callable[[Path], None], outcome: str
) -> None:
    service = start_attacked(FLOECAT_STATISTICS_WORKERS="1", FLOECAT_STATISTICS_POLL_INTERVAL_MS="100")
    catalog = RestCatalog("floecat", uri=service.server.base_url)
    catalog.create_namespace("bombs")
    honest = pa.table({"a": ["a"]} | ({"b": [b"b"]} if write is write_large else {}))
    mapping = {"schema.name-mapping.default": '[{"field-id":1,"names":["a"]},{"field-id":2,"names":["b"]}]'}
    table = catalog.create_table("bombs.t", honest.schema, properties=mapping)
    table.append(honest)  # a table of which nothing can be read is tried again and again
    bomb = service.warehouse / ("bomb.orc" if write is write_orc else "bomb.parquet")
    write(bomb)

    def wait_for(text: str, times: int) -> None:
        path = "/management/v1/catalogs/floecat/namespaces/bombs/tables/t/captures"
        ends_s = time.monotonic() + 60
        while (captures := service.send("GET", path).body.decode()).count(text) < times:
            assert time.monotonic() < ends_s, captures
            time.sleep(0.1)

    wait_for(FINALIZED, 1)
    numbers = count(1)

    def send() -> None:
        number = next(numbers)
        # one that is counted is not read again
        sent = bomb if outcome == REFUSED else Path(shutil.copy(bomb, bomb.with_stem(f"bomb-{number}")))
        if write is write_orc:
            add_orc(table, bomb)
        else:
            table.add_files([sent.as_uri()], check_duplicate_files=False)
        wait_for(outcome, number + (outcome == FINALIZED))

    send()  # starts the process, which stays for a while
    service.attack(send, at_once=1)
