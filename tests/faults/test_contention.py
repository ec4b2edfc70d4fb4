"""Serialization failures and deadlocks of PostgreSQL are the service's business, never the client's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.faults.answers import Answer, Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.history import Workload
from tests.faults.requests import creating, setting, table_path, transaction
from tests.services.catalog import CatalogServer
from tests.services.postgres import PostgresServer


@pytest.mark.parametrize("isolation", ["serializable", "repeatable\\ read"])
def test_serialization_failures_do_not_surface(
    postgres_server: PostgresServer,
    tmp_path: Path,
    start_catalog: Callable[..., CatalogServer],
    isolation: str,
) -> None:
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    deployment = Deployment(tmp_path / "data", start_catalog, postgres_url=url)
    options = f"?options=-c%20default_transaction_isolation%3D{isolation.replace(' ', '%20')}"
    server = deployment.start(FLOECAT_STORE_URL=url + options)
    with Workload([server.base_url]) as workload:
        workload.wait_for(120)
    workload.check()
    assert "unknown" not in workload.history.fates(), workload.history.fates()
    check_consistency(url)
    server.stop()
    postgres_server.drop_database(name)


def test_a_deadlock_is_tried_again(
    postgres_server: PostgresServer, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> None:
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    deployment = Deployment(tmp_path / "data", start_catalog, postgres_url=url)
    server = deployment.start()
    sender = Sender(server.base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    for each in ("t", "u"):
        assert sender.send("POST", "/namespaces/ns/tables", creating(each)).status == 200
    before = postgres_server.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'")
    answers: list[Answer] = []
    body = transaction({each: setting({"mark": "1"}) for each in ("t", "u")})

    def commit() -> None:
        answers.append(sender.send("POST", "/transactions/commit", body))

    thread = threading.Thread(target=commit)
    conninfo = url.replace("+psycopg", "")
    with psycopg.connect(conninfo, autocommit=True) as rival:
        rival.execute("SET deadlock_timeout = '60s'")  # so that the service is the one that loses
        rival.execute("BEGIN")
        rival.execute("UPDATE floecat.entries SET version = version")
        thread.start()
        wait_for_lock(postgres_server, name)
        # the service holds the catalog and waits for its entries; now the rival waits for the catalog
        rival.execute("UPDATE floecat.catalogs SET commit_version = commit_version")
        rival.execute("ROLLBACK")
    thread.join(60)
    assert [answer.status for answer in answers] == [204], answers
    assert all("mark" in sender.metadata(table_path(each))["properties"] for each in ("t", "u"))
    time.sleep(1)  # statistics are sent once a second
    after = postgres_server.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'")
    assert after != before, "there was no deadlock"
    check_consistency(url)
    server.stop()
    postgres_server.drop_database(name)


def wait_for_lock(server: PostgresServer, database: str) -> None:
    """Waits until a session of the database waits for a lock."""
    deadline = time.monotonic() + 60
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
    while not server.execute(waiting):
        assert time.monotonic() < deadline, "nobody waits for a lock"
        time.sleep(0.02)


def test_a_lock_that_is_never_given_back_is_503(deployment: Deployment) -> None:
    server = deployment.start(FLOECAT_STORE_TIMEOUT_MS="2000")
    sender = Sender(server.base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    assert sender.send("POST", "/namespaces/ns/tables", creating("t")).status == 200
    with holding_the_store(deployment.store_url):
        began = time.monotonic()
        for method, path, body in (
            ("POST", table_path("t"), setting({"a": "1"})),
            ("POST", "/namespaces/ns/tables", creating("u")),
            ("DELETE", table_path("t"), None),
        ):
            answer = sender.send(method, path, body)
            assert answer.status == 503, (method, path, answer)
        assert time.monotonic() - began < 55
        assert sender.send("GET", table_path("t")).status == 200
    assert sender.send("POST", table_path("t"), setting({"b": "1"})).status == 200
    assert "a" not in sender.metadata(table_path("t"))["properties"]
    check_consistency(deployment.store_url)


@contextmanager
def holding_the_store(store_url: str) -> Iterator[None]:
    """Keeps every change waiting, as a session does that somebody has left open."""
    engine = sa.create_engine(store_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql("SELECT id FROM floecat.entries FOR UPDATE")
            connection.exec_driver_sql("SELECT id FROM floecat.catalogs FOR UPDATE")
        yield
        connection.exec_driver_sql("ROLLBACK")
