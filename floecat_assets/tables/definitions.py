"""The code location `tables`: an asset for each table and view, so that Dagster's search finds them.

A location of its own: its definitions come from the store, and change while Dagster runs. It holds no sensor,
job or condition, so that neither runs nor the daemon pay for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

import dagster as dg

from floecat.errors import FloecatError
from floecat_assets.tables.specs import table_specs

__all__ = ["defs", "load_specs"]

_log = logging.getLogger(__name__)


@dg.definitions
def defs() -> dg.Definitions:
    """The assets of the tables that the store has now."""
    return dg.Definitions(assets=load_specs())


def load_specs() -> Sequence[dg.AssetSpec]:
    """Reads the tables from the store; with the store away there are no assets, and a warning says why."""
    from floecat.runtime import kernel
    from floecat.settings import load_settings
    from floecat_assets.table_links import TableLinks

    try:
        settings = load_settings()
        with kernel(settings) as opened:
            entries = list(islice(opened.events.live_entries, settings.pipeline.table_assets))
            links = TableLinks(settings.pipeline.catalog_url, opened.separator)
            return table_specs(entries, links, opened.events.view_queries, settings.limits)
    except FloecatError as error:
        _log.warning("no assets of tables: %s", error.message)
        return ()
