"""Tables with deletion vectors, as tables of format version 3, which have vectors too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent, FileFormat

from tests.clients.delta.expectations import Outcome, tables_that_give
from tests.clients.delta.lake import ENGINES, DeltaLake, table_name
from tests.clients.delta.oracles import log_versions, oracle_rows
from tests.clients.delta.rows import check
from tests.delta_tables import delta_table, writable_copy

pytestmark = pytest.mark.spark

_NAMES = [facts.name for facts in tables_that_give(Outcome.ROWS) if facts.deletion_vectors]


@pytest.fixture(scope="session")
def packed_v3(delta_lake: DeltaLake) -> Callable[[str], str]:
    """Gives the name under which a packed table is registered with format version 3."""
    names = {}
    for name in _NAMES:
        folder = writable_copy(name, Path(delta_lake.root) / "packed_v3" / name)
        fields = {"format-version": 3}
        names[name] = delta_lake.register("packed_v3", table_name(name), folder, **fields)
    return names.__getitem__


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_newest_rows(delta_lake: DeltaLake, packed_v3: Callable[[str], str], engine: str, name: str) -> None:
    check(ENGINES[engine](delta_lake, packed_v3(name), None), oracle_rows(name))


@pytest.mark.parametrize("name", _NAMES)
def test_older_versions(delta_lake: DeltaLake, packed_v3: Callable[[str], str], name: str) -> None:
    for version in log_versions(delta_table(name))[:-1]:
        found = ENGINES["pyiceberg"](delta_lake, packed_v3(name), version)
        check(found, oracle_rows(name, version), f"version {version}")


@pytest.mark.parametrize("name", ["golden/dv-with-columnmapping/delta", "delta/table-with-dv-large"])
def test_vectors_are_in_puffin_files(
    delta_lake: DeltaLake, packed_v3: Callable[[str], str], name: str
) -> None:
    table = delta_lake.pyiceberg(packed_v3(name))
    assert table.format_version == 3
    snapshot = table.current_snapshot()
    assert snapshot is not None
    deletes = [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.data_file.content == DataFileContent.POSITION_DELETES
    ]
    assert deletes
    assert {delete.file_format for delete in deletes} == {FileFormat.PUFFIN}
