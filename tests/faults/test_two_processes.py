"""Several processes on one store: nothing is lost, nothing is stale, nobody is refused for nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.faults.answers import Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.history import Workload
from tests.faults.requests import appending, creating, setting, table_path, unique_key
from tests.services.catalog import started_catalogs
from tests.services.postgres import PostgresServer

WRITERS = 8
COMMITS = 6


class Processes(NamedTuple):
    """Two processes on one store."""

    store_url: str
    urls: list[str]
    """Two. Of two services each has its own; the workers of one service share its port."""


@pytest.fixture(
    scope="module",
    params=itertools.product(["sqlite", "postgresql"], ["two services", "two workers"]),
    ids="-".join,
)
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    """The processes of each kind, for the tests that take tables of their own."""
    database, kind = request.param
    folder, url = tmp_path_factory.mktemp("processes"), None
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.url(server.create_database())
    with started_catalogs(folder) as start:
        deployment = Deployment(folder / "data", start, postgres_url=url)
        if kind == "two services":
            urls = [deployment.start().base_url for _ in range(2)]
        else:
            # connections go to either worker; each client opens many
            urls = [deployment.start(FLOECAT_GATEWAY_WORKERS="2").base_url] * 2
        yield Processes(deployment.store_url, urls)


@pytest.fixture
def senders(processes: Processes) -> list[Sender]:
    """A client of each process."""
    made = [Sender(url) for url in processes.urls]
    assert made[0].send("POST", "/namespaces", {"namespace": ["ns"]}).status in (200, 409)
    return made


def at_once(work: Callable[[int], None], count: int = WRITERS) -> None:
    """Runs writers together, and raises what one of them raised."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"
    if failures:
        raise failures[0]


def test_commits_whose_requirements_hold_all_succeed(processes: Processes, senders: list[Sender]) -> None:
    made = senders[0].send("POST", "/namespaces/ns/tables", creating("t"))
    same_table = [{"type": "assert-table-uuid", "uuid": made.body["metadata"]["table-uuid"]}]

    def write(number: int) -> None:
        for each in range(COMMITS):
            body = setting({f"k{number}-{each}": "1"}, same_table)
            answer = senders[(number + each) % 2].send("POST", table_path("t"), body)
            assert answer.status == 200, answer

    at_once(write)
    wanted = {f"k{number}-{each}" for number in range(WRITERS) for each in range(COMMITS)}
    for sender in senders:
        metadata = sender.metadata(table_path("t"))
        assert wanted <= metadata["properties"].keys()
        assert len(metadata["metadata-log"]) == len(wanted)
    check_consistency(processes.store_url)


def test_nobody_reads_what_another_process_has_replaced(senders: list[Sender]) -> None:
    def write(number: int) -> None:
        name = f"t{number}"
        assert senders[0].send("POST", "/namespaces/ns/tables", creating(name)).status == 200
        for each in range(COMMITS):
            writer, reader = senders[each % 2], senders[(each + 1) % 2]
            body = appending(each + 1, reader.metadata(table_path(name)))
            written = writer.send("POST", table_path(name), body)
            assert written.status == 200, written
            assert reader.metadata(table_path(name)) == written.body["metadata"]
        assert reader.send("DELETE", table_path(name)).status == 204
        assert writer.send("HEAD", table_path(name)).status == 404
        again = writer.send("POST", "/namespaces/ns/tables", creating(name))
        assert again.status == 200, again
        assert reader.metadata(table_path(name)) == again.body["metadata"]

    at_once(write)


def test_one_key_has_one_effect_over_all_processes(processes: Processes, senders: list[Sender]) -> None:
    assert senders[0].send("POST", "/namespaces/ns/tables", creating("keyed")).status == 200
    for round_ in range(1, 4):
        key, body = unique_key(), appending(round_, senders[0].metadata(table_path("keyed")))
        answers = []
        at_once(
            lambda number, key=key, body=body, answers=answers: answers.append(  # type: ignore[misc]
                senders[number % 2].send("POST", table_path("keyed"), body, key=key)
            )
        )
        assert [answer.status for answer in answers] == [200] * WRITERS, answers
        assert all(answer == answers[0] for answer in answers)
    snapshots = senders[1].metadata(table_path("keyed"))["snapshots"]
    assert [each["snapshot-id"] for each in snapshots] == [1, 2, 3]
    check_consistency(processes.store_url)


def test_kills_of_one_process_leave_the_other_in_peace(deployment: Deployment) -> None:
    servers = [deployment.start() for _ in range(2)]
    with Workload([server.base_url for server in servers]) as workload:
        for _ in range(2):
            workload.wait_for(15)
            servers[1].kill()
            workload.wait_for(15)
            check_consistency(deployment.store_url)
            servers[1].start()
        workload.wait_for(15)
    workload.check()
    check_consistency(deployment.store_url)
