"""Privileges, refusals, and that no module looks a name up where nobody asks."""

from __future__ import annotations

import ast
from pathlib import Path
from uuid import UUID

import pytest

import floecat
from floecat.auth.authorizer import AllowAll, Privilege, Securable, check_allowed
from floecat.auth.principals import Principal
from floecat.errors import ForbiddenError
from tests.grants import Grants

ANNA = Principal("anna", UUID(int=1))

_BY_NAME = {
    "catalogs": {"by_name"},
    "namespaces": {"children", "get", "get_with_kind"},
    "tables": {"find", "list_names", "load", "load_many"},
    "connectors": {"find", "list_all"},
    "jobs": {"get", "list_all"},
}
"""Functions of the store that find something by its name, or list names."""

_ASKING = {
    "catalog/catalog_changes.py",
    "catalog/catalogs.py",
    # of an actor that may do everything in the account
    "catalog/declared_access.py",
    "catalog/marks.py",
    "catalog/namespaces.py",
    "connectors/connector_service.py",
    # the job of a connector that the call has asked for
    "connectors/scanning/scan_jobs.py",
    "entries/lookup.py",
    "entries/listing.py",
    "entries/names.py",
    "entries/drops_and_renames.py",
    "jobs/operations.py",
    # the job of a capture that the call has asked for
    "statistics/capture/control.py",
    # the job of a plan, whose table was asked for before
    "planning/plans/plans.py",
    # purges that have not ended, for all catalogs: an orphan run shows none of them
    "purge/orphans/needed_files.py",
}


def test_names_are_looked_up_where_the_authorizer_is_asked() -> None:
    root = Path(floecat.__file__).parent
    looking = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] != "store"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in _BY_NAME.get(node.func.value.id, ())
    }
    assert looking == _ASKING


@pytest.mark.parametrize(
    ("securable", "text"),
    [
        (Securable("catalog", "lake"), "catalog lake"),
        (Securable("namespace", "lake", ("a", "b")), "namespace a.b of catalog lake"),
        (Securable("table", "lake", ("a", "b"), "t"), "table a.b.t of catalog lake"),
        (Securable("view", "lake", ("a",), "v"), "view a.v of catalog lake"),
    ],
)
def test_a_refusal_names_the_first_missing_privilege(securable: Securable, text: str) -> None:
    grants = Grants()
    grants.grant("anna", Privilege.READ_TABLE, "lake")
    checks = [
        (each, securable) for each in (Privilege.READ_TABLE, Privilege.DROP_TABLE, Privilege.PURGE_TABLE)
    ]
    with pytest.raises(ForbiddenError) as error:
        check_allowed(grants, ANNA, checks)
    assert error.value.message == f"anna does not have the privilege drop_table on {text}"
    check_allowed(grants, ANNA, checks[:1])


def test_an_authorizer_that_answers_too_little_allows_nothing() -> None:
    class Silent:
        def allowed(self, _principal: Principal, _checks: object, _found: object, /) -> list[bool]:
            return []

    with pytest.raises(ValueError, match="shorter"):
        check_allowed(Silent(), ANNA, [(Privilege.USE_CATALOG, Securable("catalog", "lake"))])


def test_allow_all_allows_all() -> None:
    checks = [(each, Securable("catalog", "lake")) for each in Privilege]
    assert all(AllowAll().allowed(ANNA, checks))
    assert len(AllowAll().allowed(ANNA, checks)) == len(Privilege)
    check_allowed(AllowAll(), ANNA, checks)
