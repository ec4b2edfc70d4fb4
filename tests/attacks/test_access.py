"""Roles within each other, with many members and grants, asked about by many at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle

from floecat.access.changes import ACCOUNT
from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege
from floecat.auth.principals import Principal
from floecat.catalog.declared_access import DeclaredAccess, DeclaredRole, GrantKey
from floecat.runtime import kernel
from floecat.settings import load_settings
from tests.attacks.attacked_service import AttackedService

API = "/management/v1"
ROLES = 1_000
MEMBERS = 20
GRANTS = 200
MOST_BYTES = 20 << 20


def fill(service: AttackedService) -> None:
    """A chain of roles, each with members whose names are long, and each with everything on the account."""
    roles = {
        f"r{number:03}": DeclaredRole(
            frozenset(f"group:{number}-{place}-{'x' * 400}" for place in range(MEMBERS))
            | ({f"role:r{number + 1:03}"} if number + 1 < ROLES else {"principal:ada"})
        )
        for number in range(ROLES)
    }
    grants: dict[GrantKey, frozenset[str]] = {
        (f"role:r{number:03}", ACCOUNT): frozenset(Privilege) for number in range(GRANTS)
    }
    settings = load_settings(environ={"FLOECAT_DATA_DIR": str(service.server.data_dir)})
    with kernel(settings) as opened:
        operator = Actor(Principal("op", settings.gateway.default_account_id), AllowAll())
        assert opened.catalog.access.apply(operator, DeclaredAccess(roles=roles, grants=grants))


def test_access_of_an_account_that_is_full(start_attacked: Callable[..., AttackedService]) -> None:
    service = start_attacked(FLOECAT_LIMITS_ROLE_MEMBERS=str(ROLES * (MEMBERS + 1)))
    fill(service)
    last = f"r{ROLES - 1:03}"

    def body(**members: object) -> bytes:
        return json.dumps(members).encode()

    refused = [
        ("POST", f"roles/{last}/members", body(add=["role:r000"]), 409),  # a circle of all roles
        ("POST", f"roles/{last}/members", body(add=["group:more"]), 409),
        ("POST", f"roles/{last}/members", body(add=[f"group:{number}" for number in range(5_000)]), 400),
        ("POST", "roles", body(name="x" * (1 << 20)), 400),
        ("GET", "access/who?on=namespace:floecat" + ".a" * 20_000, None, 400),
        ("GET", "access/who?on=table:" + '"' * 30_000, None, 400),
        ("GET", "access/grants?grantee=role:" + "x" * 30_000, None, 400),
    ]
    asked = [
        ("GET", path, None, 200)
        for path in (
            "roles",
            f"roles/{last}",
            "roles/r000/members",
            "principals/ada",
            "access/who",
            "access/who?privilege=read_table",
            "access/grants",
            "access/grants?grantee=role:r000",
            "access/explain/read_table?on=table:floecat.used0.t&principal=ada",
            "access/explain/read_table?principal=eve" + "&group=x" * 2_000,
            "access/me?on=namespace:floecat.used0",
            "access/history",
        )
    ]
    requests = cycle([*refused, *asked])

    def send() -> None:
        method, path, sent, status = next(requests)
        answer = service.send(method, f"{API}/{path}", sent)
        assert answer.status in (status, 503), (path[:60], answer.status, answer.body[:300])
        assert len(answer.body) < MOST_BYTES, (path[:60], len(answer.body))

    for _ in range(len(refused) + len(asked)):
        send()
    service.attack(send, at_once=40)
