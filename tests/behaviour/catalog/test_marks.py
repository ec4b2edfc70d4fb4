"""Protection: what has it cannot be removed, in no way and by nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floecat.auth.authorizer import Securable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, ConflictError, NoSuchTableError, NotFoundError
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import SCHEMA, create, set_property, table
from tests.behaviour.catalog.test_privileges import _view_version

NS = Securable("namespace", "floecat", ("ns",))
T = Securable("table", "floecat", ("ns",), "t")
V = Securable("view", "floecat", ("ns",), "v")


@pytest.fixture
def lake(kernel: Kernel, call: Call) -> Kernel:
    create(kernel, call, "t")
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, _view_version()))
    return kernel


def _lost(kernel: Kernel, call: Call) -> str:
    create(kernel, call, "lost")
    return kernel.catalog.tables.unregister(call, table("lost")).metadata_location or ""


REMOVALS: dict[str, tuple[Securable, Callable[[Kernel, Call], object]]] = {
    "drop": (T, lambda kernel, call: kernel.catalog.tables.drop(call, table("t"))),
    "drop through the purger": (
        T,
        lambda kernel, call: kernel.purge.drops.drop(call, table("t"), purge=False),
    ),
    "purge": (T, lambda kernel, call: kernel.purge.drops.drop(call, table("t"), purge=True)),
    "unregister": (T, lambda kernel, call: kernel.purge.drops.unregister(call, table("t"))),
    "register over": (
        T,
        lambda kernel, call: kernel.commits.registration.register_table(
            call, ("ns",), "t", _lost(kernel, call), overwrite=True
        ),
    ),
    "drop of a view": (V, lambda kernel, call: kernel.catalog.views.drop(call, table("v"))),
    "drop of an empty namespace": (
        Securable("namespace", "floecat", ("empty",)),
        lambda kernel, call: kernel.catalog.namespaces.drop(call, ("empty",)),
    ),
    "deletion of the catalog": (
        Securable("catalog", "floecat"),
        lambda kernel, call: kernel.catalog.changes.delete(call),
    ),
}


@pytest.mark.parametrize("way", REMOVALS)
def test_what_is_protected_is_not_removed(lake: Kernel, call: Call, way: str) -> None:
    """`call` may do everything: it is the operator's."""
    marks, (on, remove) = lake.catalog.marks, REMOVALS[way]
    lake.catalog.namespaces.create(call, ("empty",), {})
    if on.kind == "catalog":
        for drop in (lake.catalog.tables.drop, lake.catalog.views.drop):
            drop(call, table("t" if drop == lake.catalog.tables.drop else "v"))
        for namespace in (("ns",), ("empty",)):
            lake.catalog.namespaces.drop(call, namespace)
    assert marks.protect(call, on, protected=True)
    assert not marks.protect(call, on, protected=True)
    assert marks.is_protected(call, on)
    with pytest.raises(ConflictError, match=rf"Protected, so not removed: {on}\."):
        remove(lake, call)
    assert marks.is_protected(call, on)
    assert marks.protect(call, on, protected=False)
    remove(lake, call)


def test_protection_leaves_commits_and_renames_and_follows_them(lake: Kernel, call: Call) -> None:
    marks = lake.catalog.marks
    marks.protect(call, T, protected=True)
    lake.commits.tables.commit(call, set_property("t", "a", "b"))
    lake.catalog.tables.rename(call, table("t"), table("u"))
    assert lake.catalog.tables.describe(call, table("u")).protected
    with pytest.raises(ConflictError):
        lake.catalog.tables.drop(call, table("u"))
    create(lake, call, "t")
    assert not marks.is_protected(call, T)


def test_a_drop_that_has_looked_before_the_protection_is_refused(
    lake: Kernel, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = lake.catalog.tables._changes._find
    with lake.store.read() as conn:
        seen = [find(conn, call, table("t"), "table")]
    monkeypatch.setattr(
        lake.catalog.tables._changes, "_find", lambda *given: seen.pop() if seen else find(*given)
    )
    lake.catalog.marks.protect(call, T, protected=True)
    with pytest.raises(ConflictError, match="Protected"):
        lake.catalog.tables.drop(call, table("t"))
    assert not seen


def test_protection_is_of_what_exists_and_told_in_the_history(lake: Kernel, call: Call) -> None:
    marks = lake.catalog.marks
    with pytest.raises(NotFoundError, match=r"There is no table ns\.x"):
        marks.protect(call, Securable("table", "floecat", ("ns",), "x"), protected=True)
    with pytest.raises(BadRequestError, match="An account"):
        marks.protect(call, Securable("account", ""), protected=True)
    marks.protect(call, NS, protected=True)
    marks.protect(call, NS, protected=False)
    told = [each.change for each in lake.access.questions.history(call, None, 2).items]
    assert told == [f"unprotect {NS}", f"protect {NS}"]
    lake.catalog.tables.drop(call, table("t"))
    with pytest.raises(NoSuchTableError):
        lake.catalog.tables.drop(call, table("t"))
