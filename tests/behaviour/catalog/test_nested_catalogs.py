"""The separator of schemas: when it changes, and what stands in its way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from time import sleep

import pytest

from floecat.entries.calls import Call, PageRequest
from floecat.errors import AlreadyExistsError, BadRequestError, ConflictError, SettingsError
from floecat.runtime import Kernel, open_kernel
from floecat.settings import Settings
from floecat.settings.groups.namespaces import NamespaceSettings
from floecat.store.catalogs import catalogs
from floecat.store.database.connections import Connection


@pytest.fixture
def reopened(kernel: Kernel) -> Callable[..., Kernel]:
    """The same store in a kernel with other settings of namespaces, to be closed."""

    def open_with(**settings: object) -> Kernel:
        given = {name: getattr(kernel.settings, name) for name in Settings.__struct_fields__}
        return open_kernel(Settings(**given | {"namespaces": NamespaceSettings(**settings)}))  # type: ignore[arg-type]

    return open_with


def test_another_separator_is_adopted_where_no_name_holds_it(
    kernel: Kernel, call: Call, reopened: Callable[..., Kernel]
):
    kernel.catalog.namespaces.create(call, ("a;b",), {})
    kernel.catalog.namespaces.create(call, ("outer", "c;d", "inner"), {})
    other = reopened(separator=";")
    try:
        with pytest.raises(SettingsError) as refused:
            other.catalog.nested.adopt_separator()
        message = refused.value.message
        assert "2 namespaces hold ';' in catalog floecat: " in message
        assert "'a;b'" in message
        assert "'outer:c;d'" in message
        assert list(other.catalog.nested.clashes(call)) == [("a;b",), ("outer", "c;d")]
        for name in (("a;b",), ("outer", "c;d", "inner"), ("outer", "c;d")):
            kernel.catalog.namespaces.drop(call, name)
        other.catalog.nested.adopt_separator()
        # what began with the former separator is held to the new one
        with pytest.raises(BadRequestError, match="separator ';'"):
            kernel.catalog.namespaces.create(call, ("e;f",), {})
        kernel.catalog.namespaces.create(call, ("e:f",), {})
        with pytest.raises(SettingsError, match="'e:f'"):
            kernel.catalog.nested.adopt_separator()
    finally:
        other.close()


def test_a_catalog_that_is_made_flat_meanwhile_stays_flat(
    kernel: Kernel, call: Call, reopened: Callable[..., Kernel]
):
    other = reopened(separator=";")
    is_flat = Event()

    def make_flat(conn: Connection) -> None:
        assert catalogs.get(conn, call.catalog.id, for_update=True) is not None
        is_flat.set()
        sleep(0.5)  # on PostgreSQL, the other one has read the catalog, and waits for it
        catalogs.set_separator(conn, call.catalog.id, None, kernel.clock.now_ms(), "anna")

    try:
        with ThreadPoolExecutor(1) as pool:
            flat = pool.submit(kernel.store.run, make_flat)
            assert is_flat.wait(30)
            other.catalog.nested.adopt_separator()
            flat.result()
        assert other.catalog.catalogs.by_id(call.catalog.id).schema_separator is None
    finally:
        other.close()


def test_names_that_are_made_while_a_catalog_becomes_nested_do_not_hold_the_separator(
    kernel: Kernel, call: Call
):
    nested, namespaces = kernel.catalog.nested, kernel.catalog.namespaces
    for number in range(10):
        nested.set_nested(call, nested=False)
        name = (f"x:{number}",)

        def create(name: tuple[str, ...] = name) -> bool:
            try:
                namespaces.create(call, name, {})
            except BadRequestError:
                return False
            return True

        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(create)
            try:
                nested.set_nested(call, nested=True)
            except ConflictError:
                is_nested = False
            else:
                is_nested = True
            assert made.result() is not is_nested
        if made.result():
            namespaces.drop(call, name)


def test_a_catalog_with_clashes_stays_flat(kernel: Kernel, call: Call):
    nested, namespaces = kernel.catalog.nested, kernel.catalog.namespaces
    assert nested.set_nested(call, nested=False).schema_separator is None
    for number in range(25):
        namespaces.create(call, (f"x:{number:02}",), {})
    with pytest.raises(ConflictError, match=r"25 namespaces hold ':' in catalog floecat: .* and 5 more\."):
        nested.set_nested(call, nested=True)
    assert len(nested.clashes(call)) == 25
    for number in range(25):
        namespaces.drop(call, (f"x:{number:02}",))
    assert nested.set_nested(call, nested=True).schema_separator == ":"
    with pytest.raises(BadRequestError, match="separator ':'"):
        namespaces.create(call, ("top", "x:1"), {})


def test_a_predefined_separator_is_reserved_in_flat_catalogs_too(
    kernel: Kernel, call: Call, reopened: Callable[..., Kernel]
):
    kernel.catalog.nested.set_nested(call, nested=False)
    other = reopened(separator_policy="predefined")
    try:
        with pytest.raises(BadRequestError, match="separator ':'"):
            other.catalog.namespaces.create(call, ("a:b",), {})
        other.catalog.namespaces.create(call, ("a;b",), {})
    finally:
        other.close()


def test_new_catalogs_are_as_the_settings_say(
    kernel: Kernel, tmp_path: Path, reopened: Callable[..., Kernel]
):
    account = kernel.settings.gateway.default_account_id
    assert kernel.catalog.catalogs.create(account, "one", tmp_path.as_uri()).schema_separator == ":"
    other = reopened(nested=False)
    try:
        assert other.catalog.catalogs.create(account, "two", tmp_path.as_uri()).schema_separator is None
    finally:
        other.close()


def test_of_creates_of_one_chain_at_once_one_makes_all_of_it(kernel: Kernel, call: Call):
    namespaces = kernel.catalog.namespaces
    for number in range(5):
        chain = (f"c{number}", "a", "b", "c")
        begin = Barrier(4)

        def create(depth: int, chain: tuple[str, ...] = chain, begin: Barrier = begin) -> bool:
            begin.wait(30)
            try:
                namespaces.create(call, chain[:depth], {})
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(create, (4, 4, 4, 2)))
        assert made[:3].count(True) == 1
        found = [chain[:1], *namespaces.walk(call, chain[:1])]
        assert found == [chain[:depth] for depth in range(1, 5)]


def test_statements_do_not_depend_on_how_many_namespaces_there_are(kernel: Kernel, call: Call):
    namespaces = kernel.catalog.namespaces
    counts = []
    for width in (1, 60):
        for number in range(width):
            namespaces.create(call, (f"w{width}", f"n{number}"), {})
        chain = (f"w{width}", *(f"l{level}" for level in range(9)))
        counted = []
        for work in (
            lambda: namespaces.create(call, chain, {}),  # noqa: B023 - called at once
            lambda: namespaces.list(call, chain[:1], PageRequest()),  # noqa: B023
            lambda: namespaces.drop(call, chain),  # noqa: B023
        ):
            with kernel.store.count_statements() as counter:
                work()
            counted.append(counter.statements)
        counts.append(counted)
    assert counts[0] == counts[1]
    # two for each level that is made, and what is asked before
    assert counts[0][0] <= 2 * len(chain) + 5


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"separator": "/"},
            "Delimiter '/' is not allowed because it conflicts with path parsing. Try ':', ';', or '$'.",
        ),
        ({"separator": "."}, "Delimiter '.' is not allowed because it separates levels in the store."),
        ({"separator": "::"}, "Delimiter '::' is not allowed because it is not one character."),
        (
            {"separator": "!", "separator_policy": "predefined"},
            "Delimiter '!' is not allowed because floecat.namespaces.separator-policy takes"
            " : ; $ | ~ ^ alone."
            " Try ':', ';', or '$'.",
        ),
    ],
)
def test_a_service_does_not_start_with_a_separator_that_is_not_allowed(
    reopened: Callable[..., Kernel], settings: dict[str, str], text: str
):
    with pytest.raises(SettingsError) as refused:
        reopened(**settings)
    assert refused.value.message.startswith(text)


def test_a_level_with_the_separator_is_refused_with_a_reason(kernel: Kernel, call: Call):
    with pytest.raises(BadRequestError) as refused:
        kernel.catalog.namespaces.create(call, ("a:b",), {})
    assert refused.value.message == ("Invalid namespace level: must not hold the namespace separator ':'")
    nested = kernel.catalog.nested
    nested.set_nested(call, nested=False)
    kernel.catalog.namespaces.create(call, ("a:b",), {})
    with pytest.raises(ConflictError) as conflict:
        nested.set_nested(call, nested=True)
    assert conflict.value.message == (
        "Catalog floecat cannot be nested: a namespace holds ':' in catalog floecat: 'a:b'."
    )
