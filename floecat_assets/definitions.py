"""The Dagster code location: everything under `defs/`, and what holds for all of it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

__all__ = ["defs"]


@dg.definitions
def defs() -> dg.Definitions:
    """Loads `defs/` and makes in-process the default executor.

    A run of the multiprocess executor pays two to four seconds for starting processes; most work here is
    shorter than that.

    Raises:
        SettingsError: the store is for several machines, and keys of secrets are missing.
    """
    from floecat.credentials.secrets import require_keys
    from floecat.settings import load_settings

    require_keys(load_settings())
    return dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=Path(__file__).parent),
        dg.Definitions(executor=dg.in_process_executor),
    )
