"""Access as one file: exported, compared and applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from floecat.access.changes import ACCOUNT
from floecat.auth.authorizer import Privilege
from floecat.catalog.declared_access import DeclaredAccess, DeclaredCatalog, DeclaredRole
from floecat.errors import BadRequestError, ConflictError, ForbiddenError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from floecat_rest.commands.access.access_file import read_access_file, write_access_file
from tests.behaviour.catalog.test_access import CATALOG, Lake, T, lake, ns, on, secure

__all__ = ["lake", "secure"]

P = Privilege
SIZE = 1 << 20


@pytest.fixture
def full(lake: Lake) -> Lake:
    """Roles within each other, grants on things of every kind, owners of every kind."""
    for name in ("no", "staff", "été"):
        lake.roles.create(lake.operator, name)
    lake.roles.change_members(lake.operator, "no", add=["role:staff", "group:a b", "principal:ada"])
    lake.grant("role:no", *P)
    lake.grant("group:12", P.USE_CATALOG, P.READ_TABLE, on=ACCOUNT)
    lake.grant("principal:true", P.READ_TABLE, on=on(T))
    lake.grant("principal:true", P.USE_SCHEMA, on=ns("raw", "events"))
    lake.access.set_owner(lake.operator, ns("raw"), "role:staff")
    lake.access.set_owner(lake.operator, on(T), "principal:bob")
    return lake


def applied(lake: Lake, declared: DeclaredAccess, **options: Any) -> list[str]:
    return list(lake.kernel.catalog.access.apply(lake.operator, declared, **options))


def exported(lake: Lake, *, with_tables: bool = True) -> DeclaredAccess:
    found = lake.kernel.catalog.access.export(lake.operator, with_tables=with_tables)
    assert read_access_file(write_access_file(found).encode(), SIZE) == found
    return found


def test_what_is_exported_is_there_already(full: Lake) -> None:
    before = full.questions.history(full.operator, None, 1).items
    for with_tables in (False, True):
        assert applied(full, exported(full, with_tables=with_tables)) == []
    assert full.questions.history(full.operator, None, 1).items == before
    assert applied(full, DeclaredAccess()) == []


def test_a_file_makes_another_account_the_same(full: Lake) -> None:
    whole = exported(full)
    for name in ("no", "staff", "été"):
        full.roles.delete(full.operator, name)
    for privilege in (P.USE_CATALOG, P.READ_TABLE):
        full.revoke("group:12", privilege, on=ACCOUNT)
    full.grant("group:new", P.USE_CATALOG)
    full.access.set_owner(full.operator, on(T), "principal:eve")
    planned = applied(full, whole, dry_run=True)
    assert exported(full) != whole
    assert applied(full, whole) == planned
    assert exported(full) == whole
    assert applied(full, whole) == []
    history = full.questions.history(full.operator, None, len(planned)).items
    assert [each.change for each in history[::-1]] == planned
    assert {each.principal for each in history} == {"op"}
    assert "revoke use_catalog on catalog floecat of group:new" in planned
    assert "principal:bob owns table raw:events.t of catalog floecat" in planned
    full.load(full.call("ada"))


def test_what_a_file_does_not_speak_of_stays(full: Lake) -> None:
    whole = exported(full)
    one = DeclaredAccess(roles={"no": DeclaredRole(frozenset({"principal:ada"}))}, grants=whole.grants)
    assert applied(full, one) == [
        "remove group:a b from role no",
        "remove role:staff from role no",
        "delete role staff",
        "delete role été",
    ]
    after = exported(full)
    assert after.grants == whole.grants
    assert applied(full, DeclaredAccess(grants={})) != []
    assert exported(full).grants == {}
    assert exported(full).roles == after.roles


def test_catalogs_are_made_with_what_is_granted_on_them(full: Lake) -> None:
    home = full.operator.catalog.storage_location
    new = DeclaredCatalog(f"{home}/new", (f"{home}/more",))
    owner = {ns("raw"): "role:staff", CATALOG: "role:staff"}
    on_new = msgspec.structs.replace(CATALOG, catalog="new")
    declared = DeclaredAccess(
        catalogs={"new": new},
        grants=dict(exported(full).grants or {}) | {("role:no", on_new): frozenset({"use_catalog"})},
        owners=owner | {on_new: "principal:ada"},
    )
    changes = applied(full, declared)
    assert changes[0] == f"create catalog new at {home}/new"
    assert applied(full, declared) == []
    ada = full.kernel.catalog.calls.open(full.call("ada").principal, "new")
    full.kernel.catalog.namespaces.create(ada, ("hers",), {})
    more = msgspec.structs.replace(new, allowed_locations=(f"{home}/more", f"{home}/x"))
    assert applied(full, DeclaredAccess(catalogs={"new": more})) == [f"allow {home}/x in catalog new"]
    with pytest.raises(ConflictError, match="cannot move"):
        applied(full, DeclaredAccess(catalogs={"new": DeclaredCatalog(f"{home}/elsewhere")}))
    with pytest.raises(BadRequestError, match="Invalid catalog name"):
        applied(full, DeclaredAccess(catalogs={"a/b": new}))


def test_all_names_that_do_not_exist_are_told_before_anything_is_done(full: Lake) -> None:
    before = exported(full)
    declared = DeclaredAccess(
        roles={
            "a": DeclaredRole(frozenset({"role:none", "nobody", "group:@no/x"})),
            "b:c": DeclaredRole(owner="group:x"),
        },
        grants={
            ("role:staff", CATALOG): frozenset({"use_catalog"}),  # it would be deleted
            ("role:a", on(TableIdentifier(("raw",), "none"))): frozenset({"read_table"}),
        },
        owners={ns("none"): "principal:new", ns("raw"): "role:gone"},
    )
    with pytest.raises(BadRequestError) as error:
        applied(full, declared)
    told = error.value.message.split("\n")
    assert sorted(told) == sorted(
        [
            "Invalid name of a role: 'b:c'",
            "Invalid grantee: 'nobody', expected principal:NAME, role:NAME or group:NAME",
            "Invalid grantee: 'group:@no/x', there is no issuer 'no' (floecat.auth.issuers);"
            " a name of an issuer is @ISSUER/NAME",
            "A group owns nothing: group:x",
            "There is no role staff",
            "There is no role none",
            "There is no role gone",
            "There is no table raw.none of catalog floecat",
            "There is no namespace none of catalog floecat",
        ]
    )
    assert exported(full) == before


def test_circles_and_bounds_are_refused_whole(full: Lake, kernel: Kernel) -> None:
    before = exported(full)
    circle = {
        name: DeclaredRole(frozenset({f"role:r{(number + 1) % 100}"}))
        for number, name in enumerate([f"r{number}" for number in range(100)])
    }
    with pytest.raises(ConflictError, match="Roles would be members of themselves: role:r"):
        applied(full, DeclaredAccess(roles=circle, grants={}))
    limits = msgspec.structs.replace(kernel.settings.limits, roles=4, grants=60)
    settings = msgspec.structs.replace(full.kernel.settings, limits=limits)
    small = Lake(Kernel(settings, kernel.store, kernel.files, kernel.clock), full.operator)
    with pytest.raises(ConflictError, match=r"limits\.roles"):
        applied(small, DeclaredAccess(roles={f"r{number}": DeclaredRole() for number in range(5)}, grants={}))
    many = {(f"group:{number}", CATALOG): frozenset({"use_catalog"}) for number in range(61)}
    with pytest.raises(ConflictError, match=r"limits\.grants"):
        applied(small, DeclaredAccess(grants=many))
    small.kernel.background.stop()
    assert exported(full) == before


def test_only_who_may_do_everything_applies(full: Lake) -> None:
    ada = full.call("ada")  # everything in a catalog
    with pytest.raises(ForbiddenError, match="on the account"):
        full.kernel.catalog.access.apply(ada, DeclaredAccess())
    with pytest.raises(ForbiddenError, match="read_access on the account"):
        full.kernel.catalog.access.export(ada)


def test_many_take_no_more_statements_to_compare(full: Lake) -> None:
    counts = []
    for rounds in range(2):
        for number in range(100):
            full.grant(f"group:g{rounds}-{number}", P.READ_TABLE, on=ns("raw", "events"))
        whole = exported(full)
        with full.kernel.store.count_statements() as counter:
            assert applied(full, whole, dry_run=True) == []
        counts.append(counter.statements)
    assert counts[0] == counts[1] < 30
