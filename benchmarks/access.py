"""Loads and listings with grants, beside those of a service that allows all; decisions of a large account."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import UUID

import httpx
import uuid_utils.compat as uuids
from joserfc import jwt
from joserfc.jwk import RSAKey

from benchmarks.figures import figure, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat
from benchmarks.wrk import run_wrk
from floecat.access.rights import group
from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.runtime import Kernel, kernel, prepare_store
from floecat.settings import load_settings
from floecat.store.access import grants, roles
from floecat.store.access.grants import GrantRow
from floecat.store.access.roles import RoleRow
from floecat.store.catalogs import namespaces
from floecat.store.database.engine import Connection

_CONNECTIONS = (1, 16)
_TURNS = 5
_LISTED = 1_000
_TREES, _LEVELS, _ROLES, _GRANTS = 1_000, 10, 1_000, 100_000


class _Service(NamedTuple):
    service: Floecat
    headers: dict[str, str]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    key = RSAKey.generate_key(2048)
    with TemporaryDirectory(prefix="floecat-bench-") as made, ExitStack() as stack:
        allow, granted = (_started(stack, Path(made), key, kind) for kind in ("allow-all", "grants"))
        for connections in _CONNECTIONS:
            _loads(granted, allow, connections)
        _listings(granted, allow)
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        _decisions(Path(made))


def _started(stack: ExitStack, folder: Path, key: RSAKey, authorizer: str) -> _Service:
    """A service with a small table, and a namespace of which ada sees half, unless all is allowed."""
    settings = load_settings(environ={})
    account = settings.gateway.default_account_id
    environ = {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_OIDC_PUBLIC_KEY": key.as_pem(private=False).decode(),
        "FLOECAT_AUTH_AUTHORIZER": authorizer,
    }
    service = stack.enter_context(floecat(folder, environ, name=authorizer))
    claims = {"sub": "ada", "account_id": str(account), "exp": int(time.time()) + 36_000}
    headers = {"Authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, key)}"}
    opened = stack.enter_context(
        kernel(load_settings(environ={"FLOECAT_DATA_DIR": str(service.warehouse.parent)}))
    )
    access, catalog = opened.access.access, Securable("catalog", "floecat")
    operator = Actor(Principal("benchmark", account), AllowAll())

    def grant(*privileges: Privilege, on: Securable = catalog) -> None:
        access.grant(operator, privileges, on, "principal:ada")

    grant(Privilege.USE_CATALOG, Privilege.CREATE_SCHEMA, Privilege.USE_SCHEMA)
    with httpx.Client(base_url=service.api, headers=headers, timeout=60) as client:
        for name in ("bench", "listed"):
            client.post("namespaces", json={"namespace": [name]}).raise_for_status()
            access.set_owner(operator, Securable("namespace", "floecat", (name,)), "principal:other")
        grant(Privilege.CREATE_TABLE)
        client.post("namespaces/bench/tables", json={"name": "t", "schema": SCHEMA}).raise_for_status()
        for number in range(_LISTED):
            table = Securable("table", "floecat", ("listed",), f"t{number:04}")
            body = {"name": table.name, "schema": SCHEMA}
            client.post("namespaces/listed/tables", json=body).raise_for_status()
            access.set_owner(operator, table, "principal:other")
            if number % 2:
                grant(Privilege.READ_TABLE, on=table)
        grant(Privilege.READ_TABLE, on=Securable("namespace", "floecat", ("bench",)))
    return _Service(service, headers)


def _loads(granted: _Service, allow: _Service, connections: int) -> None:
    found: dict[str, list[float]] = {"grants": [], "all": []}
    for _ in range(_TURNS):
        for name, (service, headers) in {"grants": granted, "all": allow}.items():
            url = f"{service.api}/namespaces/bench/tables/t"
            found[name].append(run_wrk(url, connections, 2, headers).p50_ms)
    figure(
        f"access.load.c{connections}.p50",
        median(found["grants"]),
        "ms",
        baseline=median(found["all"]),
        target=1.15,
    )


def _listings(granted: _Service, allow: _Service) -> None:
    found: dict[str, list[float]] = {"grants": [], "all": []}
    for _ in range(_TURNS):
        for name, (service, headers) in {"grants": granted, "all": allow}.items():
            url = f"{service.api}/namespaces/listed/tables"
            wanted = _LISTED // 2 if name == "grants" else _LISTED
            assert len(httpx.get(url, headers=headers).json()["identifiers"]) == wanted
            found[name].append(run_wrk(url, 1, 2, headers).p50_ms)
    figure(
        f"access.list.{_LISTED}-tables-half-visible.p50",
        median(found["grants"]),
        "ms",
        baseline=median(found["all"]),
        target=1.3,
    )


def _decisions(folder: Path) -> None:
    """Decisions of a large account: by name, on namespaces of ten levels."""
    settings = load_settings(
        environ={
            "FLOECAT_DATA_DIR": str(folder),
            "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
            "FLOECAT_OIDC_PUBLIC_KEY": "-",
            "FLOECAT_AUTH_AUTHORIZER": "grants",
        }
    )
    prepare_store(settings)
    with kernel(settings) as opened:
        trees = _fill(opened)
        account = settings.gateway.default_account_id
        bob = Principal("bob", account, groups=("g7",))
        checks = [(Privilege.READ_TABLE, Securable("namespace", "floecat", levels)) for levels in trees]
        decide = opened.access.authorizer.allowed
        decide(bob, checks[:1])
        begin = time.perf_counter()
        with opened.store.count_statements() as counter:
            for check in checks:
                decide(bob, [check])
        taken_s = time.perf_counter() - begin
        note = f"{_TREES * _LEVELS:,} namespaces, {_ROLES:,} roles, {_GRANTS:,} grants; each reads its path"
        figure("access.decisions", len(checks) / taken_s, "1/s", better="higher", note=note)
        figure("access.decision.statements", counter.statements / len(checks), "statements", target=2)


def _fill(opened: Kernel) -> list[tuple[str, ...]]:
    progress("filling the store")
    account = opened.settings.gateway.default_account_id
    call = opened.catalog.calls.open_as_operator("benchmark", account, "floecat")
    trees = [tuple(f"n{number}-{level}" for level in range(_LEVELS)) for number in range(_TREES)]
    for levels in trees:
        opened.catalog.namespaces.create(call, levels, {})

    def insert(conn: Connection) -> None:
        ids = [row.id for row in _all_namespaces(conn, call.catalog.id, trees)]
        ids_of_roles = [uuids.uuid7() for _ in range(_ROLES)]
        for number, role in enumerate(ids_of_roles):
            roles.insert(conn, RoleRow(role, account, f"r{number}", 0, None))
            roles.add_member(conn, role, group(f"g{number % 100}"))
        for number in range(_GRANTS):
            role, place = str(ids_of_roles[number % _ROLES]), ids[number * 7 % len(ids)]
            grants.insert(conn, GrantRow(account, role, place, Privilege.READ_TABLE, "namespace", "op", 0))
        grants.record(conn, account, "benchmark", "fill", 0)

    opened.store.run(insert)
    return trees


def _all_namespaces(
    conn: Connection, catalog_id: UUID, trees: list[tuple[str, ...]]
) -> Iterator[namespaces.NamespaceRow]:
    for levels in trees:
        for depth in range(1, len(levels) + 1):
            row = namespaces.get(conn, catalog_id, levels[:depth])
            assert row is not None
            yield row


if __name__ == "__main__":
    main()
