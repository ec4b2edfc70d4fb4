"""A list of Lance tables costs our service a request for a page, however many tables there are."""

from __future__ import annotations

import logging
import re

import pyarrow as pa
import pytest
from lance_namespace import DeclareTableRequest, ListTablesRequest

from tests.clients.connections import connect_pyiceberg
from tests.clients.lance.conftest import Lake

COUNT = 12


@pytest.fixture
def mixed(disk_lake: Lake) -> list[str]:
    """A namespace with as many Iceberg tables as Lance tables, whose names alternate."""
    made = disk_lake.new_namespace()
    catalog = connect_pyiceberg(disk_lake.warehouse)
    for number in range(COUNT):
        disk_lake.connect().declare_table(DeclareTableRequest(id=[*made, f"t{number:02}-lance"]))
        catalog.create_table((made[1], f"t{number:02}-iceberg"), schema=pa.schema([("id", pa.int64())]))
    catalog.close()
    return made


def test_a_request_lists_a_page(disk_lake: Lake, mixed: list[str], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "urllib3.connectionpool")
    expected = [f"t{number:02}-lance" for number in range(COUNT)]
    assert disk_lake.connect().list_tables(ListTablesRequest(id=mixed)).tables == expected
    assert _tables_asked_for(caplog) == ["?tableType=lance"]

    caplog.clear()
    namespace, request, pages = disk_lake.connect(), ListTablesRequest(id=mixed, limit=5), []
    while True:
        answer = namespace.list_tables(request)
        pages.append(answer.tables)
        if not answer.page_token:
            break
        request.page_token = answer.page_token
    assert pages == [expected[:5], expected[5:10], expected[10:]]
    assert len(_tables_asked_for(caplog)) == len(pages)


def _tables_asked_for(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was asked for below the tables of a namespace, by the log of the HTTP library."""
    lines = [record.getMessage() for record in caplog.records if record.name == "urllib3.connectionpool"]
    return [found[1] for line in lines if (found := re.search(r'"GET \S+/tables(\S*) HTTP', line))]
