"""Fast loads answer what `TableLoader.load` answers, or leave the load to it."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import Raw

from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import NoSuchTableError
from floecat.runtime import Kernel, open_kernel
from tests.behaviour.catalog.changes import SCHEMA, create, set_property, table
from tests.view_documents import view_version


def state(kernel: Kernel, call: Call, name: str, mode: str = "all") -> str:
    """How a fast load in a thread ends."""
    return kernel.catalog.fast_loads.load(call, table(name), mode, None, may_wait=True).state  # type: ignore[arg-type]


def test_a_table_in_memory_is_answered_as_by_the_loader(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    for mode in ("all", "refs"):
        slow = kernel.catalog.loader.load(call, table("t"), mode)
        fast = kernel.catalog.fast_loads.load(call, table("t"), mode, None, may_wait=True)  # type: ignore[arg-type]
        assert (fast.state, fast.table) == ("loaded", slow)
        current = kernel.catalog.fast_loads.load(call, table("t"), mode, slow.etag, may_wait=True)  # type: ignore[arg-type]
        assert current.table is not None
        assert current.table.not_modified


def test_an_event_loop_never_waits_for_a_remote_store(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    kernel.catalog.tables.load(call, table("t"))
    is_local = kernel.store.at_once is not None
    with kernel.store.count_statements() as counter:
        load = kernel.catalog.fast_loads.load(call, table("t"), "all", None)
    assert (load.state, counter.statements) == (("loaded", 1) if is_local else ("waits", 0))
    assert (load.table is not None) == is_local


def test_what_is_not_in_memory_is_slow(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    view = CreateView("v", SCHEMA, Raw(json.dumps(view_version()).encode()))
    kernel.commits.views.create(call, ("ns",), view)
    kernel.catalog.views.load(call, table("v"))
    assert state(kernel, call, "v") == "slow"
    other = open_kernel(kernel.settings)
    try:
        for name in ("t", "v", "missing"):
            with other.store.count_statements() as counter:
                assert state(other, call, name) == "slow"
            assert counter.statements == 0
        # the refs of a document have to be worked out once
        other.catalog.tables.load(call, table("t"))
        assert (state(other, call, "t", "refs"), state(other, call, "t")) == ("slow", "loaded")
    finally:
        other.close()


def test_what_changed_since_is_slow(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    kernel.catalog.tables.load(call, table("t"))
    other = open_kernel(kernel.settings)
    try:
        other.commits.tables.commit(call, set_property("t", "k", "1"))
        assert state(kernel, call, "t") == "slow"
        kernel.catalog.tables.load(call, table("t"))
        assert state(kernel, call, "t") == "loaded"
        other.purge.drops.drop(call, table("t"), purge=False)
        assert state(kernel, call, "t") == "slow"
        with pytest.raises(NoSuchTableError):
            kernel.catalog.tables.load(call, table("t"))
    finally:
        other.close()


def test_a_commit_of_this_process_stays_fast(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    made = kernel.commits.tables.commit(call, set_property("t", "k", "1"))
    load = kernel.catalog.fast_loads.load(call, table("t"), "all", None, may_wait=True)
    assert load.table is not None
    assert load.table.metadata == made.metadata


def test_where_metadata_files_are_checked_no_load_is_fast(kernel: Kernel, call: Call) -> None:
    gateway = msgspec.structs.replace(kernel.settings.gateway, verify_metadata_file=True)
    settings = msgspec.structs.replace(kernel.settings, gateway=gateway)
    checking = Kernel(settings, kernel.store, kernel.files, kernel.clock)
    create(checking, call, "t")
    checking.catalog.tables.load(call, table("t"))
    assert state(checking, call, "t") == "slow"
