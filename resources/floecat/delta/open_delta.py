"""The services of Delta tables. The engine, which reads logs and makes artifacts, is imported lazily."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from floecat.delta.delta_format import DeltaLoads, DeltaTableService
from floecat.delta.registration import RegisterDeltaService
from floecat.entries.formats import TurnedOffFormat
from floecat.entries.open_entries import EntryParts
from floecat.fileio.locations import normalize_location
from floecat.jobs.background import Background
from floecat.purge.deletion.table_purge import DeferredPurge, FormatPurge
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.settings import Settings
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.delta.refresh.pipeline import DeltaPipeline
    from floecat.delta.refresh.refresh_service import DeltaRefreshService

__all__ = ["DeferredEngine", "DeltaServices", "artifact_purge", "open_delta"]

_OFF: Final = TurnedOffFormat("Delta", "floecat.gateway.delta-compat.enabled")


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
                    parts.check_read,
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
    """The services, or what refuses in their place where Delta tables are turned off."""

    format: DeltaLoads | TurnedOffFormat
    tables: DeltaTableService | TurnedOffFormat
    registration: RegisterDeltaService | TurnedOffFormat
    parts: EntryParts
    engine: DeferredEngine | None = None

    @property
    def refresh_service(self) -> DeltaRefreshService | None:
        """Makes Delta tables readable; `None` where that is turned off."""
        return None if self.engine is None else self.engine.open()

    @property
    def refreshes(self) -> Mapping[str, int]:
        """Looks at logs of Delta tables by loads, by what became of them."""
        return {} if self.engine is None else self.engine.refreshes

    def pipeline(self) -> DeltaPipeline:
        """The questions of the pipeline about Delta tables.

        Raises:
            UnsupportedOperationError: Delta tables are turned off.
        """
        if self.engine is None:
            _OFF.refuse()
        from floecat.delta.refresh.pipeline import DeltaPipeline

        prepare_struct_types()
        return DeltaPipeline(self.parts.store, self.parts.storages, self.engine.open())


def open_delta(parts: EntryParts, settings: Settings, background: Background) -> DeltaServices:
    """The services over the parts of entries."""
    compat = settings.gateway.delta_compat
    if not compat.enabled:
        return DeltaServices(_OFF, _OFF, _OFF, parts)
    engine, location = DeferredEngine(parts, settings), compat.location
    background.add(stop=engine.close)
    format = DeltaLoads(parts.entries, engine.open)
    registration = RegisterDeltaService(
        parts, format, compat_location=None if location is None else str(normalize_location(location))
    )
    return DeltaServices(format, DeltaTableService(parts.store, format), registration, parts, engine)


def artifact_purge(shared: SharedFiles, settings: Settings) -> FormatPurge:
    """The purge of artifacts. Dropped tables are purged where Delta tables are turned off, too."""

    def open_purge() -> FormatPurge:
        from floecat.delta.artifact_purge import ArtifactPurge

        prepare_struct_types()
        return ArtifactPurge(
            shared, batch_size=settings.purge.files_per_call, threads=settings.purge.delete_threads_per_job
        )

    return DeferredPurge(open_purge)
