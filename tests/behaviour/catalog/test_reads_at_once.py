"""What a thread that others wait for, as an event loop's, answers, and what it leaves to another one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec import Raw

from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call, PageRequest
from floecat.errors import StoreUnavailableError
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import SCHEMA, create, table
from tests.updates import decode_view_updates
from tests.view_documents import view_version

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


def refused(kernel: Kernel, work: Callable[[], object]) -> bool:
    with kernel.store.reading_at_once():
        try:
            work()
        except StoreUnavailableError:
            return True
    return False


def test_a_page_of_a_hundred_names(kernel: Kernel, call: Call) -> None:
    names = [f"t{number:03}" for number in range(101)]
    for name in names[1:]:
        create(kernel, call, name)
    whole = PageRequest()
    with kernel.store.reading_at_once():
        found = kernel.catalog.tables.list(call, ("ns",), whole).items
    assert [each.name for each in found] == names[1:]
    create(kernel, call, names[0])
    assert refused(kernel, lambda: kernel.catalog.tables.list(call, ("ns",), whole))
    assert refused(kernel, lambda: kernel.catalog.tables.list(call, ("ns",), PageRequest("", 101)))
    with kernel.store.reading_at_once():
        page = kernel.catalog.tables.list(call, ("ns",), PageRequest("", 100))
    assert [each.name for each in page.items] == names[:100]
    assert page.next_token is not None
    assert [each.name for each in kernel.catalog.tables.list(call, ("ns",), whole).items] == names


def test_a_small_view_in_memory(kernel: Kernel, call: Call) -> None:
    version = Raw(json.dumps(view_version()).encode())
    kernel.commits.views.create(call, ("ns",), CreateView("small", SCHEMA, version))
    large = CreateView("large", SCHEMA, version, {"comment": "x" * 40_000})
    kernel.commits.views.create(call, ("ns",), large)
    assert not refused(kernel, lambda: kernel.catalog.views.load(call, table("small")))
    assert refused(kernel, lambda: kernel.catalog.views.load(call, table("large")))
    assert b"xxx" in kernel.catalog.views.load(call, table("large")).metadata


def test_a_view_that_is_not_in_memory(kernel: Kernel, call: Call) -> None:
    version = Raw(json.dumps(view_version()).encode())
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, version))
    other = type(kernel)(kernel.settings, kernel.store, kernel.files, kernel.clock)
    assert refused(other, lambda: other.catalog.views.load(call, table("v")))
    other.catalog.views.load(call, table("v"))
    assert not refused(other, lambda: other.catalog.views.load(call, table("v")))


def test_a_view_that_another_process_has_replaced(kernel: Kernel, call: Call) -> None:
    version = Raw(json.dumps(view_version()).encode())
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, version))
    other = type(kernel)(kernel.settings, kernel.store, kernel.files, kernel.clock)
    updates = decode_view_updates(b'[{"action":"set-properties","updates":{"comment":"new"}}]')
    other.commits.views.replace(call, table("v"), [], updates)
    assert refused(kernel, lambda: kernel.catalog.views.load(call, table("v")))
    assert b"new" in kernel.catalog.views.load(call, table("v")).metadata
    assert not refused(kernel, lambda: kernel.catalog.views.load(call, table("v")))
