"""With `floecat.gateway.client-locations = "refuse"`, clients choose no location."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import Raw

from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import BadRequestError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.updates import decode_view_updates
from tests.view_documents import view_version

REFUSAL = r"floecat\.gateway\.client-locations"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    settings = load_settings(
        overrides={"floecat.data-dir": str(tmp_path), "floecat.gateway.client-locations": "refuse"}
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    made = kernel.catalog.calls.open(
        Principal("tester", kernel.settings.gateway.default_account_id), "floecat"
    )
    kernel.catalog.namespaces.create(made, ("ns",), {})
    return made


def root(call: Call) -> str:
    return f"{call.catalog.storage_location}/ns"


CHOSEN = [
    "{root}/u",
    "{root}/other-0123456789ab",
    "{root}/t/x",
    "{root}",
    "{root}/t-",
    "{root}/t-x",
    "{root}/../ns/t",
    "{root}2/t",
]
GIVEN = [
    "{root}/t",
    "{root}/t/",
    "{root}/t-0123456789ab",
    "{root}/t-" + UUID(int=7, version=4).hex,
    "{root}/t-" + str(UUID(int=8, version=4)),
]


@pytest.mark.parametrize("location", CHOSEN)
def test_a_chosen_location_is_refused(kernel: Kernel, call: Call, location: str) -> None:
    location = location.format(root=root(call))
    with pytest.raises(BadRequestError):
        create(kernel, call, "t", location=location)
    with pytest.raises(BadRequestError):
        kernel.commits.tables.stage_table(
            call, ("ns",), CreateTable(name="t", schema=SCHEMA, location=location), None
        )
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": str(uuid4())},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": json.loads(bytes(SCHEMA))},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    moved = [*updates, {"action": "set-location", "location": location}]
    with pytest.raises(BadRequestError):
        kernel.commits.tables.commit(call, change("t", moved, [{"type": "assert-create"}]))
    version = Raw(json.dumps(view_version()).encode())
    with pytest.raises(BadRequestError):
        kernel.commits.views.create(call, ("ns",), CreateView("t", SCHEMA, version, location=location))
    kernel.commits.tables.commit(call, change("t", updates, [{"type": "assert-create"}]))
    with pytest.raises(BadRequestError):
        kernel.commits.tables.commit(call, change("t", [{"action": "set-location", "location": location}]))


@pytest.mark.parametrize("location", GIVEN)
def test_a_location_of_the_form_of_a_default_one_is_taken(kernel: Kernel, call: Call, location: str) -> None:
    create(kernel, call, "t", location=location.format(root=root(call)))


def test_a_table_may_not_write_elsewhere(kernel: Kernel, call: Call) -> None:
    place = json.loads(create(kernel, call, "t").metadata)["location"]
    commit = kernel.commits.tables.commit
    for key in ("write.data.path", "write.metadata.path", "write.object-storage.path"):
        with pytest.raises(BadRequestError, match=REFUSAL):
            commit(call, set_property("t", key, f"{root(call)}/u"))
        with pytest.raises(BadRequestError, match=REFUSAL):
            create(kernel, call, "u", properties={key: f"{root(call)}/t"})
        commit(call, set_property("t", key, f"{place}/files"))
    same = [{"action": "set-location", "location": place}]
    commit(call, change("t", [*same, {"action": "set-properties", "updates": {"k": "v"}}]))


def test_a_view_may_not_move(kernel: Kernel, call: Call) -> None:
    version = Raw(json.dumps(view_version()).encode())
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, version))
    updates = decode_view_updates(
        Raw(json.dumps([{"action": "set-location", "location": f"{root(call)}/v"}]).encode())
    )
    with pytest.raises(BadRequestError, match=REFUSAL):
        kernel.commits.views.replace(call, table("v"), [], updates)


def test_a_namespace_may_name_its_own_folder_alone(kernel: Kernel, call: Call) -> None:
    namespaces = kernel.catalog.namespaces
    with pytest.raises(BadRequestError, match=REFUSAL):
        namespaces.create(call, ("other",), {"location": root(call)})
    namespaces.create(call, ("other",), {"location": f"{call.catalog.storage_location}/other"})
    with pytest.raises(BadRequestError, match=REFUSAL):
        namespaces.update_properties(call, ("other",), [], {"location": root(call)})


def test_registration_brings_its_location(kernel: Kernel, call: Call) -> None:
    made = create(kernel, call, "t")
    assert made.metadata_location is not None
    kernel.commits.registration.register_table(call, ("ns",), "u", made.metadata_location)
