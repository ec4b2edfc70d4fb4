"""Kinds of connectors: what is built in, what an operator adds, and that nothing else is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from floecat.connectors.registry import BUILT_IN, ConnectorRegistry
from floecat.connectors.spi import ConnectorSource
from floecat.delta.connector import DeltaConnector
from floecat.errors import BadRequestError, SettingsError


class OwnConnector:
    """A connector of somebody else."""

    def __init__(self, source: ConnectorSource) -> None:
        self.source = source

    def discover(self) -> list[object]:
        return []


OWN = f"{__name__}:OwnConnector"


def test_built_in_kinds() -> None:
    registry = ConnectorRegistry()
    assert registry.kinds == tuple(BUILT_IN)
    assert registry.get("delta") is DeltaConnector
    for kind in BUILT_IN:
        assert callable(registry.get(kind).discover)


def test_a_kind_of_the_operator() -> None:
    registry = ConnectorRegistry([OWN])
    assert registry.kinds == (*BUILT_IN, OWN)
    assert registry.get(OWN) is OwnConnector


@pytest.mark.parametrize("kind", ["hudi", "", "os:system", "floecat.delta.connector:DeltaConnector"])
def test_nothing_else_is_imported(kind: str) -> None:
    with pytest.raises(BadRequestError, match=r"Unknown kind of connector: .*known: delta, iceberg"):
        ConnectorRegistry().get(kind)


@pytest.mark.parametrize("kind", ["module", "a.b.C", "a.b:", ":C", "a b:C", "a:b.c", "../x:C"])
def test_a_malformed_kind_stops_the_start(kind: str) -> None:
    with pytest.raises(SettingsError, match=r"package\.module:Name"):
        ConnectorRegistry([kind])


@pytest.mark.parametrize("kind", ["no.such.module:C", "floecat.clock:NoSuchClass"])
def test_a_kind_that_cannot_be_imported_is_named(kind: str) -> None:
    with pytest.raises(SettingsError, match=f"floecat.connectors.kinds: {kind}"):
        ConnectorRegistry([kind]).get(kind)


@pytest.mark.parametrize("kind", ["json:JSONDecoder", "json:loads", "floecat.clock:__doc__"])
def test_what_is_no_connector_is_named(kind: str) -> None:
    with pytest.raises(SettingsError, match=f"floecat.connectors.kinds: {kind} is not a connector"):
        ConnectorRegistry([kind]).get(kind)


def test_a_module_that_fails_is_named_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_when_imported.py").write_text("raise ValueError('hunter2')")
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = "fails_when_imported:Kind"
    with pytest.raises(SettingsError, match=f"{kind} cannot be imported: ValueError") as refused:
        ConnectorRegistry([kind]).get(kind)
    assert "hunter2" not in refused.value.message
