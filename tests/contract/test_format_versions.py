"""Format versions that the catalog does not know are refused by name wherever they can come in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, View, unique
from tests.contract.documents import ID_AND_DATA, order, spec
from tests.contract.files import write_metadata
from tests.contract.updates import (
    assert_create,
    creation,
    remove_properties,
    set_location,
    set_properties,
    update,
)

UPGRADES = {
    "upgrade": update("upgrade-format-version", format_version=4),
    "property": set_properties(**{"format-version": "4"}),
}


@pytest.mark.parametrize("stage", [False, True])
def test_create(catalog: Catalog, namespace: Namespace, stage: bool):
    body = {"name": "t", "schema": ID_AND_DATA, "stage-create": stage, "properties": {"format-version": "4"}}
    answer = catalog.post(catalog.tables_path(namespace), body)
    assert_error(answer, 400, "IllegalArgumentException", "Unsupported format version: v4 (supported: v3)")
    assert catalog.names(catalog.tables_path(namespace)) == []


@pytest.mark.parametrize("how", ["commit", "transaction"])
@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES.keys())
def test_upgrade(catalog: Catalog, namespace: Namespace, table: Table, how: str, upgrade: dict[str, Any]):
    before = table.get()
    if how == "commit":
        answer = table.commit([upgrade])
    else:
        change = {"identifier": table.identifier, "requirements": [], "updates": [upgrade]}
        answer = catalog.post("/transactions/commit", {"table-changes": [change]})
    message = "Cannot upgrade table to unsupported format version: v4 (supported: v3)"
    assert_error(answer, 400, "IllegalArgumentException", message)
    assert table.get() == before


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES.keys())
def test_commit_that_creates(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder, upgrade: dict[str, Any]
):
    location = set_location(f"{warehouse_folder.as_uri()}/{unique('made')}")
    made = creation(ID_AND_DATA, spec(), order(order_id=0), location, upgrade)
    body = {"requirements": [assert_create()], "updates": made}
    answer = local_catalog.post(f"{local_catalog.tables_path(local_namespace)}/t", body)
    message = assert_error(answer, 400, "IllegalArgumentException")
    assert "unsupported format version: v4 (supported: v3)" in message.lower()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("more", [{}, {"snapshots": {"of": "another form"}, "last-column-id": ...}])
def test_register(
    local_catalog: Catalog,
    local_namespace: Namespace,
    warehouse_folder,
    overwrite: bool,
    more: dict[str, Any],
):
    table = local_catalog.create_table(local_namespace)
    body = table.metadata() | {"format-version": 4} | more
    location = write_metadata(
        warehouse_folder / unique("four"), {name: value for name, value in body.items() if value is not ...}
    )
    sent = {
        "name": table.name if overwrite else "t",
        "metadata-location": location,
        "overwrite": overwrite,
    }
    answer = local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/register", sent)
    message = "Cannot read unsupported version 4 (supported: v1 to v3)"
    assert_error(answer, 400, "IllegalArgumentException", message)
    assert table.metadata()["format-version"] == 2


def test_version_2_of_views(local_catalog: Catalog, local_namespace: Namespace, warehouse_folder):
    view: View = local_catalog.create_view(local_namespace)
    message = "Unsupported format version: 2 (supported: 1)"
    up = update("upgrade-format-version", format_version=2)
    assert_error(view.commit([up]), 400, "IllegalArgumentException", message)

    body = view.metadata() | {"format-version": 2, "versions": {"of": "another form"}}
    location = write_metadata(warehouse_folder / unique("two"), body)
    sent = {"name": "v", "metadata-location": location}
    answer = local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/register-view", sent)
    assert_error(answer, 400, "IllegalArgumentException", message)
    assert view.committed([remove_properties("none")])["format-version"] == 1
