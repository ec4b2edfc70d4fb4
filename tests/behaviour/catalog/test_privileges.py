"""What every operation asks the authorizer for, and that a refused one changes nothing."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
from msgspec import Raw

from floecat.access.changes import ACCOUNT
from floecat.access.refusals import Refusals
from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Check, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.catalog.declared_access import DeclaredAccess
from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.connectors.connector_info import ConnectorUpdate, NewConnector
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NoSuchWarehouseError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.descriptions import JobInfo
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.runtime import Kernel
from floecat.settings.groups.process import AuthSettings
from floecat.statistics.capture.policies import PolicyChange
from floecat.statistics.constraints import ConstraintBundle
from floecat.statistics.index_artifacts import IndexArtifact
from floecat.statistics.records import FileTarget, target_storage_id
from floecat.store.all_tables import metadata
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.delta_tables import writable_copy
from tests.grants import Grants
from tests.updates import decode_view_updates
from tests.view_documents import view_version

P = Privilege
QUERY = UUID(int=1)
PATIENT = PlanClient(60_000)
CATALOG = Securable("catalog", "floecat")


def ns(*levels: str) -> Securable:
    return Securable("namespace", "floecat", levels or ("ns",))


def on(name: str, *, kind: Any = "table") -> Securable:
    return Securable(kind, "floecat", ("ns",), name)


def view(name: str) -> Securable:
    return on(name, kind="view")


class Lake(NamedTuple):
    """A catalog with a bit of everything, and a kernel that asks for grants."""

    kernel: Kernel
    grants: Grants
    ada: Call
    """Of somebody who has all privileges."""
    eve: Call
    """Of somebody who has none but to use the catalog."""
    job: JobInfo
    delta: str
    files: tuple[str, str]
    """Metadata files of a table and a view that are registered no more."""
    plan_id: UUID
    """A scan plan of `t`, which `ada` asked for."""
    capture_id: UUID
    """A capture of `d` that waits for a worker."""


@pytest.fixture
def store_url(upgraded_store: Callable[[str], str]) -> str:
    """One store: none of this is up to the database."""
    return upgraded_store("sqlite")


@pytest.fixture
def lake(kernel: Kernel, call: Call) -> Lake:
    """Tables `t`, `u`, `gone` and the Delta table `d`, the view `v`, the connector `c`, and a job."""
    for name in ("t", "u", "lost", "purged", "gone"):
        create(kernel, call, name)
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, _view_version()))
    folder = kernel.settings.data_path / "warehouse" / "delta"
    writable_copy("kernel-rs/table-with-dv-small", folder / "d")
    writable_copy("kernel-rs/table-with-dv-small", folder / "e")
    kernel.delta.registration.register(call, ("ns",), "d", (folder / "d").as_uri())
    kernel.connectors.connectors.create(call, NewConnector("c", "delta", (folder / "d").as_uri()))
    kernel.purge.drops.drop(call, table("purged"), purge=True)
    (job,) = kernel.jobs.list(call)
    capture = kernel.statistics.captures.capture(call, table("d"), wait_ms=0)
    lost = kernel.catalog.tables.unregister(call, table("lost")).metadata_location or ""
    kernel.commits.views.create(call, ("ns",), CreateView("w", SCHEMA, _view_version()))
    lost_view = kernel.catalog.views.load(call, table("w")).metadata_location
    kernel.catalog.views.drop(call, table("w"))
    grants = Grants()
    grants.grant_all("ada", "floecat")
    grants.grant_all("ada", "")  # the account
    grants.grant("eve", P.USE_CATALOG, "floecat")
    secured = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock, grants)
    ada, eve = (
        secured.catalog.calls.open(Principal(name, call.principal.account_id), "floecat")
        for name in ("ada", "eve")
    )
    plan = secured.planning.plans.plan(ada, table("t"), PlanTableScan(), PATIENT)
    secured.planning.queries.begin(ada, query_id=QUERY)
    return Lake(
        secured, grants, ada, eve, job, (folder / "e").as_uri(), (lost, lost_view), plan.plan_id, capture.id
    )


class Operation(NamedTuple):
    """One method of a service: what it needs, and what it only leaves out where the privilege is missing."""

    method: str
    args: tuple[Any, ...]
    needs: tuple[Check, ...]
    shows: tuple[Check, ...] = ()
    keywords: dict[str, Any] = {}

    def run(self, lake: Lake, call: Call) -> object:
        args = [each(lake) if callable(each) else each for each in self.args]
        result = attrgetter(self.method)(lake.kernel)(call, *args, **self.keywords)
        return list(result) if isinstance(result, Iterator) else result


NS = ("ns",)
PAGE = PageRequest()


def _operations() -> list[Operation]:
    """In an order in which each finds what it needs."""
    op = Operation
    t, v, d = table("t"), table("v"), table("d")
    transaction = [set_property("t", "x", "2"), set_property("u", "x", "2"), _creating("both")]
    new_view = CreateView("w", SCHEMA, _view_version())
    view_update = decode_view_updates(b'[{"action": "set-properties", "updates": {"a": "b"}}]')
    lists = tuple((P.LIST_TABLE, on(name)) for name in ("d", "gone", "t", "u"))
    return [
        op("catalog.namespaces.list", (None, PAGE), (), ((P.LIST_SCHEMA, ns("ns")),)),
        op(
            "catalog.namespaces.create",
            (("a", "b"), {}),
            ((P.CREATE_SCHEMA, ns("a")), (P.CREATE_SCHEMA, ns("a", "b"))),
        ),
        op(
            "catalog.namespaces.list",
            (("a",), PAGE),
            ((P.USE_SCHEMA, ns("a")),),
            ((P.LIST_SCHEMA, ns("a", "b")),),
        ),
        op(
            "catalog.namespaces.walk",
            (("a",),),
            ((P.USE_SCHEMA, ns("a")), (P.USE_SCHEMA, ns("a", "b"))),
            ((P.LIST_SCHEMA, ns("a", "b")),),
        ),
        op("catalog.namespaces.load", (NS,), ((P.USE_SCHEMA, ns()),)),
        op("catalog.namespaces.describe", (NS,), ((P.USE_SCHEMA, ns()),)),
        op("catalog.nested.clashes", (), ((P.MANAGE_CATALOG, CATALOG),)),
        op("catalog.nested.set_nested", (), ((P.MANAGE_CATALOG, CATALOG),), keywords={"nested": True}),
        op("catalog.namespaces.exists", (NS,), ((P.USE_SCHEMA, ns()),)),
        op(
            "catalog.namespaces.ensure",
            (("made",),),
            ((P.USE_SCHEMA, ns("made")), (P.CREATE_SCHEMA, ns("made"))),
        ),
        op("catalog.namespaces.update_properties", (("a",), [], {"x": "y"}), ((P.ALTER_SCHEMA, ns("a")),)),
        op("catalog.namespaces.drop", (("a", "b"),), ((P.DROP_SCHEMA, ns("a", "b")),)),
        op("catalog.tables.list", (NS, PAGE), ((P.USE_SCHEMA, ns()),), lists),
        op("catalog.tables.list_all", (), (), lists),
        op("catalog.tables.list_all", (NS,), ((P.USE_SCHEMA, ns()),), lists),
        op("catalog.tables.exists", (t,), ((P.READ_TABLE, on("t")),)),
        op("catalog.tables.load", (t,), ((P.READ_TABLE, on("t")),)),
        op("catalog.tables.describe", (t,), ((P.READ_TABLE, on("t")),)),
        op("catalog.tables.load", (d,), ((P.READ_TABLE, on("d")),)),
        op("catalog.loader.credentials", (t,), ((P.READ_TABLE, on("t")),)),
        op("catalog.loader.load", (t,), ((P.READ_TABLE, on("t")),)),
        op("catalog.loader.start", (t,), ((P.READ_TABLE, on("t")),)),
        op("planning.plans.plan", (t, PlanTableScan(), PATIENT), ((P.READ_TABLE, on("t")),)),
        op("planning.plans.result", (t, _plan_id), ((P.READ_TABLE, on("t")),)),
        op("planning.plans.cancel", (t, _plan_id), ((P.READ_TABLE, on("t")),)),
        op("planning.explanations.explain", (t,), ((P.READ_TABLE, on("t")),)),
        op("planning.queries.pin", (QUERY, t), ((P.READ_TABLE, on("t")),)),
        op("catalog.metrics.report", (t, _report()), ((P.READ_TABLE, on("t")),)),
        op("commits.tables.create_table", (NS, CreateTable("new", SCHEMA)), ((P.CREATE_TABLE, on("new")),)),
        op(
            "commits.tables.stage_table",
            (NS, CreateTable("staged", SCHEMA), "s"),
            ((P.CREATE_TABLE, on("staged")),),
        ),
        op("commits.tables.commit", (_creating("staged"), "s"), ((P.CREATE_TABLE, on("staged")),)),
        op("commits.tables.commit", (set_property("t", "x", "1"),), ((P.WRITE_TABLE, on("t")),)),
        op(
            "commits.tables.commit_transaction",
            (transaction,),
            ((P.WRITE_TABLE, on("t")), (P.WRITE_TABLE, on("u")), (P.CREATE_TABLE, on("both"))),
        ),
        op("commits.registration.register_table", (NS, "r", _lost_table), ((P.REGISTER_TABLE, on("r")),)),
        op(
            "commits.registration.register_table",
            (NS, "u", _lost_table),
            ((P.REGISTER_TABLE, on("u")), (P.WRITE_TABLE, on("u"))),
            keywords={"overwrite": True},
        ),
        op(
            "catalog.tables.rename",
            (table("r"), table("s")),
            ((P.RENAME_TABLE, on("r")), (P.CREATE_TABLE, on("s"))),
        ),
        op("catalog.tables.unregister", (table("s"),), ((P.DROP_TABLE, on("s")), (P.READ_TABLE, on("s")))),
        op("catalog.tables.drop", (table("both"),), ((P.DROP_TABLE, on("both")),)),
        op(
            "purge.drops.unregister",
            (table("gone"),),
            ((P.DROP_TABLE, on("gone")), (P.READ_TABLE, on("gone"))),
        ),
        op("purge.drops.drop", (table("new"),), ((P.DROP_TABLE, on("new")),), keywords={"purge": False}),
        op(
            "purge.drops.drop",
            (table("staged"),),
            ((P.DROP_TABLE, on("staged")), (P.PURGE_TABLE, on("staged"))),
            keywords={"purge": True},
        ),
        op("purge.orphans.find", (table("u"),), ((P.READ_TABLE, on("u")),)),
        op(
            "purge.orphans.find",
            (table("u"),),
            ((P.PURGE_TABLE, on("u")), (P.READ_TABLE, on("u"))),
            keywords={"delete": True},
        ),
        op(
            "catalog.marks.protect",
            (on("t"),),
            ((P.MANAGE_PROTECTION, on("t")),),
            keywords={"protected": True},
        ),
        op("access.access.grant", ([P.READ_TABLE], on("t"), "group:g"), (_GRANTS, (P.READ_TABLE, on("t")))),
        op("access.access.revoke", ([P.READ_TABLE], on("t"), "group:g"), (_GRANTS,)),
        op("access.access.set_owner", (on("t"), "principal:ada"), tuple((each, on("t")) for each in P)),
        op("access.questions.explain", (_eve, P.READ_TABLE, on("t")), ((P.READ_ACCESS, on("t")),)),
        op("access.questions.own", (on("t"),), (), tuple((each, on("t")) for each in P)),
        op("access.questions.who", (on("t"), None, 10), ((P.READ_ACCESS, on("t")),)),
        op("access.questions.owner", (on("t"),), ((P.READ_ACCESS, on("t")),)),
        op("access.questions.grants_on", (on("t"), None, 10), ((P.READ_ACCESS, on("t")),)),
        op("access.questions.grants_to", ("principal:ada", None, 10), (_ACCESS,)),
        op("access.questions.history", (None, 10), (_ACCESS,)),
        op("access.roles.create", ("role",), ((P.MANAGE_ROLES, ACCOUNT),)),
        op("access.built_in_roles.create", (), _ROLES),
        op("access.roles.list", (), (_ACCESS,)),
        op("access.roles.page", (None, 10), (_ACCESS,)),
        op("access.roles.get", ("role",), (_ACCESS,)),
        op("access.roles.members", ("role", None, 10), (_ACCESS,)),
        op("access.roles.change_members", ("role",), (), _ROLES, keywords={"add": ["group:g"]}),
        op("access.roles.change_roles", ("group:h",), (), _ROLES, keywords={"add": ["role"]}),
        op("access.roles.delete", ("role",), (), _ROLES),
        op("catalog.access.export", (), (_ACCESS,)),
        op("catalog.access.apply", (DeclaredAccess(),), _ROLES),
        op("access.principals.page", (None, 10), (_ACCESS,)),
        op("access.principals.get", ("ada",), (_ACCESS,)),
        op(
            "access.principals.set_disabled",
            ("bob",),
            ((P.MANAGE_PRINCIPALS, ACCOUNT),),
            keywords={"disabled": True},
        ),
        op("access.principals.create", ("carol",), ((P.MANAGE_PRINCIPALS, ACCOUNT),)),
        op("access.roles.of", ("principal:bob",), ((P.READ_ACCESS, ACCOUNT),)),
        op("access.principals.delete", ("bob",), ((P.MANAGE_PRINCIPALS, ACCOUNT),)),
        op("catalog.marks.is_protected", (on("t"),), ((P.READ_ACCESS, on("t")),)),
        op("catalog.marks.is_definer", (v,), ((P.READ_VIEW, view("v")),)),
        op("catalog.marks.set_definer", (v,), ((P.WRITE_VIEW, view("v")),), keywords={"definer": False}),
        op("access.refusals.newest", (10,), ((P.READ_ACCESS, ACCOUNT),)),
        op("catalog.views.list", (NS, PAGE), ((P.USE_SCHEMA, ns()),), ((P.LIST_VIEW, view("v")),)),
        op("catalog.views.list_all", (), (), ((P.LIST_VIEW, view("v")),)),
        op("catalog.views.exists", (v,), ((P.READ_VIEW, view("v")),)),
        op("catalog.views.load", (v,), ((P.READ_VIEW, view("v")),)),
        op("commits.views.create", (NS, new_view), ((P.CREATE_VIEW, view("w")),)),
        op("commits.views.replace", (v, [], view_update), ((P.WRITE_VIEW, view("v")),)),
        op("commits.views.register", (NS, "x", _lost_view), ((P.REGISTER_VIEW, view("x")),)),
        op(
            "catalog.views.rename",
            (table("w"), table("y")),
            ((P.RENAME_VIEW, view("w")), (P.CREATE_VIEW, view("y"))),
        ),
        op("catalog.views.drop", (table("y"),), ((P.DROP_VIEW, view("y")),)),
        op("delta.registration.register", (NS, "e", _delta), ((P.REGISTER_TABLE, on("e")),)),
        op("delta.tables.list", (), (), ((P.LIST_TABLE, on("d")), (P.LIST_TABLE, on("e")))),
        op("delta.tables.materialise", (d, _no_report), ((P.READ_TABLE, on("d")),)),
        op("connectors.connectors.create", (_connector,), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.connectors.list", (), ((P.READ_CONNECTORS, CATALOG),)),
        op("connectors.connectors.page", (None, 10), ((P.READ_CONNECTORS, CATALOG),)),
        op("connectors.connectors.load", ("c",), ((P.READ_CONNECTORS, CATALOG),)),
        op("connectors.connectors.find", ("c", P.READ_CONNECTORS), ((P.READ_CONNECTORS, CATALOG),)),
        op("connectors.connectors.check_root", ("c",), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.connectors.update", ("c", ConnectorUpdate()), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.trial.run", ("c",), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.scans.scan", ("c",), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.scans.compare", ("c",), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op("connectors.jobs.settings", (), ((P.READ_CONNECTORS, CATALOG),)),
        op("connectors.connectors.drop", ("k",), ((P.MANAGE_CONNECTORS, CATALOG),)),
        op(
            "catalog.changes.update",
            (),
            ((P.MANAGE_CATALOG, CATALOG),),
            keywords={"add": ("s3://more",), "anywhere": True},
        ),
        op("statistics.captures.snapshots", (d,), ((P.READ_TABLE, on("d")),)),
        op("statistics.captures.snapshot_page", (d, None, 10), ((P.READ_TABLE, on("d")),)),
        op("statistics.captures.list", (), ((P.READ_JOBS, CATALOG),)),
        op("statistics.captures.page", ((), None, None, 10), ((P.READ_JOBS, CATALOG),)),
        op("statistics.captures.get", (_capture_id,), ((P.READ_JOBS, CATALOG),)),
        op("statistics.captures.tree", (_capture_id,), ((P.READ_JOBS, CATALOG),)),
        op("statistics.captures.wait", (_capture_id, 0), ((P.READ_JOBS, CATALOG),)),
        op("statistics.captures.cancel", (_capture_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("statistics.captures.retry", (_capture_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("statistics.captures.capture", (d,), ((P.MANAGE_JOBS, CATALOG), (P.READ_TABLE, on("d")))),
        op("statistics.captures.backfill", (d,), ((P.MANAGE_JOBS, CATALOG), (P.READ_TABLE, on("d")))),
        op("statistics.policies.get", (t,), ((P.READ_TABLE, on("t")),)),
        op("statistics.policies.change", (t, PolicyChange()), ((P.WRITE_TABLE, on("t")),)),
        op("statistics.policies.change", (None, PolicyChange()), ((P.MANAGE_CATALOG, CATALOG),)),
        op("catalog.changes.change_properties", ({"a": "b"},), ((P.MANAGE_CATALOG, CATALOG),)),
        op("statistics.targets.put", (d, None, ()), ((P.WRITE_TABLE, on("d")),)),
        op("statistics.targets.list", (d,), ((P.READ_TABLE, on("d")),)),
        op("statistics.targets.get", (d, None, "table"), ((P.READ_TABLE, on("d")),)),
        op("statistics.index_artifacts.put", (d, None, _artifacts), ((P.WRITE_TABLE, on("d")),)),
        op("statistics.index_artifacts.list", (d,), ((P.READ_TABLE, on("d")),)),
        op("statistics.index_artifacts.get", (d, None, _INDEXED), ((P.READ_TABLE, on("d")),)),
        op("statistics.constraints.get", (d,), ((P.READ_TABLE, on("d")),)),
        op("statistics.constraints.list", (d,), ((P.READ_TABLE, on("d")),)),
        *(
            op(f"statistics.constraints.{change}", (d, None, ConstraintBundle()), ((P.WRITE_TABLE, on("d")),))
            for change in ("put", "merge", "append")
        ),
        op("statistics.constraints.delete", (d, None), ((P.WRITE_TABLE, on("d")),)),
        op("jobs.list", (), ((P.READ_JOBS, CATALOG),)),
        op("jobs.page", ((), None, None, 10), ((P.READ_JOBS, CATALOG),)),
        op("jobs.get", (_job_id,), ((P.READ_JOBS, CATALOG),)),
        op("jobs.tree", (_job_id,), ((P.READ_JOBS, CATALOG),)),
        op("jobs.wait", (_job_id, 0), ((P.READ_JOBS, CATALOG),)),
        op("jobs.cancel", (_job_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("jobs.retry", (_job_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("jobs.cancel", (_job_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("purge.operations.list", (), ((P.READ_JOBS, CATALOG),)),
        op("purge.operations.page", ((), None, None, 10), ((P.READ_JOBS, CATALOG),)),
        op("purge.operations.get", (_job_id,), ((P.READ_JOBS, CATALOG),)),
        op("purge.operations.retry", (_job_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("purge.operations.cancel", (_job_id,), ((P.READ_JOBS, CATALOG), (P.MANAGE_JOBS, CATALOG))),
        op("purge.operations.tree", (_job_id,), ((P.READ_JOBS, CATALOG),)),
        op("purge.operations.wait", (_job_id, 0), ((P.READ_JOBS, CATALOG),)),
        # the last: it goes on behind the call
        op("connectors.jobs.start", ("c",), ((P.MANAGE_CONNECTORS, CATALOG),)),
    ]


_ASK_NOTHING = {
    # about places in storage, not about names
    "delta.registration.root",
    "delta.registration.known",
    "registrations.known",
    "connectors.connectors.open",
    # names a state; the answers that are kept by it were made of decisions
    "catalog.list_states.state",
    # of the principal's own query
    "planning.queries.begin",
    "planning.queries.get",
    "planning.queries.renew",
    "planning.queries.complete",
    "planning.queries.end",
    # of a table that was looked up with a privilege
    "delta.format.current",
    "delta.format.materialise",
    "delta.format.refresh",
    "catalog.answers.current",
    "catalog.answers.document",
    "catalog.answers.of_table",
    "parts.writes.apply",
    # whoever reads asks: `tests/behaviour/catalog/test_definers.py`
    "catalog.view_chains.through",
}
_AS_ANOTHER = {
    # test_following: it needs a catalog to follow
    "connectors.adoption.adopt",
    # below: they are the fast loads
    "catalog.fast_loads.load",
    "parts.entries.find_table",
    "parts.entries.find_view",
    "parts.entries.find_many",
    # below: they choose among readings of a name
    "catalog.resolver.namespace",
    "catalog.resolver.schema",
    "catalog.resolver.entry",
    "catalog.resolver.parent",
    # finds its plan as "planning.plans.result"
    "planning.tasks.fetch",
    # listings, and "purge.orphans.find" of each table
    "purge.orphans.find_all",
    # only works on an empty catalog: `tests/unit/catalog/test_catalog_changes.py`
    "catalog.changes.delete",
    # how statistics, index artifacts, constraints and captures find their table
    "statistics.snapshots.read",
    "statistics.snapshots.table",
    "statistics.snapshots.write",
    # add keys for what a look-up found, and asked for
    "credentials.vending.at_once",
    "credentials.vending.of",
    "credentials.vending.of_new",
    "credentials.vending.config",
    "catalog.loader.made",
    "catalog.loader.make_keys",
    "catalog.loader.made_by",
    "credentials.vending.signed_scopes",
    "credentials.vending.holds_others",
    "credentials.vending.places_of_new",
    # looks the table up as a load does: see `tests/behaviour/storage/test_signing.py`
    "credentials.signing.sign",
    # ask on the account: `tests/behaviour/credentials/test_authorities.py`
    "access.changes.run",
    "credentials.authorities.check_use",
    "credentials.authorities.create",
    "credentials.authorities.delete",
    "credentials.authorities.get",
    "credentials.authorities.page",
    "credentials.authorities.update",
    # tells the name of the account of who asks
    "access.accounts.of",
    # works on a scan that was asked for
    "connectors.scans.run",
    # ask for the key of a call
    "parts.keys.run",
    "parts.keys.claim",
}


def _services(kernel: Kernel) -> Iterator[tuple[str, object]]:
    """What the kernel holds, and what its packages hold, by the names that lead there."""
    for name, held in vars(kernel).items():
        yield name, held
        for field in fields(held) if is_dataclass(held) else ():
            yield f"{name}.{field.name}", getattr(held, field.name)


def test_every_method_that_takes_a_call_is_here(kernel: Kernel) -> None:
    found = {
        f"{path}.{name}"
        for path, service in _services(kernel)
        for name, method in inspect.getmembers(service, inspect.ismethod)
        if not name.startswith("_")
        and next(iter(inspect.signature(method).parameters), "") in ("call", "actor")
    }
    assert found == {each.method for each in _operations()} | _ASK_NOTHING | _AS_ANOTHER


def test_every_operation_asks_and_a_refused_one_changes_nothing(lake: Lake) -> None:
    for operation in _operations():
        for refused in operation.needs:
            lake.grants.deny_only(refused)
            before = _state(lake.kernel)
            privilege, securable = refused
            with pytest.raises(ForbiddenError) as error:
                operation.run(lake, lake.ada)
            assert error.value.message == f"ada does not have the privilege {privilege} on {securable}"
            assert _state(lake.kernel) == before, (operation.method, refused)
        lake.grants.deny_only()
        lake.grants.asked.clear()
        operation.run(lake, lake.ada)
        assert set(lake.grants.asked) == {*operation.needs, *operation.shows}, operation.method


def test_every_privilege_is_asked_for() -> None:
    asked = {
        privilege
        for operation in _operations()
        for privilege, _ in (*operation.needs, *operation.shows)
        if len({*operation.needs, *operation.shows}) < len(P)  # who gives things away must have all
    }
    for_later = {P.READ_AUTHORITIES, P.MANAGE_AUTHORITIES, P.USE_AUTHORITY, P.READ_WORKERS, P.MANAGE_WORKERS}
    assert set(P) - asked == {P.USE_CATALOG, P.CREATE_CATALOG, P.MANAGE_OWNERS} | for_later


def test_a_refusal_does_not_tell_what_exists(lake: Lake) -> None:
    """Each answer is the same for a name that exists and one that does not."""
    kernel, call = lake.kernel, lake.eve
    works: dict[str, Callable[[str], object]] = {
        "table t": lambda name: kernel.catalog.tables.load(call, table(name)),
        "table u": lambda name: kernel.catalog.tables.exists(call, table(name)),
        "view v": lambda name: kernel.catalog.views.load(call, table(name)),
        "namespace ns": lambda name: kernel.catalog.namespaces.load(call, (name,)),
    }
    for known, work in works.items():
        kind, name = known.split()
        for asked in (name, "nothing"):
            with pytest.raises(ForbiddenError) as error:
                work(asked)
            path = asked if kind == "namespace" else f"ns.{asked}"
            assert error.value.message.endswith(f"on {kind} {path} of catalog floecat")
    for made in ("t", "nothing"):
        with pytest.raises(ForbiddenError):
            create(kernel, call, made)
    for namespace in ("ns", "nothing"):
        with pytest.raises(ForbiddenError):
            kernel.catalog.namespaces.create(call, (namespace,), {})


@pytest.fixture
def hiding(lake: Lake) -> Iterator[Lake]:
    """The same with `floecat.auth.hide-forbidden`, and refusals recorded."""
    auth = AuthSettings(hide_forbidden=True, record_refusals=True)
    settings = msgspec.structs.replace(lake.kernel.settings, auth=auth)
    kernel = Kernel(settings, lake.kernel.store, lake.kernel.files, lake.kernel.clock, lake.grants)
    ada, eve = (kernel.catalog.calls.open(call.principal, "floecat") for call in (lake.ada, lake.eve))
    yield lake._replace(kernel=kernel, ada=ada, eve=eve)
    kernel.background.stop()


KNOWN = {
    "catalog": (P.USE_CATALOG, NoSuchWarehouseError),
    "namespace": (P.LIST_SCHEMA, NoSuchNamespaceError),
    "table": (P.LIST_TABLE, NoSuchTableError),
    "view": (P.LIST_VIEW, NoSuchViewError),
}


def _told_of(privilege: Privilege, securable: Securable) -> tuple[Securable, str]:
    """What a refusal is about, and what is said of it if it is missing: what is made is asked for where."""
    levels = (*securable.namespace, *([securable.name] if securable.name else []))
    if privilege.startswith(("create", "register")) and securable.kind != "catalog":
        levels = levels[:-1]
        kind = "namespace" if levels else "catalog"
        securable = Securable(kind, securable.catalog, levels)  # type: ignore[arg-type]
    word = "Warehouse" if securable.kind == "catalog" else securable.kind.capitalize()
    return securable, f"{word} does not exist: {'.'.join(levels) or securable.catalog}"


def test_what_may_not_be_known_of_is_told_as_missing_by_every_operation(hiding: Lake) -> None:
    lake, seen = hiding, set()
    for operation in _operations():
        for refused in operation.needs:
            if operation.method == "catalog.namespaces.ensure" and refused[0] == P.USE_SCHEMA:
                continue  # to it a missing one is one to be made
            about, missing = _told_of(*refused)
            known, kind = KNOWN.get(about.kind, KNOWN["catalog"])
            lake.grants.deny_only(refused)
            before = _state(lake.kernel)
            if refused != (known, about):
                with pytest.raises(ForbiddenError, match=f"privilege {refused[0]} on {refused[1]}"):
                    operation.run(lake, lake.ada)  # of what it may know of
            if about.kind == "account" or (known, about) in operation.shows:
                continue  # its account is known to each; what is not listed is not asked about
            lake.grants.deny_only(refused, (known, about))
            with pytest.raises(kind) as error:
                operation.run(lake, lake.ada)
            assert error.value.message == missing, (operation.method, refused)
            assert _state(lake.kernel) == before, (operation.method, refused)
            seen.add(about.kind)
        lake.grants.deny_only()
        operation.run(lake, lake.ada)
    assert seen == set(KNOWN)


def test_a_hidden_thing_and_a_missing_one_are_the_same(hiding: Lake) -> None:
    kernel, nobody = hiding.kernel, Principal("mallory", hiding.ada.principal.account_id)
    for name in ("floecat", "nothing"):
        with pytest.raises(NoSuchWarehouseError, match=f"^Warehouse does not exist: {name}$"):
            kernel.catalog.calls.open(nobody, name)
    for name in ("t", "nothing"):
        with pytest.raises(NoSuchTableError, match=rf"^Table does not exist: ns\.{name}$"):
            kernel.catalog.tables.load(hiding.eve, table(name))
        with pytest.raises(NoSuchTableError, match=rf"^Table does not exist: ns\.{name}$"):
            kernel.catalog.tables.drop(hiding.eve, table(name))
        with pytest.raises(NoSuchNamespaceError, match=r"^Namespace does not exist: ns$"):
            create(kernel, hiding.eve, name)


def test_refusals_are_counted_and_recorded_within_bounds(hiding: Lake) -> None:
    kernel, refusals = hiding.kernel, hiding.kernel.access.refusals
    reader = Actor(hiding.eve.principal, AllowAll())
    for name in (table("t"), table("t"), table("nothing"), TableIdentifier(("a", "b"), "t")):
        with pytest.raises(NoSuchTableError):
            kernel.catalog.tables.load(hiding.eve, name)
    assert refusals.counts == {("read_table", "table"): 4}
    assert refusals.newest(reader, 10) == []
    refusals.flush()
    told = [
        (each.principal, each.privilege, each.securable, each.times) for each in refusals.newest(reader, 10)
    ]
    assert sorted(told) == [
        ("eve", "read_table", "table a:b.t of catalog floecat", 1),
        ("eve", "read_table", "table ns.nothing of catalog floecat", 1),
        ("eve", "read_table", "table ns.t of catalog floecat", 2),
    ]
    assert refusals.newest(Actor(Principal("other", UUID(int=7)), AllowAll()), 10) == []
    with pytest.raises(ForbiddenError, match="read_access on the account"):
        refusals.newest(hiding.eve, 10)
    few = Refusals(kernel.store, kernel.clock, records=True, most_rows=5, kept_ms=1_000)
    for number in range(2_000):
        few.note(hiding.eve.principal, (P.READ_TABLE, on(f"a\0b{number}" + "x" * 5_000)))
    few.flush()
    few.flush()
    kept = few.newest(reader, 100)
    assert len(kept) == 5
    assert all(len(each.securable) <= 500 and each.securable.startswith("table ns.a?b") for each in kept)
    kernel.store.run(lambda conn: few.sweep(conn, kernel.clock.now_ms() + 2_000, 100))
    assert few.newest(reader, 100) == []


def test_those_with_the_privilege_learn_what_is_missing(lake: Lake) -> None:
    for work, error in (
        (lambda: lake.kernel.catalog.tables.load(lake.ada, table("v")), NoSuchTableError),
        (lambda: lake.kernel.catalog.views.load(lake.ada, table("t")), NoSuchViewError),
        (lambda: lake.kernel.catalog.namespaces.load(lake.ada, ("nothing",)), NoSuchNamespaceError),
        (lambda: create(lake.kernel, lake.ada, "t"), AlreadyExistsError),
    ):
        with pytest.raises(error):
            work()


class TestCatalogs:
    def test_a_call_needs_the_catalog_whether_or_not_it_exists(self, lake: Lake) -> None:
        mallory = Principal("mallory", lake.ada.principal.account_id)
        for name in ("floecat", "nothing"):
            with pytest.raises(ForbiddenError, match=f"use_catalog on catalog {name}"):
                lake.kernel.catalog.calls.open(mallory, name)
        lake.grants.grant("mallory", P.USE_CATALOG, "nothing")
        with pytest.raises(NoSuchWarehouseError):
            lake.kernel.catalog.calls.open(mallory, "nothing")

    def test_a_warehouse_that_is_a_location_is_one_that_may_be_used(self, lake: Lake) -> None:
        location = f"{lake.kernel.settings.warehouse_location}/some/where"
        assert (
            lake.kernel.catalog.calls.open_warehouse(lake.ada.principal, location).catalog.name == "floecat"
        )
        mallory = Principal("mallory", lake.ada.principal.account_id)
        with pytest.raises(NoSuchWarehouseError):
            lake.kernel.catalog.calls.open_warehouse(mallory, location)

    def test_a_role_is_granted_to(self, lake: Lake) -> None:
        lake.grants.grant("readers", P.READ_TABLE, "floecat", "ns")
        lake.grants.grant("readers", P.USE_CATALOG, "floecat")
        bob = Principal("bob", lake.ada.principal.account_id, groups=("readers",))
        call = lake.kernel.catalog.calls.open(bob, "floecat")
        lake.kernel.catalog.tables.load(call, table("t"))
        with pytest.raises(ForbiddenError):
            lake.kernel.commits.tables.commit(call, set_property("t", "x", "9"))


class TestNamespaces:
    def test_only_missing_parents_are_asked_for(self, lake: Lake) -> None:
        lake.kernel.catalog.namespaces.create(lake.ada, ("p",), {})
        lake.grants.grant("eve", P.CREATE_SCHEMA, "floecat", "p", "q")
        lake.kernel.catalog.namespaces.create(lake.eve, ("p", "q", "r"), {})
        with pytest.raises(ForbiddenError, match=r"create_schema on namespace p\.s "):
            lake.kernel.catalog.namespaces.create(lake.eve, ("p", "s"), {})
        lake.grants.grant("eve", P.CREATE_SCHEMA, "floecat", "m", "n")
        with pytest.raises(ForbiddenError, match="create_schema on namespace m "):
            lake.kernel.catalog.namespaces.create(lake.eve, ("m", "n"), {})
        with pytest.raises(NoSuchNamespaceError):
            lake.kernel.catalog.namespaces.load(lake.ada, ("m",))


class TestListings:
    @pytest.fixture
    def many(self, lake: Lake) -> Lake:
        """Of 24 tables, 24 views and 24 namespaces each third is for eve."""
        kernel, grants = lake.kernel, lake.grants
        kernel.catalog.namespaces.create(lake.ada, ("many",), {})
        for number in range(24):
            name = f"n{number:02}"
            kernel.catalog.namespaces.create(lake.ada, ("many", name), {})
            kernel.commits.tables.create_table(
                lake.ada, ("many",), CreateTable(name=f"t{name}", schema=SCHEMA)
            )
            kernel.commits.views.create(lake.ada, ("many",), CreateView(f"v{name}", SCHEMA, _view_version()))
            if number % 3 == 1:
                grants.grant("eve", P.LIST_SCHEMA, "floecat", "many", name)
                grants.grant("eve", P.LIST_TABLE, "floecat", "many", f"t{name}")
                grants.grant("eve", P.LIST_VIEW, "floecat", "many", f"v{name}")
        grants.grant("eve", P.USE_SCHEMA, "floecat", "many")
        return lake

    def test_pages_are_full_of_what_may_be_seen(self, many: Lake) -> None:
        kernel, eve = many.kernel, many.eve
        expected = [f"n{number:02}" for number in range(1, 24, 3)]
        listings: list[tuple[Callable[[PageRequest], Any], Callable[[str], Any]]] = [
            (
                lambda page: kernel.catalog.tables.list(eve, ("many",), page),
                lambda name: TableIdentifier(("many",), f"t{name}"),
            ),
            (
                lambda page: kernel.catalog.views.list(eve, ("many",), page),
                lambda name: TableIdentifier(("many",), f"v{name}"),
            ),
            (lambda page: kernel.catalog.namespaces.list(eve, ("many",), page), lambda name: ("many", name)),
        ]
        for listing, item in listings:
            assert listing(PageRequest()).items == [item(name) for name in expected]
            for size in (1, 2, 3, 7, 8, 9, 100):
                pages, token = [], ""
                while token is not None:
                    page = listing(PageRequest(token, size))
                    pages.append(page.items)
                    token = page.next_token
                assert [each for page in pages for each in page] == [item(name) for name in expected]
                assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
                assert pages[-1]

    def test_a_page_is_one_question_and_those_few_can_see_few_more(self, many: Lake) -> None:
        asked: list[int] = []
        allowed = many.grants.allowed
        many.grants.allowed = lambda who, checks, _=None: asked.append(len(checks)) or allowed(who, checks)  # type: ignore[method-assign,func-returns-value,misc]
        many.kernel.catalog.tables.list(many.ada, ("many",), PageRequest("", 10))
        assert asked == [1, 11]
        asked.clear()
        many.kernel.catalog.tables.list(many.eve, ("many",), PageRequest("", 2))
        assert asked == [1, 3, 6]

    def test_nothing_is_seen_at_the_top_without_privileges(self, lake: Lake) -> None:
        assert lake.kernel.catalog.namespaces.list(lake.eve, None, PageRequest("", 1)).items == []
        assert lake.kernel.catalog.namespaces.list(lake.eve, None, PageRequest("", 1)).next_token is None
        assert list(lake.kernel.delta.tables.list(lake.eve)) == []


class TestReadings:
    def test_a_reading_that_may_not_be_known_counts_as_missing(self, lake: Lake) -> None:
        kernel = lake.kernel
        create(kernel, lake.ada, "a b")
        kernel.catalog.namespaces.create(lake.ada, ("n n",), {})
        assert kernel.catalog.resolver.entry(lake.ada, "ns", "a+b") == table("a b")
        assert kernel.catalog.resolver.entry(lake.eve, "ns", "a+b") == table("a+b")
        for read in (kernel.catalog.resolver.namespace, kernel.catalog.resolver.schema):
            assert (read(lake.ada, "n+n"), read(lake.eve, "n+n")) == (("n n",), ("n+n",))
        lake.grants.grant("eve", P.LIST_VIEW, "floecat", "ns")
        assert kernel.catalog.resolver.entry(lake.eve, "ns", "a+b") == table("a+b")
        lake.grants.grant("eve", P.LIST_TABLE, "floecat", "ns", "a b")
        lake.grants.grant("eve", P.LIST_SCHEMA, "floecat", "n n")
        assert kernel.catalog.resolver.entry(lake.eve, "ns", "a+b") == table("a b")
        assert kernel.catalog.resolver.namespace(lake.eve, "n+n") == ("n n",)


class TestFastLoads:
    def test_what_is_in_memory_is_asked_for_with_each_load(self, lake: Lake) -> None:
        kernel = lake.kernel
        kernel.catalog.tables.load(lake.ada, table("t"))
        etag = None
        for call, refused in ((lake.ada, False), (lake.eve, True), (lake.ada, False), (lake.eve, True)):
            lake.grants.asked.clear()
            if refused:
                with pytest.raises(ForbiddenError, match="read_table on table"):
                    kernel.catalog.fast_loads.load(call, table("t"), "all", etag, may_wait=True)
            else:
                answer = kernel.catalog.fast_loads.load(call, table("t"), "all", etag, may_wait=True).table
                assert answer is not None
                etag = answer.etag
            assert lake.grants.asked

    def test_a_revoked_privilege_counts_at_once(self, lake: Lake) -> None:
        kernel = lake.kernel
        kernel.catalog.tables.load(lake.ada, table("t"))
        for check in ((P.READ_TABLE, on("t")), (P.USE_CATALOG, CATALOG)):
            lake.grants.deny_only(check)
            with pytest.raises(ForbiddenError):
                kernel.catalog.fast_loads.load(lake.ada, table("t"), "all", None, may_wait=True)


class TestKeys:
    def test_a_refusal_is_not_kept_under_the_key(self, lake: Lake) -> None:
        keyed = with_key(lake.eve, "0190a1b2-0000-7000-8000-000000000009")
        for _ in range(2):
            with pytest.raises(ForbiddenError):
                create(lake.kernel, keyed, "keyed")
        lake.grants.grant("eve", P.CREATE_TABLE, "floecat", "ns")
        made = create(lake.kernel, keyed, "keyed")
        assert create(lake.kernel, keyed, "keyed").metadata == made.metadata


_ACCESS = (P.READ_ACCESS, ACCOUNT)
_GRANTS = (P.MANAGE_GRANTS, on("t"))
_ROLES = tuple((each, ACCOUNT) for each in P)
"""Who lacks one of these must own the role, or be in it and manage roles: `test_delegation.py`."""


def _eve(lake: Lake) -> Principal:
    return lake.eve.principal


def _lost_table(lake: Lake) -> str:
    return lake.files[0]


def _lost_view(lake: Lake) -> str:
    return lake.files[1]


def _delta(lake: Lake) -> str:
    return lake.delta


def _connector(lake: Lake) -> NewConnector:
    return NewConnector("k", "delta", lake.delta)


def _plan_id(lake: Lake) -> UUID:
    return lake.plan_id


def _job_id(lake: Lake) -> UUID:
    return lake.job.id


def _capture_id(lake: Lake) -> UUID:
    return lake.capture_id


_INDEXED = target_storage_id(FileTarget("file"))


def _artifacts(lake: Lake) -> list[IndexArtifact]:
    return [IndexArtifact(FileTarget("file"), f"{lake.delta}/index.parquet")]


def _no_report(_: Lake) -> Callable[..., None]:
    return lambda *_: None


def _state(kernel: Kernel) -> tuple[dict[str, list[str]], list[str]]:
    """Everything in the store, and the names of all files."""
    with kernel.store.read() as conn:
        rows = {name: sorted(map(repr, conn.all(sa.select(rows)))) for name, rows in metadata.tables.items()}
    root = Path(kernel.settings.data_dir) / "warehouse"
    return rows, sorted(str(path) for path in root.rglob("*"))


def _creating(name: str) -> Any:
    schema = json.loads(bytes(SCHEMA))
    return change(
        name,
        [
            {"action": "assign-uuid", "uuid": "0190a1b2-0000-4000-8000-000000000001"},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
        [{"type": "assert-create"}],
    )


def _view_version() -> Raw:
    return Raw(json.dumps(view_version()).encode())


def _report() -> bytes:
    return json.dumps(
        {
            "report-type": "scan-report",
            "table-name": "t",
            "snapshot-id": 1,
            "filter": True,
            "schema-id": 0,
            "projected-field-ids": [],
            "projected-field-names": [],
            "metrics": {},
        }
    ).encode()
