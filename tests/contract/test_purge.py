"""What a purge takes, with real files that PyIceberg wrote (case O22)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

from tests.contract.client import Catalog, Namespace, unique
from tests.contract.lakes import Lake, wait_until_gone

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "data": ["a", "b", "c"]})


@pytest.fixture
def engine(lake: Lake) -> RestCatalog:
    """PyIceberg on the service whose files are looked at."""
    properties = {"uri": lake.server.base_url, "warehouse": lake.server.warehouse}
    made = load_catalog("lake", type="rest", **properties, **lake.client_properties)
    assert isinstance(made, RestCatalog)
    return made


def _filled(engine: RestCatalog, namespace: Namespace, name: str, location: str | None = None) -> Any:
    """A table with two appends, so with data files, manifests, manifest lists and three metadata files."""
    table = engine.create_table((*namespace, name), ROWS.schema, location=location)
    for _ in range(2):
        table.append(ROWS)
    return table


def _purge(catalog: Catalog, namespace: Namespace, name: str) -> None:
    path = f"{catalog.tables_path(namespace)}/{name}"
    assert catalog.delete(path, params={"purgeRequested": "true"}).status_code == 204


def _rows(engine: RestCatalog, namespace: Namespace, name: str) -> int:
    return int(engine.load_table((*namespace, name)).scan().to_arrow().num_rows)


@pytest.mark.parametrize(
    ("purged", "kept"),
    [("t", "t2"), ("t2", "t"), ("t", "t/inner"), ("t/inner", "t"), ("t", "t/data/inner"), ("a/t", "b/t")],
    ids=["name begins", "name is begun", "around", "inside", "inside the data", "same name"],
)
def test_neighbour_keeps_every_file(
    lake: Lake, catalog: Catalog, namespace: Namespace, engine: RestCatalog, purged: str, kept: str
):
    base = f"{lake.root}/{unique('neighbours')}"
    _filled(engine, namespace, "kept", f"{base}/{kept}")
    theirs = lake.files(base)
    assert len(theirs) == 9
    _filled(engine, namespace, "purged", f"{base}/{purged}")
    own = lake.files(base) - theirs
    assert len(own) == 9
    _purge(catalog, namespace, "purged")
    assert wait_until_gone(lake, base, own) == set()
    assert lake.files(base) == theirs
    assert _rows(engine, namespace, "kept") == 6


def test_name_of_a_renamed_table_is_safe_to_use_again(
    lake: Lake, catalog: Catalog, namespace: Namespace, engine: RestCatalog
):
    old = _filled(engine, namespace, "tbl")
    engine.rename_table((*namespace, "tbl"), (*namespace, "renamed"))
    new = _filled(engine, namespace, "tbl")
    files = lake.files(new.location())
    own = lake.files(old.location())
    assert (len(files), len(own)) == (9, 9)
    _purge(catalog, namespace, "renamed")
    assert wait_until_gone(lake, old.location(), own) == set()
    assert lake.files(new.location()) == files
    assert _rows(engine, namespace, "tbl") == 6


def test_files_that_another_table_reaches_stay(
    lake: Lake, catalog: Catalog, namespace: Namespace, engine: RestCatalog
):
    one = _filled(engine, namespace, "one")
    location = one.location()
    engine.register_table((*namespace, "two"), one.metadata_location)
    one.append(ROWS)
    reached = lake.files(location)
    _purge(catalog, namespace, "one")
    # What only the later commit of the purged table wrote goes, as the sign that its job is done.
    manifests = {file for file in reached if file.endswith(".metadata.json") and "/00003-" in file}
    assert manifests
    assert wait_until_gone(lake, location, manifests) == set()
    assert _rows(engine, namespace, "two") == 6
    _purge(catalog, namespace, "two")
    assert wait_until_gone(lake, location, reached) == set()


def test_registered_table_goes_on_with_its_rows(
    lake: Lake, catalog: Catalog, namespace: Namespace, engine: RestCatalog
):
    table = _filled(engine, namespace, "tbl")
    files = lake.files(table.location())
    engine.drop_table((*namespace, "tbl"))
    assert lake.files(table.location()) == files
    again = engine.register_table((*namespace, "tbl"), table.metadata_location)
    assert again.metadata == table.metadata
    again.append(ROWS)
    assert _rows(engine, namespace, "tbl") == 9


def test_metadata_files_that_fell_out_of_the_log_go_too(
    lake: Lake, catalog: Catalog, namespace: Namespace, engine: RestCatalog
):
    base = f"{lake.root}/{unique('log')}"
    table = _filled(engine, namespace, "t", base)
    for number in range(3):
        with table.transaction() as transaction:
            transaction.set_properties({"write.metadata.previous-versions-max": "1", "n": str(number)})
    files = lake.files(base)
    assert len([file for file in files if file.endswith(".metadata.json")]) == 6
    assert len(table.metadata.metadata_log) == 1
    _purge(catalog, namespace, "t")
    assert wait_until_gone(lake, base, files) == set()
