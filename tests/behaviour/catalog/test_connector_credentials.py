"""Credentials of connectors: encrypted where they are kept, shown nowhere, changed as a whole."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec
import pytest

from floecat.connectors.connector_info import ConnectorPolicy, ConnectorUpdate, NewConnector
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, LocationNotAllowedError, NotFoundError
from floecat.runtime import Kernel, open_kernel
from floecat.settings import ConnectorSettings, SecretSettings
from floecat.store.catalogs import connectors
from tests.services.rest_catalog import scripted_catalog

SECRET = "zebra-hunter2"
BEARER = {"scheme": "bearer", "token": SECRET}
URL = "http://127.0.0.1:1"
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3)]
CONNECTORS = ConnectorSettings(allowed_hosts=("127.0.0.1",))


def wanted(name: str = "theirs", **fields: Any) -> NewConnector:
    given: dict[str, Any] = {
        "kind": "iceberg-rest",
        "location": URL,
        "credentials": BEARER,
        **fields,
    }
    return NewConnector(name, **given)


@pytest.fixture
def run(kernel: Kernel, call: Call) -> Callable[..., Any]:
    """Does something with a kernel that has certain keys, and may connect to this machine."""

    def within(work: Callable[[Kernel, Call], Any], keys: list[str] = KEYS[:1]) -> Any:
        secrets = SecretSettings(keys=tuple(keys))
        changed = msgspec.structs.replace(kernel.settings, secrets=secrets, connectors=CONNECTORS)
        with closing(open_kernel(changed)) as opened:
            account = kernel.settings.gateway.default_account_id
            assert account is not None
            return work(opened, opened.catalog.calls.open(call.principal, "floecat"))

    return within


def create(kernel: Kernel, call: Call, **fields: Any) -> Any:
    return kernel.connectors.connectors.create(call, wanted(**fields))


def test_they_are_encrypted_and_shown_masked(run: Callable[..., Any]) -> None:
    def work(kernel: Kernel, call: Call) -> None:
        made = create(kernel, call)
        assert made.credentials == {"scheme": "bearer", "token": "***"}
        assert kernel.connectors.connectors.load(call, "theirs") == made
        with kernel.store.read() as conn:
            row = connectors.find(conn, call.catalog.id, "theirs")
        assert row is not None
        assert SECRET not in repr(row)
        assert SECRET not in repr((made, wanted(), ConnectorUpdate(credentials=BEARER)))
        assert kernel.connectors.connectors.open(call, row)

    run(work)


def test_what_is_changed_and_what_stays(run: Callable[..., Any]) -> None:
    def work(kernel: Kernel, call: Call) -> None:
        service = kernel.connectors.connectors
        made = create(kernel, call, options={"warehouse": "a"}, interval_ms=3_600_000)
        assert service.update(call, "theirs", ConnectorUpdate()) == made
        changed = service.update(
            call, "theirs", ConnectorUpdate({"warehouse": "b"}, {"scheme": "none"}, False, 60_000)
        )
        assert (changed.options, changed.credentials) == ({"warehouse": "b"}, {"scheme": "none"})
        assert (changed.enabled, changed.interval_ms) == (False, 60_000)
        assert service.update(call, "theirs", ConnectorUpdate(credentials={})).credentials == {}
        assert service.load(call, "theirs").options == {"warehouse": "b"}
        for update in (
            ConnectorUpdate({"unknown": "x"}),
            ConnectorUpdate(credentials={"scheme": "basic"}),
            ConnectorUpdate(interval_ms=9_999),
            ConnectorUpdate(policy={"mode": "everything"}),
            ConnectorUpdate(policy={"snapshots": "latest-0"}),
            ConnectorUpdate(policy={"max-parallel": 0}),
            ConnectorUpdate(policy={"other": 1}),
            ConnectorUpdate(policy={"namespaces": ["!"]}),
            ConnectorUpdate(policy={"tables": ["a"] * 101}),
        ):
            with pytest.raises(BadRequestError):
                service.update(call, "theirs", update)
        with pytest.raises(NotFoundError, match="Connector does not exist: none"):
            service.update(call, "none", ConnectorUpdate())

    run(work)


def test_policies_are_changed_by_their_values(run: Callable[..., Any]) -> None:
    def work(kernel: Kernel, call: Call) -> None:
        service = kernel.connectors.connectors
        made = create(kernel, call, policy={"mode": "metadata-only", "max-parallel": 8})
        assert made.policy == ConnectorPolicy(mode="metadata-only", max_parallel=8)
        later = made.next_scan_at_ms + 3_600_000
        changed = service.update(
            call,
            "theirs",
            ConnectorUpdate(policy={"mode": None, "snapshots": "latest-3", "not-before-ms": later}),
        )
        assert changed.policy == ConnectorPolicy(snapshots="latest-3", max_parallel=8, not_before_ms=later)
        assert changed.next_scan_at_ms == later
        assert service.load(call, "theirs").policy == changed.policy

    run(work)


def test_they_are_encrypted_anew(run: Callable[..., Any]) -> None:
    def anew(kernel: Kernel, _call: Call) -> Any:
        return kernel.connectors.connectors.encrypt_anew()

    def shown(kernel: Kernel, call: Call) -> Any:
        return kernel.connectors.connectors.load(call, "theirs").credentials

    run(create)
    run(lambda kernel, call: create(kernel, call, name="open", credentials={}))
    assert run(anew, [KEYS[1], KEYS[0]]) == (1, [])
    assert run(anew, [KEYS[1], KEYS[0]]) == (0, [])
    assert run(shown, KEYS[1:2]) == {"scheme": "bearer", "token": "***"}
    assert run(shown, KEYS[2:3]) == {"scheme": "***"}
    count, (lost,) = run(anew, KEYS[2:3])
    assert count == 0
    assert lost.startswith("Connector theirs: its secret was encrypted with a key that is not in")

    def tried(kernel: Kernel, call: Call) -> Any:
        return kernel.connectors.trial.run(call, "theirs")

    ((what, problem),) = run(tried, KEYS[2:3])
    assert what == "can be opened"
    assert problem == lost.removeprefix("Connector theirs: ")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"location": "http://elsewhere.example"}, LocationNotAllowedError),
        ({"location": "s3://lake"}, BadRequestError),
        ({"credentials": {"scheme": "cli", "command": "rm -rf /"}}, BadRequestError),
        ({"credentials": {"scheme": "bearer", "token": "***"}}, BadRequestError),
    ],
)
def test_what_is_refused(run: Callable[..., Any], fields: dict[str, Any], error: type[Exception]) -> None:
    def work(kernel: Kernel, call: Call) -> None:
        with pytest.raises(error):
            create(kernel, call, **fields)
        assert kernel.connectors.connectors.list(call) == []

    run(work)


def test_a_trial_ends_with_the_step_that_goes_wrong(run: Callable[..., Any], kernel: Kernel) -> None:
    def work(kernel: Kernel, call: Call) -> list[Any]:
        with scripted_catalog() as upstream:
            create(kernel, call, location=upstream.url)

            def steps() -> list[tuple[str, str | None]]:
                found = [tuple(step) for step in kernel.connectors.trial.run(call, "theirs")]
                return [(what, problem and problem.replace(upstream.url, "")) for what, problem in found]

            told = [steps()]
            upstream.namespaces = {("a",): ["t"]}
            told.append(steps())
            upstream.answers["/v1/p/namespaces/a/tables"] = (500, b"")
            told.append(steps())
            upstream.token = "another"
            told.append(steps())
            return told

    empty, outside, broken, refused = run(work)
    answers = ("answers, and takes the credentials", None)
    assert empty == [answers, ("lists, and finds no table", None)]
    assert outside[:3] == [answers, ("lists tables, as a.t", None), ("loads a.t", None)]
    assert outside[3][0] == "its metadata lies where this catalog may read"
    assert "allowed locations" in outside[3][1]
    assert broken[0] == answers
    assert broken[1][0] == "lists tables"
    assert "status 500" in broken[1][1]
    ((_, problem),) = refused
    assert "refuses the credentials of the connector" in problem
