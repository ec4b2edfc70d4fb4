"""An account sees nothing of another one, whatever it asks for and by whatever id or name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from litestar.testing import TestClient
from typer.main import get_command

from floecat.settings import Settings
from floecat_rest.cli import app, main
from tests.behaviour.access.conftest import token
from tests.behaviour.access.requests import SCHEMA, operations, sent
from tests.delta_tables import writable_copy
from tests.view_documents import view_version

OTHER = UUID("5eb0c1a7-0000-4000-8000-00000000000b")
SECRET = "zebra"
"""Part of names and texts of the account that the other one never says."""
ADMIN, ROLE = "known-admin", "known-role"


@pytest.fixture
def owner(settings: Settings) -> dict[str, str]:
    """The headers of an operator of the account that has everything."""
    return token(settings, ADMIN, "platform")


@pytest.fixture
def ids(settings: Settings, client: TestClient, owner: dict[str, str]) -> dict[str, str]:
    """Names and ids of one thing of each kind, all of the default account."""
    spaces, managed = "/v1/floecat/namespaces", "/management/v1/catalogs/floecat"

    def post(path: str, body: object) -> dict[str, object]:
        answer = client.post(path, json=body, headers=owner)
        assert answer.status_code < 300, answer.text
        return dict(answer.json()) if answer.content else {}

    warehouse = Path(settings.data_dir) / "warehouse"
    for levels in (["inner"], [SECRET]):
        post(spaces, {"namespace": levels, "properties": {SECRET: SECRET}})
    for name in ("orders", SECRET, "dropped"):
        post(f"{spaces}/inner/tables", {"name": name, "schema": SCHEMA, "properties": {SECRET: SECRET}})
    view = {"schema": SCHEMA, "view-version": view_version(), "properties": {SECRET: SECRET}}
    post(f"{spaces}/inner/views", {"name": "report", **view})
    delta = writable_copy("delta/basic-dv-no-checkpoint", warehouse / SECRET)
    registered = {"name": "events", "format": "delta", "location": f"file://{delta}"}
    post(f"{managed}/namespaces/inner/tables", registered)
    connector = {"name": "lake", "kind": "delta", "location": f"file://{warehouse}/{SECRET}-lake"}
    post(f"{managed}/connectors", connector)
    method = {"kind": "s3", "access-key-id": f"AKIA{SECRET}"}
    authority = {"name": "known-authority", "prefix": f"s3://{SECRET}", "method": method}
    post("/management/v1/authorities", {**authority, "secrets": {"secret-access-key": SECRET}})
    post("/management/v1/roles", {"name": ROLE})
    post(f"/management/v1/roles/{ROLE}/members", {"add": [f"group:{SECRET}"]})
    privileges = {
        "on": "table:floecat.inner.orders",
        "grantee": f"role:{ROLE}",
        "privileges": ["read_table"],
    }
    post("/management/v1/access/grants", privileges)
    plan = post(f"{spaces}/inner/tables/events/plan", {})
    captures = post(f"{managed}/namespaces/inner/tables/events/captures", {})["captures"]
    dropped = client.delete(f"{spaces}/inner/tables/dropped?purgeRequested=true", headers=owner)
    assert dropped.status_code == 204
    purges = client.get(f"{managed}/purges", headers=owner).json()["purges"]
    return {
        "namespace": "inner",
        "table": "events",
        "view": "report",
        "plan-id": str(plan["plan-id"]),
        "capture": captures[0]["id"],  # type: ignore[index]
        "job": captures[0]["id"],  # type: ignore[index]
        "purge": purges[0]["id"],
        "connector": "lake",
        "authority": "known-authority",
        "account": str(settings.gateway.default_account_id),
        "principal": ADMIN,
        "role": ROLE,
    }


def _state(client: TestClient, owner: dict[str, str], ids: dict[str, str]) -> dict[str, object]:
    """What the reading operations answer the owner."""
    found = {}
    for operation, (method, _) in operations().items():
        if method == "GET":
            _, url, _ = sent(operation, ids)
            found[operation] = client.get(url, headers=owner).text
    return found


@pytest.mark.parametrize("catalog", ["floecat", "theirs"])
def test_an_operator_of_another_account_sees_and_changes_nothing(
    settings: Settings, client: TestClient, owner: dict[str, str], ids: dict[str, str], catalog: str
) -> None:
    foreign = token(settings, "mallory", "platform", account=OTHER)
    body = {"name": "theirs", "storage-location": f"file://{settings.data_dir}/theirs"}
    assert client.post("/management/v1/catalogs", json=body, headers=foreign).status_code == 201
    before = _state(client, owner, ids)
    account = ids["account"]
    for operation, (_, path) in operations().items():
        method, url, sent_body = sent(operation, {**ids, "prefix": catalog, "catalog": catalog})
        url = url.replace("floecat.", f"{catalog}.").replace("warehouse=floecat", f"warehouse={catalog}")
        answer = client.request(method, url, json=sent_body, headers=foreign)
        text = answer.text
        assert SECRET not in text, (operation, text)
        # what the request itself said is no news
        assert account in url or account not in text, (operation, text)
        names = {name for name in ids if f"{{{name}:" in path}
        if names & {"plan-id", "capture", "job", "purge", "connector", "account", "role", "authority"}:
            assert answer.status_code in (403, 404), (operation, answer.status_code, text)
        if catalog == "floecat" and ("{prefix:" in path or "{catalog:" in path):
            assert answer.status_code in (403, 404), (operation, answer.status_code, text)
    assert _state(client, owner, ids) == before


def test_each_operation_answers_a_foreign_metalake_as_one_that_does_not_exist(
    settings: Settings, client: TestClient, owner: dict[str, str], ids: dict[str, str]
) -> None:
    foreign = token(settings, "mallory", "platform", account=OTHER)
    before = _state(client, owner, ids)
    name = client.get("/api/metalakes", headers=owner).json()["metalakes"][0]["name"]
    metalakes = (ids["account"], name, "missing", str(UUID(int=7)))
    asked = 0
    for operation, (_, path) in operations().items():
        if "{metalake:" not in path:
            continue
        answers = []
        for metalake in metalakes:
            method, url, body = sent(operation, {**ids, "metalake": metalake, "object": "floecat.inner"})
            answer = client.request(method, url, json=body, headers=foreign)
            answers.append((answer.status_code, answer.text.replace(metalake, "NAME")))
        assert answers[0][0] == 403, operation
        assert answers == [answers[0]] * len(answers), operation
        asked += 1
    assert asked > 20
    assert _state(client, owner, ids) == before


def test_in_its_own_metalake_an_account_finds_nothing_of_another(
    settings: Settings, client: TestClient, owner: dict[str, str], ids: dict[str, str]
) -> None:
    foreign = token(settings, "mallory", "platform", account=OTHER)
    body = {"name": "theirs", "storage-location": f"file://{settings.data_dir}/theirs"}
    assert client.post("/management/v1/catalogs", json=body, headers=foreign).status_code == 201
    before = _state(client, owner, ids)
    for operation, (_, path) in operations().items():
        if "{metalake:" not in path or operation in ("createGrantedRole", "addUser"):
            continue
        answers = []
        for there in (True, False):
            names = {"catalog": "floecat", "object": "floecat.inner", "role": ROLE, "user": ADMIN}
            if not there:
                names = {key: value.replace("floecat", "missing") for key, value in names.items()}
                names |= {"role": "no-role", "user": "no-user"}
            method, url, sent_body = sent(operation, {**ids, "metalake": str(OTHER), **names})
            if operation == "changePrivileges":
                client.post("/management/v1/roles", json={"name": names["role"]}, headers=foreign)
            answer = client.request(method, url, json=sent_body, headers=foreign)
            told = answer.text
            for key, value in names.items():
                told = told.replace(value, key)
            answers.append((answer.status_code, told))
        assert answers[0] == answers[1], operation
        if operation == "changePrivileges":
            assert answers[0][0] == 404
    assert _state(client, owner, ids) == before


def test_a_service_operator_sees_accounts_and_nothing_in_them(
    settings: Settings, client: TestClient, owner: dict[str, str], ids: dict[str, str]
) -> None:
    service = token(settings, "sue", "service", account=OTHER)
    account = ids["account"]
    shown = client.get(f"/management/v1/accounts/{account}", headers=service).raise_for_status()
    assert SECRET not in shown.text
    refused = client.delete(f"/management/v1/accounts/{account}", headers=service)
    assert refused.status_code == 409
    assert SECRET not in refused.text
    assert SECRET not in client.get("/management/v1/accounts", headers=service).raise_for_status().text


_OF_ALL_ACCOUNTS = {
    *("version", "up", "serve", "dagster", "demo", "db upgrade", "db encrypt-secrets", "docs settings"),
    *(f"account {each}" for each in ("create", "list", "show", "disable", "enable", "delete")),
}
"""Commands that are about no account, or about accounts themselves: for who holds the store."""


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    with group.make_context("floecat", [], resilient_parsing=True) as context:
        for name in group.list_commands(context):
            _, command, _ = group.resolve_command(context, [name])
            if hasattr(command, "list_commands"):
                yield from _commands(command, (*path, name))
            else:
                yield " ".join((*path, name)), command


_NAMES = {
    "catalog": "floecat",
    "view": "inner.report",
    "connector": "lake",
    "authority": "known-authority",
}


def _values(command: str, ids: Mapping[str, str], place: str, file: str) -> Mapping[str, str]:
    """Values of arguments by name: names and ids of what the other account has."""
    group, _, action = command.partition(" ")
    name = _NAMES.get(group, "inner.events")
    return {
        "name": "new" if action == "register-delta" else name,
        "location": place,
        "connector": "lake",
        "prefix": "s3://lake",
        "id": ids[group if group in ids else "job"],
        "ids": ids[group if group in ids else "job"],
        "principal": ADMIN,
        "role": ROLE,
        "member": "group:g",
        "privilege": "read_table",
        "privileges": "read_table",
        "on": "table:inner.orders",
        "tables": "inner.events",
        # what it names is not in this account
        "file": file,
        "to": f"role:{ROLE}",
        "of": f"role:{ROLE}",
    }


def test_commands_on_another_account_see_and_change_nothing(
    settings: Settings,
    client: TestClient,
    owner: dict[str, str],
    ids: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = f"file://{settings.data_dir}/theirs"
    body = {"name": "floecat", "storage-location": place}
    foreign = token(settings, "mallory", "platform", account=OTHER)
    for path, sent_body in (
        ("/management/v1/catalogs", body),
        ("/v1/floecat/namespaces", {"namespace": ["own"]}),
    ):
        client.post(path, json=sent_body, headers=foreign).raise_for_status()
    before = _state(client, owner, ids)
    file = Path(settings.data_dir) / "access.yaml"
    file.write_text(f"catalogs: {{floecat: {{owner: 'principal:{ADMIN}'}}}}\n")
    monkeypatch.setenv("FLOECAT_DATA_DIR", settings.data_dir)
    monkeypatch.setenv("FLOECAT_STORE_URL", str(settings.store.url))
    monkeypatch.setenv("NO_COLOR", "1")
    walked = set()
    for name, command in _commands(get_command(app)):
        if name in _OF_ALL_ACCOUNTS:
            continue
        parameters = {each.name: each for each in command.params}
        assert "account" in parameters, f"{name} is of no account"
        values = _values(name, ids, place, str(file))
        arguments = [
            values[each.name]
            for each in command.params
            if each.param_type_name == "argument" and (each.required or each.name in ("id", "ids"))
        ]
        if "yes" in parameters:
            arguments.append("--yes")
        output = StringIO()
        monkeypatch.setattr(sys, "argv", ["floecat", *name.split(), *arguments, "--account", str(OTHER)])
        with redirect_stdout(output), redirect_stderr(output), suppress(SystemExit):
            main()
        walked.add(name)
        said = output.getvalue()
        assert SECRET not in said, (name, said)
        assert "Traceback" not in said, (name, said)
    assert len(walked) > 40
    assert _state(client, owner, ids) == before
