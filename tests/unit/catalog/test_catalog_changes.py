"""Locations are added and removed, and catalogs deleted, unless something would be left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    LocationNotAllowedError,
    NoSuchWarehouseError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat.settings import Settings, StorageSettings, StoreSettings
from tests.behaviour.catalog.changes import SCHEMA
from tests.grants import Grants


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def kernel(
    tmp_path: Path, request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]
) -> Iterator[Kernel]:
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        store=StoreSettings(url=upgraded_store(request.param)),
        storage=StorageSettings(fsync=False, addable_locations=("s3://shared/lakes",)),
    )
    opened = open_kernel(settings)
    opened.catalog.catalogs.ensure(
        settings.gateway.default_account_id, "floecat", settings.warehouse_location
    )
    yield opened
    opened.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    return opened_call(kernel)


def opened_call(kernel: Kernel) -> Call:
    return kernel.catalog.calls.open(Principal("anna", kernel.settings.gateway.default_account_id), "floecat")


def test_locations_are_added_where_that_is_allowed(kernel: Kernel, call: Call) -> None:
    changed = kernel.catalog.changes.update(call, add=["s3a://shared/lakes/a/", "s3://shared/lakes/b"])
    assert changed.allowed_locations == ("s3://shared/lakes/a", "s3://shared/lakes/b")
    assert opened_call(kernel).catalog.allowed.check("s3://shared/lakes/b/t")
    for outside in ("s3://shared", "file:///etc"):
        with pytest.raises(LocationNotAllowedError):
            kernel.catalog.changes.update(call, add=[outside])
    changed = kernel.catalog.changes.update(
        call, add=["s3://other"], remove=["s3://shared/lakes/a"], anywhere=True
    )
    assert changed.allowed_locations == ("s3://shared/lakes/b", "s3://other")


def test_what_cannot_be_meant_is_refused(kernel: Kernel, call: Call) -> None:
    for message, changes in (
        ("has no such allowed location of its own: s3://x", {"remove": ["s3://x"]}),
        ("added and removed: s3://x", {"add": ["s3://x"], "remove": ["s3://x/"]}),
        ("absolute URI", {"add": ["x"]}),
    ):
        with pytest.raises(BadRequestError, match=message):
            kernel.catalog.changes.update(call, anywhere=True, **changes)
    assert opened_call(kernel).catalog.allowed_locations == ()


def test_a_catalog_has_a_bounded_number_of_locations(kernel: Kernel, call: Call) -> None:
    most = kernel.settings.limits.catalog_locations
    many = [f"s3://shared/lakes/{number}" for number in range(most + 1)]
    with pytest.raises(BadRequestError, match=r"floecat\.limits\.catalog-locations"):
        kernel.catalog.changes.update(call, add=many)
    assert len(kernel.catalog.changes.update(call, add=many[:-1]).allowed_locations) == most


def test_a_location_in_use_is_not_removed(kernel: Kernel, call: Call, tmp_path: Path) -> None:
    place = (tmp_path / "more").as_uri()
    call = with_location(kernel, call, place)
    kernel.catalog.namespaces.create(call, ("ns",), {})
    table = CreateTable("t", SCHEMA, location=f"{place}/t")
    kernel.commits.tables.create_table(call, ("ns",), table)
    kernel.connectors.connectors.create(call, NewConnector("c", "delta", place))

    def remove() -> None:
        kernel.catalog.changes.update(call, remove=[place])

    in_use = f"In use, so not removed from catalog floecat: {place} "
    with pytest.raises(ConflictError) as error:
        remove()
    assert error.value.message == f"{in_use}(tables and views: 1, connectors: 1)"
    kernel.connectors.connectors.drop(call, "c")
    kernel.purge.drops.drop(call, TableIdentifier(("ns",), "t"), purge=True)
    with pytest.raises(ConflictError) as error:
        remove()
    assert error.value.message == f"{in_use}(jobs: 1)"
    (job,) = kernel.jobs.list(call)
    kernel.jobs.cancel(call, job.id)
    remove()
    assert opened_call(kernel).catalog.allowed_locations == ()


def test_a_location_inside_another_one_can_be_removed(kernel: Kernel, call: Call) -> None:
    place = f"{kernel.settings.warehouse_location}/ns"
    call = with_location(kernel, call, place)
    kernel.catalog.namespaces.create(call, ("ns",), {})
    kernel.commits.tables.create_table(call, ("ns",), CreateTable("t", SCHEMA))
    assert kernel.catalog.changes.update(call, remove=[place]).allowed_locations == ()


def test_only_an_empty_catalog_is_deleted(kernel: Kernel, call: Call) -> None:
    location = kernel.settings.warehouse_location
    for namespace in (("a",), ("a", "b")):
        kernel.catalog.namespaces.create(call, namespace, {})
    kernel.connectors.connectors.create(call, NewConnector("c", "delta", location))
    kernel.commits.tables.create_table(call, ("a",), CreateTable("t", SCHEMA))
    kernel.purge.drops.drop(call, TableIdentifier(("a",), "t"), purge=True)
    with pytest.raises(ConflictError) as error:
        kernel.catalog.changes.delete(call)
    counts = "namespaces: 2, connectors: 1, jobs: 1"
    assert error.value.message == f"Catalog floecat is not empty ({counts})"
    for namespace in (("a", "b"), ("a",)):
        kernel.catalog.namespaces.drop(call, namespace)
    kernel.connectors.connectors.drop(call, "c")
    (job,) = kernel.jobs.list(call)
    kernel.jobs.cancel(call, job.id)
    kernel.catalog.changes.delete(call)
    with pytest.raises(NoSuchWarehouseError):
        opened_call(kernel)


def test_a_call_on_a_deleted_catalog_creates_nothing(kernel: Kernel, call: Call) -> None:
    """As of a process that has found the catalog a moment ago."""
    kernel.catalog.changes.delete(call)
    connector = NewConnector("c", "delta", kernel.settings.warehouse_location)
    for work in (
        lambda: kernel.catalog.namespaces.create(call, ("ns",), {}),
        lambda: kernel.connectors.connectors.create(call, connector),
        lambda: kernel.catalog.changes.delete(call),
        lambda: kernel.catalog.changes.update(call),
    ):
        with pytest.raises(NoSuchWarehouseError):
            work()


def test_a_principal_without_the_privilege_changes_nothing(kernel: Kernel, call: Call) -> None:
    grants = Grants()
    grants.grant("eve", Privilege.USE_CATALOG, "floecat")
    secured = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock, grants)
    eve = secured.catalog.calls.open(Principal("eve", call.principal.account_id), "floecat")
    with pytest.raises(ForbiddenError):
        secured.catalog.changes.delete(eve)
    assert opened_call(kernel).catalog == call.catalog


def with_location(kernel: Kernel, call: Call, place: str) -> Call:
    kernel.catalog.changes.update(call, add=[place], anywhere=True)
    return opened_call(kernel)
