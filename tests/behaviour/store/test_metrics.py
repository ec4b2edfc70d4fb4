"""Metrics reports."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.store import schema
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.commits import metrics
from floecat.store.commits.metrics import MetricsReportRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import ForeignKeyError
from tests.behaviour.store.rows import NOW_MS


def kept(store: Store) -> list[MetricsReportRow]:
    table = schema.metadata.tables["metrics_reports"]
    columns = [table.c[name] for name in MetricsReportRow.__struct_fields__]
    with store.read() as conn:
        return [MetricsReportRow(*row) for row in conn.all(sa.select(*columns).order_by(table.c.id), {})]


def test_reports(store: Store, catalog: CatalogRow) -> None:
    entry_id = uuids.uuid7()
    rows = [
        MetricsReportRow(
            uuids.uuid7(), catalog.id, entry_id, "a.t", "scan-report", snap, b"\x00", NOW_MS + number, "anna"
        )
        for number, snap in enumerate([None, 2**62, 3, 4])
    ]  # fmt: skip
    with store.write() as conn:
        for row in rows:
            metrics.insert(conn, row)
    assert kept(store) == rows
    deleted = [store.run(lambda conn: metrics.delete_before(conn, NOW_MS + 3, 2)) for _ in range(3)]
    assert deleted == [2, 1, 0]
    assert kept(store) == rows[3:]


def test_a_catalog_is_needed(store: Store) -> None:
    row = MetricsReportRow(uuids.uuid7(), uuids.uuid7(), uuids.uuid7(), "t", "x", None, b"", 1, "anna")
    with pytest.raises(ForeignKeyError), store.write() as conn:
        metrics.insert(conn, row)
