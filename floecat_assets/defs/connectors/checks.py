"""Checks of connectors, over all of them: they follow what the store says after each scan."""

# no __future__.annotations here: Dagster wants the type of `kernel` and takes no text for it

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import dagster as dg

from floecat.events.live_entries import label
from floecat_assets.defs.connectors.assets import discovered_tables
from floecat_assets.defs.resources import KernelResource

if TYPE_CHECKING:
    from floecat.connectors.connector_info import ConnectorState
    from floecat.runtime import Kernel

__all__ = ["EVALUATIONS", "tables_match_upstream", "upstreams_reachable"]

_SHOWN = 50


def _evaluation(
    check: str, what: str, states: Sequence["ConnectorState"], columns: Sequence[str]
) -> dg.AssetCheckEvaluation:
    rows = [tuple(str(getattr(each, column) or "") for column in columns) for each in states[:_SHOWN]]
    return dg.AssetCheckEvaluation(
        asset_key=discovered_tables.key,
        check_name=check,
        passed=not states,
        description=f"{len(states)} connectors {what}"
        + (": `floecat connector list` and `floecat connector diff NAME` tell more" if states else ""),
        metadata={
            "reconcile/connectors": dg.MetadataValue.table(
                records=[dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows],
                schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
            )
        },
    )


def _enabled(kernel: "Kernel") -> Sequence["ConnectorState"]:
    default_id = kernel.settings.gateway.default_account_id
    return [
        each._replace(catalog=label(each.catalog, each.account_id, default_id))
        for each in kernel.connectors.connectors.states()
        if each.enabled
    ]


def _reachable(kernel: "Kernel") -> dg.AssetCheckEvaluation:
    failing = [each for each in _enabled(kernel) if each.last_error]
    columns = ("catalog", "name", "last_error")
    return _evaluation("upstreams_reachable", "had a problem in their last scan", failing, columns)


def _matching(kernel: "Kernel") -> dg.AssetCheckEvaluation:
    differing = [each for each in _enabled(kernel) if each.unreadable or each.gone]
    columns = ("catalog", "name", "followed", "unreadable", "gone")
    return _evaluation("tables_match_upstream", "have tables that differ from upstream", differing, columns)


EVALUATIONS: Final[Sequence[Callable[["Kernel"], dg.AssetCheckEvaluation]]] = (_reachable, _matching)
"""The results of the checks, for a run that has just scanned."""


def _result(found: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=found.passed, description=found.description, metadata=dict(found.metadata)
    )


@dg.asset_check(asset=discovered_tables.key, pool="connectors")
def upstreams_reachable(kernel: KernelResource) -> dg.AssetCheckResult:
    """The last scan of every enabled connector had no problem."""
    return _result(_reachable(kernel.open()))


@dg.asset_check(asset=discovered_tables.key, pool="connectors")
def tables_match_upstream(kernel: KernelResource) -> dg.AssetCheckResult:
    """No table that follows another catalog is gone there, or has a newer state that cannot be read."""
    return _result(_matching(kernel.open()))
