"""The services of Delta tables. The engine, which reads logs and makes artifacts, is imported lazily."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from floecat.delta.delta_format import DeltaLoads, DeltaTableService
from floecat.delta.registration import RegisterDeltaService
from floecat.entries.open_entries import EntryParts
from floecat.fileio.locations import normalize_location
from floecat.settings import Settings
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.delta.refresh.pipeline import DeltaPipeline
    from floecat.delta.refresh.refresh_service import DeltaRefreshService

__all__ = ["DeferredEngine", "DeltaServices", "open_delta"]


class DeferredEngine:
    """Opens the engine once. Thread-safe."""

    def __init__(self, parts: EntryParts, settings: Settings) -> None:
        self._parts = parts
        self._settings = settings
        self._lock = Lock()
        self._opened: DeltaRefreshService | None = None
        self._refreshes: Counts[str] = Counts()

    def open(self) -> DeltaRefreshService:
        """The engine."""
        with self._lock:
            if self._opened is None:
                # with pyarrow, numpy and fastavro: 0.3 s of processor time beside the 0.85 s of all other
                # imports of `floecat serve`, and never needed where no Delta table is loaded
                from floecat.delta.refresh.refresh_service import DeltaRefreshService

                prepare_struct_types()
                parts = self._parts
                self._opened = DeltaRefreshService(
                    parts.store,
                    parts.guard,
                    parts.clock,
                    self._settings.gateway.delta_compat,
                    self._settings.limits,
                    parts.memory,
                    self._refreshes,
                )
            return self._opened

    @property
    def refreshes(self) -> Mapping[str, int]:
        """Looks at logs of Delta tables by loads, by what became of them; see `DeltaRefreshService`."""
        return self._refreshes

    def close(self) -> None:
        """Ends the threads of the engine, if it was opened."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()


@dataclass(frozen=True, slots=True)
class DeltaServices:
    """The services."""

    engine: DeferredEngine
    format: DeltaLoads
    tables: DeltaTableService
    registration: RegisterDeltaService

    def pipeline(self, parts: EntryParts) -> DeltaPipeline:
        """The service of the pipeline, with the parts that `open_delta` had."""
        engine = self.engine.open()
        from floecat.delta.refresh.pipeline import DeltaPipeline

        prepare_struct_types()
        return DeltaPipeline(parts.store, parts.storages, engine)


def open_delta(parts: EntryParts, settings: Settings) -> DeltaServices:
    """The services over the parts of entries."""
    engine, location = DeferredEngine(parts, settings), settings.gateway.delta_compat.location
    format = DeltaLoads(parts.entries, engine.open)
    registration = RegisterDeltaService(
        parts, format, compat_location=None if location is None else str(normalize_location(location))
    )
    return DeltaServices(engine, format, DeltaTableService(parts.store, format), registration)
