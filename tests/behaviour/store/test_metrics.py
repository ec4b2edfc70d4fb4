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
from tests.behaviour.store.rows import NOW_MS, add_catalog


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


def test_the_oldest_reports_of_a_catalog_are_too_many(store: Store, catalog: CatalogRow) -> None:
    def report(of: CatalogRow, number: int) -> MetricsReportRow:
        body = bytes(1000)
        return MetricsReportRow(
            uuids.uuid7(), of.id, of.id, "a.t", "scan-report", 1, body, NOW_MS + number, "anna"
        )

    rows = [report(catalog, number) for number in range(5)]
    others = [report(add_catalog(store, "other"), 0)]
    with store.write() as conn:
        for row in rows + others:
            metrics.insert(conn, row)
    for most_bytes, deleted in ((10_000, [0]), (2 * 1512, [2, 1, 0])):
        surplus = metrics.Surplus(most_bytes)
        for count in deleted:
            assert store.run(lambda conn, to=surplus: to.delete(conn, NOW_MS, 2)) == count  # type: ignore[misc]
    assert kept(store) == rows[3:] + others


def test_a_catalog_is_needed(store: Store) -> None:
    row = MetricsReportRow(uuids.uuid7(), uuids.uuid7(), uuids.uuid7(), "t", "x", None, b"", 1, "anna")
    with pytest.raises(ForeignKeyError), store.write() as conn:
        metrics.insert(conn, row)
