"""Roles, grants and owners, as principals meet them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pytest

from floecat.access.access_questions import AccessQuestions
from floecat.access.access_service import AccessService
from floecat.access.principal_service import PrincipalService
from floecat.access.roles import RoleService
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NoSuchTableError,
    NotFoundError,
)
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.runtime import Kernel
from floecat.settings.groups.process import AuthSettings, IssuerSettings
from floecat.settings.limits import LimitSettings
from floecat.store.access import grants, principals
from floecat.store.access.principals import PrincipalRow
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection
from tests.behaviour.catalog.changes import SCHEMA

P = Privilege
CATALOG = Securable("catalog", "floecat")
ACCOUNT = Securable("account", "")
T = TableIdentifier(("raw", "events"), "t")


def ns(*levels: str) -> Securable:
    return Securable("namespace", "floecat", levels)


def on(identifier: TableIdentifier) -> Securable:
    return Securable("table", "floecat", identifier.namespace, identifier.name)


class Lake(NamedTuple):
    """A kernel whose grants decide, with `raw.events.t` and `raw.events2.t`, which `tester` made before."""

    kernel: Kernel
    operator: Call

    @property
    def access(self) -> AccessService:
        return self.kernel.access.access

    def call(self, name: str, *groups: str) -> Call:
        principal = Principal(name, self.operator.catalog.account_id, groups=groups)
        return self.kernel.catalog.calls.open(principal, "floecat")

    @property
    def roles(self) -> RoleService:
        return self.kernel.access.roles

    @property
    def principals(self) -> PrincipalService:
        return self.kernel.access.principals

    @property
    def questions(self) -> AccessQuestions:
        return self.kernel.access.questions

    def grant(self, to: str, *privileges: Privilege, on: Securable = CATALOG) -> None:
        self.access.grant(self.operator, privileges, on, to)

    def revoke(self, of: str, *privileges: Privilege, on: Securable = CATALOG) -> None:
        self.access.revoke(self.operator, privileges, on, of)

    def create(self, call: Call, identifier: TableIdentifier) -> None:
        table = CreateTable(identifier.name, SCHEMA)
        self.kernel.commits.tables.create_table(call, identifier.namespace, table)

    def load(self, call: Call, identifier: TableIdentifier = T) -> None:
        self.kernel.catalog.tables.load(call, identifier)

    def tables(self, call: Call, namespace: Namespace = ("raw", "events")) -> list[str]:
        return [each.name for each in self.kernel.catalog.tables.list(call, namespace, PageRequest()).items]


@pytest.fixture
def secure(kernel: Kernel) -> Callable[[], Kernel]:
    """Another process on the store, in which grants decide."""
    settings = msgspec.structs.replace(
        kernel.settings,
        auth=AuthSettings(authorizer="grants", operators="ops", issuers={"k8s": IssuerSettings()}),
        gateway=msgspec.structs.replace(kernel.settings.gateway, auth_mode="oidc"),
    )
    return lambda: Kernel(settings, kernel.store, kernel.files, kernel.clock)


@pytest.fixture
def lake(kernel: Kernel, call: Call, secure: Callable[[], Kernel]) -> Iterator[Lake]:
    secured = secure()
    operator = secured.catalog.calls.open(
        Principal("op", call.principal.account_id, groups=("ops",)), "floecat"
    )
    made = Lake(secured, operator)
    for levels in (("raw", "events"), ("raw", "events2")):
        secured.catalog.namespaces.create(operator, levels, {})
        made.create(operator, TableIdentifier(levels, "t"))
    yield made
    secured.background.stop()


def test_nobody_may_do_anything_but_operators(lake: Lake) -> None:
    with pytest.raises(ForbiddenError, match="ada does not have the privilege use_catalog"):
        lake.call("ada")
    with pytest.raises(ForbiddenError):
        lake.call("ada", "other")
    assert lake.tables(lake.call("eve", "ops")) == ["t"]
    unknown = Principal("unknown", lake.operator.catalog.account_id)
    assert lake.kernel.access.authorizer.allowed(unknown, [(P.READ_TABLE, on(T))]) == [False]


def test_a_grant_holds_below_and_not_beside(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.READ_TABLE, P.USE_SCHEMA, on=ns("raw", "events"))
    ada = lake.call("ada")
    lake.load(ada)
    assert lake.tables(ada) == ["t"]  # who may read a table may see it
    for missing in (TableIdentifier(("raw", "events2"), "t"), TableIdentifier(("raw",), "t")):
        with pytest.raises(ForbiddenError):  # the same whether or not it exists
            lake.load(ada, missing)
    with pytest.raises(NoSuchTableError):
        lake.load(ada, TableIdentifier(("raw", "events"), "none"))
    with pytest.raises(ForbiddenError):
        lake.kernel.catalog.tables.drop(ada, T, purge=False)


def test_a_revoked_right_is_refused_with_the_next_request_of_any_process(
    lake: Lake, secure: Callable[[], Kernel]
) -> None:
    other = Lake(secure(), lake.operator)
    lake.grant("principal:ada", P.USE_CATALOG, P.READ_TABLE)
    ada = lake.call("ada")
    for each in (lake, other):
        each.load(ada)
    other.revoke("principal:ada", P.READ_TABLE)
    for each in (lake, other):
        with pytest.raises(ForbiddenError):
            each.load(ada)
    other.kernel.background.stop()


def test_roles_hold_principals_groups_and_roles(lake: Lake) -> None:
    for name in ("readers", "staff"):
        lake.roles.create(lake.operator, name)
    lake.grant("role:readers", P.USE_CATALOG, P.READ_TABLE)
    lake.roles.change_members(lake.operator, "readers", add=["role:staff"])
    lake.roles.change_members(lake.operator, "staff", add=["principal:ada"])
    lake.roles.change_members(lake.operator, "staff", add=["group:eng"])
    for call in (lake.call("ada"), lake.call("bob", "eng")):
        lake.load(call)
    with pytest.raises(ForbiddenError):  # a group that is named as a role is another thing
        lake.call("eve", "staff")
    with pytest.raises(ConflictError, match="would be a member of itself"):
        lake.roles.change_members(lake.operator, "staff", add=["role:readers"])
    lake.roles.change_members(lake.operator, "staff", remove=["principal:ada"])
    with pytest.raises(ForbiddenError):
        lake.call("ada")
    lake.roles.delete(lake.operator, "staff")
    with pytest.raises(ForbiddenError):
        lake.call("bob", "eng")
    assert [(each.name, each.members) for each in lake.roles.list(lake.operator)] == [("readers", ())]


def test_who_creates_something_owns_it_with_all_below_and_new_parents(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG, P.CREATE_SCHEMA)
    ada = lake.call("ada")
    lake.kernel.catalog.namespaces.create(ada, ("team", "sales"), {})
    table = TableIdentifier(("team", "sales"), "orders")
    lake.create(ada, table)
    lake.revoke("principal:ada", P.CREATE_SCHEMA)
    lake.load(ada, table)
    lake.kernel.catalog.namespaces.create(ada, ("team", "more"), {})
    with pytest.raises(ForbiddenError):
        lake.load(ada)
    lake.access.set_owner(lake.operator, ns("team"), "principal:bob")
    lake.grant("principal:bob", P.USE_CATALOG)
    lake.load(lake.call("bob"), table)
    with pytest.raises(ForbiddenError):
        lake.kernel.catalog.namespaces.create(ada, ("team", "other"), {})
    lake.load(ada, table)  # it is still hers


def test_missing_parents_need_the_right_where_they_are_missing(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.CREATE_SCHEMA, on=ns("raw", "events"))
    ada = lake.call("ada")
    lake.kernel.catalog.namespaces.create(ada, ("raw", "events", "a", "b"), {})
    with pytest.raises(ForbiddenError):
        lake.kernel.catalog.namespaces.create(ada, ("raw", "new", "a"), {})


def test_grants_follow_a_rename_and_end_with_a_drop(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.READ_TABLE, on=on(T))
    ada, moved = lake.call("ada"), TableIdentifier(("raw", "events2"), "moved")
    lake.kernel.catalog.tables.rename(lake.operator, T, moved)
    lake.load(ada, moved)
    lake.create(lake.operator, T)
    with pytest.raises(ForbiddenError):  # another table of the old name
        lake.load(ada)
    lake.kernel.catalog.tables.drop(lake.operator, moved, purge=False)
    lake.create(lake.operator, moved)
    with pytest.raises(ForbiddenError):
        lake.load(ada, moved)
    holders = lake.questions.who(lake.operator, on(moved), None, 100)
    assert {(each.grantee, each.on) for each in holders} == {
        ("principal:ada", "catalog floecat"),
        ("principal:op", "namespace raw of catalog floecat"),
        ("principal:op", "namespace raw:events2 of catalog floecat"),
        ("principal:op", "table raw:events2.moved of catalog floecat"),
    }


def test_listings_show_what_may_be_seen(lake: Lake) -> None:
    for number in range(10):
        lake.create(lake.operator, TableIdentifier(("raw", "events"), f"t{number}"))
    lake.grant("principal:ada", P.USE_CATALOG, P.USE_SCHEMA)
    for number in range(0, 10, 2):
        table = TableIdentifier(("raw", "events"), f"t{number}")
        lake.grant("principal:ada", P.LIST_TABLE, on=on(table))
    ada = lake.call("ada")
    with lake.kernel.store.count_statements() as counter:
        assert lake.tables(ada) == ["t0", "t2", "t4", "t6", "t8"]
    few = counter.statements
    for number in range(10, 60):
        lake.create(lake.operator, TableIdentifier(("raw", "events"), f"t{number}"))
    lake.tables(ada)
    with lake.kernel.store.count_statements() as counter:
        lake.tables(ada)
    assert counter.statements <= few


def test_a_disabled_principal_may_do_nothing(lake: Lake) -> None:
    account = lake.operator.catalog.account_id
    lake.grant("principal:ada", *P)
    lake.call("ada")
    lake.principals.set_disabled(lake.operator, "ada", disabled=True)
    with pytest.raises(ForbiddenError):
        lake.call("ada")
    explained = lake.questions.explain(lake.operator, Principal("ada", account), P.READ_TABLE, on(T))
    assert explained.reasons == ("Principal ada is disabled",)
    with pytest.raises(ForbiddenError):  # an operator, too
        lake.call("ada", "ops")
    operator = Principal("ada", account, groups=("ops",))
    assert not lake.questions.explain(lake.operator, operator, P.READ_TABLE, on(T)).allowed
    lake.principals.set_disabled(lake.operator, "ada", disabled=False)
    lake.load(lake.call("ada"))


def test_a_disabled_account_lets_nobody_do_anything(lake: Lake, secure: Callable[[], Kernel]) -> None:
    account = lake.operator.catalog.account_id
    other = Lake(secure(), lake.operator)
    lake.load(lake.operator)

    def set_disabled(*, disabled: bool) -> None:
        def work(conn: Connection) -> None:
            accounts.set_disabled(conn, account, disabled=disabled)
            grants.record(conn, account, "op", "disabled", 0)

        lake.kernel.store.run(work)

    set_disabled(disabled=True)
    for each in (lake, other):  # every process; what was opened before, too
        for name, groups in (("op", ("ops",)), ("new", ())):
            with pytest.raises(ForbiddenError, match="The account is disabled"):
                each.call(name, *groups)
        with pytest.raises(ForbiddenError, match="The account is disabled"):
            each.load(lake.operator)
    set_disabled(disabled=False)
    with lake.kernel.store.count_statements() as counter:
        lake.load(lake.operator)
        lake.load(lake.operator)
    assert counter.statements == 5  # two loads; its row, the roles and the authorities, once
    other.kernel.background.stop()


def test_an_account_is_deleted_with_nothing_that_is_made_meanwhile(lake: Lake) -> None:
    store, service = lake.kernel.store, lake.kernel.access.accounts
    account = service.create(f"short-{uuid4().hex}")
    made, outcome = threading.Event(), queue.SimpleQueue[ConflictError | None]()

    def delete() -> None:
        made.wait(60)
        try:
            service.delete(account.name)
        except ConflictError as error:
            outcome.put(error)
        else:
            outcome.put(None)

    thread = threading.Thread(target=delete)
    thread.start()

    def insert(conn: Connection) -> None:
        principals.ensure(conn, PrincipalRow(uuid4(), account.id, "ada", False, 0))
        made.set()
        thread.join(0.5)  # on PostgreSQL it sees nothing of this yet, and waits for its end

    store.run(insert)
    thread.join(60)
    refused = outcome.get(timeout=60)
    assert refused is not None
    assert "is not empty" in refused.message
    assert service.describe(account.name).contents["principals"] == 1


def test_disabling_works_where_everybody_may_do_everything(lake: Lake, kernel: Kernel) -> None:
    settings = msgspec.structs.replace(lake.kernel.settings, auth=AuthSettings())
    opened = Kernel(settings, kernel.store, kernel.files, kernel.clock)
    everybody = Lake(opened, lake.operator)
    ada = everybody.call("ada")
    everybody.load(ada)
    lake.principals.set_disabled(lake.operator, "ada", disabled=True)
    with pytest.raises(ForbiddenError, match="Principal ada is disabled"):
        everybody.load(ada)
    with pytest.raises(ForbiddenError):
        opened.catalog.directory.list(ada.principal, None, 10)
    everybody.load(everybody.call("eve"))
    opened.background.stop()


def test_the_first_login_makes_a_row_within_a_bound(
    lake: Lake, kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    account = lake.operator.catalog.account_id

    def rows() -> int:
        with kernel.store.read() as conn:
            return principals.count(conn, account)

    before = rows()  # the operator owns things
    for _ in range(2):
        lake.kernel.access.log_in(Principal("ada", account))
    assert rows() == before + 1
    lake.kernel.access.log_in(Principal("ada", uuid4()))  # an account that nobody made
    off = AuthSettings(create_principals=False)
    few = LimitSettings(principals=before + 1)
    for change in ({"auth": off}, {"limits": few}):
        opened = Kernel(
            msgspec.structs.replace(lake.kernel.settings, **change), kernel.store, kernel.files, kernel.clock
        )
        for name in ("bob", "eve"):
            opened.access.log_in(Principal(name, account))
        opened.background.stop()
    assert rows() == before + 1
    assert [each.message for each in caplog.records if "floecat.limits.principals" in each.message] == [
        f"Account {account} has {before + 1} principals (floecat.limits.principals): further ones get no row,"
        " and own nothing that they create"
    ]


def test_explanations_name_the_grant_and_the_path(lake: Lake) -> None:
    account = lake.operator.catalog.account_id
    lake.roles.create(lake.operator, "readers")
    lake.roles.change_members(lake.operator, "readers", add=["group:eng"])
    lake.grant("role:readers", P.WRITE_TABLE, on=ns("raw"))
    bob = Principal("bob", account, groups=("eng",))
    explained = lake.questions.explain(lake.operator, bob, P.READ_TABLE, on(T))
    assert explained.allowed
    assert explained.reasons == (
        "group:eng in role:readers has write_table on namespace raw of catalog floecat",
    )
    (needed,) = lake.questions.explain(
        lake.operator, bob, P.DROP_TABLE, on(TableIdentifier(("raw",), "none"))
    ).reasons
    assert needed == (
        "drop_table is needed on one of: the account, catalog floecat, namespace raw of catalog floecat"
    )
    who = lake.questions.who(lake.operator, on(T), P.READ_TABLE, 100)
    assert [each.grantee for each in who if each.privilege == P.WRITE_TABLE] == [
        "role:readers",
        "group:eng in role:readers",
    ]


def test_history_says_who_changed_what(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.USE_CATALOG)  # nothing new
    lake.revoke("principal:ada", P.USE_CATALOG)
    changes = [(each.principal, each.change) for each in lake.questions.history(lake.operator, None, 2).items]
    assert changes == [
        ("op", "revoke use_catalog on catalog floecat of principal:ada"),
        ("op", "grant use_catalog on catalog floecat to principal:ada"),
    ]


def test_mistakes_are_named(lake: Lake) -> None:
    with pytest.raises(NotFoundError, match="There is no role none"):
        lake.grant("role:none", P.USE_CATALOG)
    with pytest.raises(BadRequestError, match="expected principal:NAME"):
        lake.grant("ada", P.USE_CATALOG)
    with pytest.raises(NotFoundError, match=r"There is no table raw\.none of catalog floecat"):
        lake.grant("principal:ada", P.READ_TABLE, on=on(TableIdentifier(("raw",), "none")))
    with pytest.raises(BadRequestError, match="a principal or a role"):
        lake.access.set_owner(lake.operator, CATALOG, "group:eng")
    lake.roles.create(lake.operator, "x")
    with pytest.raises(AlreadyExistsError):
        lake.roles.create(lake.operator, "x")
    for name in ("", "a:b", "\n", "x" * 300):
        with pytest.raises(BadRequestError):
            lake.roles.create(lake.operator, name)


def test_a_name_belongs_to_its_issuer(lake: Lake) -> None:
    name = f"@k8s/system:serviceaccount:{'n' * 63}:{'a' * 253}"  # the longest there can be
    lake.grant(f"principal:{name}", P.USE_CATALOG, P.READ_TABLE)
    lake.load(lake.call(name))
    for other in (name.removeprefix("@k8s/"), f"@/{name}"):
        with pytest.raises(ForbiddenError):
            lake.call(other)
    lake.grant("group:@k8s/jobs", P.USE_CATALOG, P.READ_TABLE)
    lake.load(lake.call("eve", "@k8s/jobs"))
    with pytest.raises(ForbiddenError):
        lake.call("eve", "jobs")
    for unknown in ("principal:@k9s/ada", "group:@k9s/jobs", "principal:@ada"):
        with pytest.raises(
            BadRequestError, match=r"there is no issuer '(k9s|ada)' \(floecat\.auth\.issuers\)"
        ):
            lake.grant(unknown, P.USE_CATALOG)


def test_a_load_asks_with_what_it_found(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG, P.READ_TABLE)
    ada = lake.call("ada")
    for _ in range(2):
        with lake.kernel.store.count_statements() as counter:
            lake.load(ada)
    assert counter.statements == 1
    with lake.kernel.store.count_statements() as counter:
        ada.check((P.READ_TABLE, on(T)))
    assert counter.statements == 2
    lake.revoke("principal:ada", P.READ_TABLE)
    with lake.kernel.store.count_statements() as counter, pytest.raises(ForbiddenError):
        lake.load(ada)
    assert counter.statements <= 7  # the rights of the new version, once


def test_a_namespace_that_was_made_again_has_no_grants_of_the_old_one(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    lake.grant("principal:ada", P.READ_TABLE, on=ns("raw", "events"))
    ada = lake.call("ada")
    lake.load(ada)
    lake.kernel.catalog.tables.drop(lake.operator, T, purge=False)
    lake.kernel.catalog.namespaces.drop(lake.operator, T.namespace)
    lake.kernel.catalog.namespaces.create(lake.operator, T.namespace, {})
    lake.create(lake.operator, T)
    with pytest.raises(ForbiddenError):
        lake.load(ada)


def test_a_new_owner_of_a_parent_may_with_the_next_request(lake: Lake) -> None:
    lake.grant("principal:ada", P.USE_CATALOG)
    ada = lake.call("ada")
    for _ in range(2):
        with pytest.raises(ForbiddenError):
            lake.load(ada)
        lake.load(lake.operator)
    lake.access.set_owner(lake.operator, ns("raw"), "principal:ada")
    lake.load(ada)
    lake.access.set_owner(lake.operator, ns("raw"), "principal:bob")
    with pytest.raises(ForbiddenError):
        lake.load(ada)
    lake.access.set_owner(lake.operator, on(T), "principal:ada")
    lake.load(ada)
