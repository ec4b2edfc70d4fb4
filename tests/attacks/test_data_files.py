"""Data files that are small, and large to decode, in tables whose commits are captured."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def write_bomb(file: Path) -> None:
    """Less than a kilobyte that decodes to 3 GB of texts."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * TEXTS, pa.int32()), ["x" * TEXT_BYTES])
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    pq.write_table(pa.table({"a": same}), file, dictionary_pagesize_limit=4 * TEXT_BYTES, **options)
    assert file.stat().st_size < 1000


@pytest.mark.scale
@pytest.mark.parametrize("form", [LONG], ids=["long"], indirect=True)
def test_commits_of_data_files_are_captured(start_attacked: Callable[..., AttackedService]) -> None:
    """The file is left out of the statistics, and named."""
    service = start_attacked(FLOECAT_STATISTICS_WORKERS="1", FLOECAT_STATISTICS_POLL_INTERVAL_MS="100")
    catalog = RestCatalog("floecat", uri=service.server.base_url)
    catalog.create_namespace("bombs")
    honest = pa.table({"a": ["a"]})
    table = catalog.create_table("bombs.t", honest.schema)
    table.append(honest)  # a table of which nothing can be read is tried again and again
    bomb = service.warehouse / "bomb.parquet"
    write_bomb(bomb)

    def wait_for(text: str, times: int) -> None:
        path = "/management/v1/catalogs/floecat/namespaces/bombs/tables/t/captures"
        ends_s = time.monotonic() + 60
        while (captures := service.send("GET", path).body.decode()).count(text) < times:
            assert time.monotonic() < ends_s, captures
            time.sleep(0.1)

    numbers = count(1)

    def send() -> None:
        table.add_files([bomb.as_uri()], check_duplicate_files=False)
        wait_for(REFUSED, next(numbers))

    send()  # starts the process, which stays for a while
    service.attack(send, at_once=1)
