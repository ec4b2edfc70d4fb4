"""Files whose names hold what URIs, Windows and XML do not allow: each engine opens the right ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.clients.delta.lake import ENGINES, DeltaLake
from tests.clients.delta.rows import check
from tests.clients.delta.writer import DeltaWriter

__all__ = ["READ_EVERYWHERE", "write_names"]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])

READ_EVERYWHERE = ["a b", "a\\b", "a%b", "a%23b", "a%5Cb", "a+b", "a;b", "a&b=c", "a*b", "a[1]b", "a{x}b"]
READ_EVERYWHERE += ["aé表\U0001f600b", "a'b\"c", "a,b|c^d~`", "a@b!$", "a<b>c"]
"""Names that every engine reads from every storage."""

pytestmark = [pytest.mark.spark]


def write_names(folder: Path, names: list[str]) -> DeltaWriter:
    """A table with two files for each name, one in a folder of that name; a row of each file is deleted."""
    writer = DeltaWriter(folder, SCHEMA)
    for name in names:
        for path in (f"p={name}/part.parquet", f"{name}.parquet"):
            first = 1000 * len(writer.files)
            rows = pa.table({"id": range(first, first + 3), "p": [name] * 3}, schema=SCHEMA)
            writer.append(rows, path=path)
    writer.delete({place: [1] for place in range(len(writer.files))}, storage="i")
    return writer


@pytest.fixture(scope="module")
def local(delta_lake: DeltaLake) -> tuple[str, DeltaWriter]:
    names = [*READ_EVERYWHERE, "a#b", "a?b", "a\tb", "a\r\nb", "a\x01b", "a\x7fb"]
    writer = write_names(Path(delta_lake.root) / "names", names)
    return delta_lake.register("names", "local", writer.folder), writer


@pytest.mark.parametrize("engine", ENGINES)
def test_names_on_the_local_disk(delta_lake: DeltaLake, local: tuple[str, DeltaWriter], engine: str) -> None:
    table, writer = local
    check(ENGINES[engine](delta_lake, table, None), writer.rows[writer.version])
