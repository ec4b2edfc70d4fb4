"""Nobody gives what he does not have; and what people send when they try."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import msgspec
import pytest

from floecat.access.built_in_roles import BUILT_IN_ROLES
from floecat.access.changes import ACCOUNT
from floecat.access.rights import with_implied
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, ConflictError, ForbiddenError, NotFoundError
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.plans import PlanClient, PlanTableScan
from floecat.runtime import Kernel
from tests.behaviour.catalog.test_access import CATALOG, Lake, T, lake, ns, on, secure

__all__ = ["lake", "secure"]

P = Privilege


def refused(work: Callable[[], object], what: str) -> None:
    with pytest.raises(ForbiddenError, match=what):
        work()


def members(lake: Lake, role: str) -> set[str]:
    return set(lake.roles.members(lake.operator, role, None, 100).items)


def test_a_grant_needs_the_right_to_grant_and_what_is_granted(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.MANAGE_GRANTS, P.READ_TABLE, on=ns("raw", "events"))
    ada, access = lake.call("ada"), lake.access
    assert access.grant(ada, [P.READ_TABLE], on(T), "principal:bob") == [P.READ_TABLE]
    assert access.grant(ada, [P.LIST_TABLE], on(T), "group:eng") == [P.LIST_TABLE]  # part of what she has
    refused(
        lambda: access.grant(ada, [P.READ_TABLE, P.WRITE_TABLE], on(T), "principal:bob"),
        "write_table on table",
    )
    beside = TableIdentifier(("raw", "events2"), "t")
    for other in (
        on(beside),
        ns("raw", "events2"),
        ns("raw"),
        CATALOG,
        ACCOUNT,
        on(beside._replace(name="x")),
    ):
        refused(
            lambda other=other: access.grant(ada, [P.READ_TABLE], other, "principal:bob"), "manage_grants"
        )
        refused(
            lambda other=other: access.revoke(ada, [P.READ_TABLE], other, "principal:bob"), "manage_grants"
        )
    refused(lambda: access.grant(lake.call("bob", "ops2"), [P.READ_TABLE], on(T), "group:x"), "use_catalog")
    assert access.revoke(ada, [P.READ_TABLE], on(T), "principal:bob") == [P.READ_TABLE]


def test_who_has_everything_below_gives_it_away_and_no_more(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.access.set_owner(lake.operator, ns("raw", "events"), "principal:ada")
    ada = lake.call("ada")
    lake.access.grant(ada, list(P), ns("raw", "events"), "principal:bob")
    lake.access.set_owner(ada, on(T), "principal:bob")
    refused(lambda: lake.access.set_owner(ada, ns("raw"), "principal:ada"), "manage_owners on namespace raw ")
    lake.grant("principal:eve", P.USE_CATALOG, P.MANAGE_OWNERS)
    eve = lake.call("eve")
    refused(lambda: lake.access.set_owner(eve, on(T), "principal:eve"), "on table")
    with pytest.raises(BadRequestError, match="a principal or a role"):
        lake.access.set_owner(lake.operator, ACCOUNT, "principal:ada")


def test_members_are_changed_by_the_owner_or_by_members_who_manage_roles(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG, P.MANAGE_ROLES)
    refused(lambda: lake.roles.create(lake.call("ada"), "team"), "manage_roles on the account")
    for name in ("ada", "bob"):
        lake.grant(f"principal:{name}", P.USE_CATALOG, P.MANAGE_ROLES, on=ACCOUNT)
    lake.grant("principal:eve", P.USE_CATALOG)
    ada, bob, eve = (lake.call(name) for name in ("ada", "bob", "eve"))
    lake.roles.create(ada, "team")
    assert lake.roles.get(bob, "team").owner == "principal:ada"
    refused(lambda: lake.roles.change_members(bob, "team", add=["principal:bob"]), "neither owns role team")
    refused(lambda: lake.roles.delete(bob, "team"), "neither owns")
    for name in ("team", "none"):  # the same for one that there is not
        refused(lambda name=name: lake.roles.change_members(eve, name, add=["principal:eve"]), "manage_roles")
    lake.roles.change_members(ada, "team", add=["principal:bob", "principal:eve"])
    lake.roles.change_members(bob, "team", add=["group:eng"], remove=["principal:ada"])
    refused(lambda: lake.roles.change_members(eve, "team", add=["principal:x"]), "manage_roles")
    lake.revoke("principal:ada", P.MANAGE_ROLES, on=ACCOUNT)
    lake.roles.change_members(ada, "team", remove=["group:eng"])  # she owns it
    assert members(lake, "team") == {"principal:bob", "principal:eve"}
    lake.roles.delete(ada, "team")


def test_questions_need_the_right_to_see_access_but_about_oneself(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    ada, questions = lake.call("ada", "eng"), lake.questions
    bob = Principal("bob", ada.account_id)
    works: list[Callable[[], object]] = [
        lambda: questions.explain(ada, bob, P.READ_TABLE, on(T)),
        lambda: questions.who(ada, on(T), None, 10),
        lambda: questions.grants_on(ada, on(T), None, 10),
        lambda: questions.owner(ada, on(T)),
        lambda: questions.grants_to(ada, "principal:ada", None, 10),
        lambda: questions.history(ada, None, 10),
        lambda: lake.roles.list(ada),
        lambda: lake.principals.page(ada, None, 10),
        lambda: lake.principals.get(ada, "bob"),
    ]
    for work in works:
        refused(work, "read_access")
    for thing in (on(T), on(T._replace(name="none"))):
        told = questions.explain(ada, ada.principal, P.READ_TABLE, thing)
        assert told.reasons == (f"read_table or write_table is needed on {thing}, or on what it is in",)
    lake.roles.create(lake.operator, "readers")
    lake.roles.change_members(lake.operator, "readers", add=["group:eng"])
    lake.grant("role:readers", P.WRITE_TABLE, on=on(T))
    own = questions.own(ada, on(T))
    assert (own.groups, own.roles) == (("eng",), ("readers",))
    assert set(own.privileges) == {P.USE_CATALOG, P.LIST_TABLE, P.READ_TABLE, P.WRITE_TABLE}
    with pytest.raises(ForbiddenError):  # it is not what her token says
        questions.explain(ada, Principal("ada", ada.account_id, groups=("ops",)), P.READ_TABLE, on(T))
    lake.grant("principal:ada", P.MANAGE_GRANTS, on=on(T))
    for work in works[:4]:
        work()
    lake.grant("principal:ada", P.READ_ACCESS, on=ACCOUNT)
    for work in works[4:-1]:
        work()
    with pytest.raises(NotFoundError, match="There is no principal bob"):
        works[-1]()


def test_pages_end(lake: Lake) -> None:
    for number in range(5):
        lake.roles.create(lake.operator, f"r{number}")
        lake.grant(f"role:r{number}", P.USE_CATALOG, P.READ_TABLE)
        lake.grant("principal:ada", P.READ_TABLE, on=ns("raw", *(["events"] if number else [])))
    lake.grant("principal:ada", *P)
    lake.roles.change_members(lake.operator, "r0", add=["group:b", "role:r1", "principal:x"])
    listings: list[Callable[[str | None], Any]] = [
        lambda token: lake.roles.page(lake.operator, token, 2),
        lambda token: lake.principals.page(lake.operator, token, 1),
        lambda token: lake.roles.members(lake.operator, "r0", token, 2),
        lambda token: lake.questions.grants_on(lake.operator, CATALOG, token, 7),
        lambda token: lake.questions.grants_to(lake.operator, "principal:ada", token, 7),
        lambda token: lake.questions.history(lake.operator, token, 3),
    ]
    for listing in listings:
        whole = [listing(None)]
        while (token := whole[-1].next_token) is not None:
            whole.append(listing(token))
        assert len(whole) > 1
        found = [each for page in whole for each in page.items]
        assert len({repr(each) for each in found}) == len(found)
        for other in listings:
            if other is not listing:
                with pytest.raises(BadRequestError, match="page token"):
                    other(whole[0].next_token)
    assert len(found) == len(lake.questions.history(lake.operator, None, 1000).items)


@pytest.fixture
def without_operators(kernel: Kernel, lake: Lake) -> Iterator[Lake]:
    """Another process, of whose settings no group of tokens has operators."""
    settings = msgspec.structs.replace(
        lake.kernel.settings, auth=msgspec.structs.replace(lake.kernel.settings.auth, operators=None)
    )
    opened = Kernel(settings, kernel.store, kernel.files, kernel.clock)
    yield Lake(opened, Call.of_service("command-line", lake.operator.catalog))
    opened.background.stop()


def test_the_last_who_may_grant_keeps_that(without_operators: Lake) -> None:
    lake = without_operators
    lake.revoke("group:nobody", P.MANAGE_GRANTS, on=ACCOUNT)  # nobody had it before
    lake.roles.create(lake.operator, "admins")
    lake.roles.create(lake.operator, "inner")
    lake.roles.change_members(lake.operator, "admins", add=["role:inner"])
    lake.roles.change_members(lake.operator, "inner", add=["principal:ada"])
    lake.grant("role:admins", *P, on=ACCOUNT)
    ada = lake.call("ada")
    for work in (
        lambda: lake.access.revoke(ada, [P.MANAGE_GRANTS], ACCOUNT, "role:admins"),
        lambda: lake.roles.change_members(ada, "inner", remove=["principal:ada"]),
        lambda: lake.roles.delete(ada, "admins"),
        lambda: lake.roles.delete(ada, "inner"),
        lambda: lake.principals.set_disabled(lake.operator, "ada", disabled=True),
        lambda: lake.principals.delete(lake.operator, "ada"),
    ):
        with pytest.raises(ConflictError, match="Nobody could grant anything any more"):
            work()
    assert lake.questions.history(lake.operator, None, 1).items[0].change.startswith("grant create_catalog")
    lake.roles.change_members(ada, "inner", add=["principal:bob"])
    with pytest.raises(ConflictError, match="ada would disable itself"):
        lake.principals.set_disabled(ada, "ada", disabled=True)
    with pytest.raises(ConflictError, match="ada would delete itself"):
        lake.principals.delete(ada, "ada")
    lake.principals.set_disabled(lake.call("bob"), "ada", disabled=True)
    with pytest.raises(ConflictError, match="Nobody could grant"):
        lake.principals.delete(lake.operator, "bob")


def test_a_deleted_principal_with_a_live_plan_starts_with_nothing(lake: Lake) -> None:
    lake.grant("principal:ada", *P)
    ada = lake.call("ada")
    lake.create(ada, TableIdentifier(("raw", "events"), "hers"))
    plan = lake.kernel.planning.plans.plan(ada, T, PlanTableScan(), PlanClient(60_000))
    lake.principals.delete(lake.operator, "ada")
    refused(lambda: lake.kernel.planning.plans.result(ada, T, plan.plan_id), "read_table")
    refused(lambda: lake.load(ada, TableIdentifier(("raw", "events"), "hers")), "read_table")
    with pytest.raises(NotFoundError):
        lake.principals.get(lake.operator, "ada")
    lake.grant("principal:ada", P.USE_CATALOG)  # another one of this name
    refused(lambda: lake.load(lake.call("ada"), TableIdentifier(("raw", "events"), "hers")), "read_table")


def test_a_hundred_roles_within_each_other(lake: Lake) -> None:
    names = [f"r{number}" for number in range(100)]
    for name in names:
        lake.roles.create(lake.operator, name)
    for outer, inner in itertools.pairwise(names):
        lake.roles.change_members(lake.operator, outer, add=[f"role:{inner}"])
    lake.roles.change_members(lake.operator, names[-1], add=["principal:ada"])
    lake.grant("role:r0", P.USE_CATALOG, P.READ_TABLE)
    lake.load(lake.call("ada"))
    for inner in (names[0], names[50], names[-1]):
        with pytest.raises(ConflictError, match="would be a member of itself"):
            lake.roles.change_members(lake.operator, names[-1], add=[f"role:{inner}"])
    (reason,) = lake.questions.explain(lake.operator, lake.call("ada").principal, P.READ_TABLE, on(T)).reasons
    assert reason.startswith("principal:ada in role:r99 in role:r98 ")
    assert " in role:r91 in 81 more roles in role:r9 in " in reason
    assert len(lake.questions.who(lake.operator, CATALOG, P.READ_TABLE, 1000)) == 101


def test_roles_that_meet_again_are_one_each(lake: Lake) -> None:
    """However many ways there are, here 2 to the power of 40, each role is found once."""
    layers = [[f"l{layer}{side}" for side in "ab"] for layer in range(40)]
    for layer in layers:
        for name in layer:
            lake.roles.create(lake.operator, name)
    for outer, inner in itertools.pairwise(layers):
        for name in outer:
            lake.roles.change_members(lake.operator, name, add=[f"role:{each}" for each in inner])
    lake.roles.change_members(lake.operator, layers[-1][0], add=["principal:ada"])
    lake.grant("role:l0a", P.USE_CATALOG, P.READ_TABLE)
    lake.load(lake.call("ada"))
    assert len(lake.questions.who(lake.operator, CATALOG, P.READ_TABLE, 10_000)) == 80
    with pytest.raises(ConflictError):
        lake.roles.change_members(lake.operator, layers[-1][1], add=["role:l0a"])


@pytest.mark.parametrize("name", [".", "%", "%2F", "a.b", "~2E", "été", "数据", "😀", "a b", "_", "x'y\"z"])
def test_names_of_every_kind(lake: Lake, name: str) -> None:
    levels = (f"n{name}", f"{name}n")
    lake.kernel.catalog.namespaces.create(lake.operator, levels, {})
    lake.roles.create(lake.operator, name)
    lake.roles.change_members(lake.operator, name, add=[f"principal:{name}", f"group:{name}"])
    lake.grant(f"role:{name}", P.USE_CATALOG)
    lake.grant(f"principal:{name}", P.USE_SCHEMA, on=ns(*levels))
    call = lake.call(name)
    lake.kernel.catalog.namespaces.load(call, levels)
    for other in ((levels[0],), (levels[0], f"{name}m"), (levels[0], *levels)):
        refused(lambda other=other: lake.kernel.catalog.namespaces.load(call, other), "use_schema")
    (grant,) = lake.questions.grants_on(lake.operator, ns(*levels), None, 10).items
    assert (grant.grantee, grant.on) == (f"principal:{name}", ns(*levels))
    assert lake.principals.get(lake.operator, name).roles == (name,)


@pytest.mark.parametrize(
    "grantee",
    ["", "ada", "principal:", "role:", "user:ada", "principal:a\nb", "group:" + "x" * 601, "role:\0"],
)
def test_grantees_that_are_none(lake: Lake, grantee: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid grantee"):
        lake.grant(grantee, P.USE_CATALOG)
    with pytest.raises(BadRequestError, match="Invalid grantee"):
        lake.questions.grants_to(lake.operator, grantee, None, 10)


def test_bounds_are_named(lake: Lake, kernel: Kernel) -> None:
    limits = msgspec.structs.replace(lake.kernel.settings.limits, roles=2, role_members=3, grants=4)
    settings = msgspec.structs.replace(lake.kernel.settings, limits=limits)
    small = Lake(Kernel(settings, kernel.store, kernel.files, kernel.clock), lake.operator)
    for name in ("a", "b"):
        small.roles.create(small.operator, name)
    with pytest.raises(ConflictError, match=r"at most 2 roles \(floecat.limits.roles\)"):
        small.roles.create(small.operator, "c")
    small.roles.change_members(small.operator, "a", add=["group:x", "group:y"])
    with pytest.raises(ConflictError, match=r"at most 3 members together \(floecat.limits.role-members\)"):
        small.roles.change_members(small.operator, "b", add=["group:x", "group:y"])
    assert members(small, "b") == set()  # all or nothing
    with pytest.raises(
        ConflictError, match=r"At most 4 grants may be on catalog floecat \(floecat.limits.grants\)"
    ):
        small.grant("group:x", *P)
    small.grant("group:x", *list(P)[:4])
    small.kernel.background.stop()


def test_grants_while_the_table_is_renamed(lake: Lake) -> None:
    """Each grant is on the table, or there was none of this name: none is on nothing."""
    other = TableIdentifier(("raw", "events2"), "moved")
    refusals: list[Exception] = []
    made: list[str] = []

    def grant() -> None:
        for number in range(40):
            try:
                made.extend(lake.access.grant(lake.operator, [P.READ_TABLE], on(T), f"group:g{number}"))
            except NotFoundError as error:
                refusals.append(error)

    thread = Thread(target=grant)
    thread.start()
    here, there = T, other
    while thread.is_alive():
        lake.kernel.catalog.tables.rename(lake.operator, here, there)
        here, there = there, here
    thread.join()
    assert len(made) + len(refusals) == 40
    found = lake.questions.grants_on(lake.operator, on(here), None, 100).items
    assert len(found) == len(made)


def test_an_account_securable_is_named_without_a_catalog(lake: Lake) -> None:
    lake.grant("group:eng", P.READ_TABLE, on=Securable("account", ""))
    (grant,) = lake.questions.grants_to(lake.operator, "group:eng", None, 10).items
    assert grant.on == ACCOUNT


def test_built_in_roles_are_made_once_and_then_as_any_other(lake: Lake) -> None:
    made = lake.kernel.access.built_in_roles.create(lake.operator)
    assert made[0] == "create role operator"
    assert lake.kernel.access.built_in_roles.create(lake.operator) == []
    lake.roles.change_members(lake.operator, "analyst", add=["group:eng"])
    lake.roles.change_members(lake.operator, "operator", add=["principal:ada"])
    bob, ada = lake.call("bob", "eng"), lake.call("ada")
    lake.load(bob)
    refused(lambda: lake.kernel.catalog.tables.drop(bob, T, purge=False), "drop_table")
    lake.roles.change_members(ada, "engineer", add=["group:eng"])  # she has all, and is no owner of it
    lake.kernel.catalog.tables.drop(lake.call("bob", "eng"), T, purge=False)
    refused(lambda: lake.kernel.access.built_in_roles.create(bob), "on the account")
    lake.revoke("role:analyst", P.READ_VIEW, on=ACCOUNT)
    lake.roles.delete(lake.operator, "worker")
    assert lake.kernel.access.built_in_roles.create(ada)[0] == "create role worker"
    assert len(lake.questions.grants_to(lake.operator, "role:analyst", None, 100).items) == 3


def test_built_in_roles_hold_each_other() -> None:
    order = [
        with_implied(BUILT_IN_ROLES[name]) for name in ("analyst", "engineer", "catalog-admin", "operator")
    ]
    assert all(less < more for less, more in itertools.pairwise(order))


def test_the_history_has_an_end(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floecat.store.access.grants.KEPT_CHANGES", 5)
    for number in range(10):
        lake.grant(f"group:g{number}", P.USE_CATALOG)
    assert [each.change for each in lake.questions.history(lake.operator, None, 100).items] == [
        f"grant use_catalog on catalog floecat to group:g{number}" for number in range(9, 4, -1)
    ]
