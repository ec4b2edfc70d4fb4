"""Data files that are small, and large to decode, in tables whose commits are captured."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog

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


@pytest.mark.scale
@pytest.mark.parametrize(
    ("write", "outcome"),
    [
        # such a file is left out of the statistics, and named
        (write_repeated, REFUSED),
        (partial(write_one, length=1_500_000_000), REFUSED),
        (partial(write_one, length=200_000_000), FINALIZED),
    ],
    ids=["repeated", "one of 1.5 GB", "one of 200 MB"],
)
@pytest.mark.parametrize("form", [LONG], ids=["long"], indirect=True)
def test_commits_of_data_files_are_captured(
    start_attacked: Callable[..., AttackedService], write: Callable[[Path], None], outcome: str
) -> None:
    service = start_attacked(FLOECAT_STATISTICS_WORKERS="1", FLOECAT_STATISTICS_POLL_INTERVAL_MS="100")
    catalog = RestCatalog("floecat", uri=service.server.base_url)
    catalog.create_namespace("bombs")
    honest = pa.table({"a": ["a"]})
    table = catalog.create_table("bombs.t", honest.schema)
    table.append(honest)  # a table of which nothing can be read is tried again and again
    bomb = service.warehouse / "bomb.parquet"
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
        sent = bomb if outcome == REFUSED else shutil.copy(bomb, bomb.with_stem(f"bomb-{number}"))
        table.add_files([sent.as_uri()], check_duplicate_files=False)
        wait_for(outcome, number + (outcome == FINALIZED))

    send()  # starts the process, which stays for a while
    service.attack(send, at_once=1)
