"""Resources of every run, sensor and check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floecat.connectors.scanning.scan_jobs import ScanJobs
    from floecat.delta.refresh.pipeline import DeltaPipeline
    from floecat.events.catalog_events import CatalogEvents
    from floecat.events.lost_files import LostFiles
    from floecat.runtime import Kernel
    from floecat_assets.spark.sessions import SparkPlace

__all__ = ["KernelResource", "SparkResource", "defs"]


class KernelResource(dg.ConfigurableResource[None]):
    """The kernel, opened with the settings that the service uses: environment and configuration file.

    It is opened on first use, not before the body runs: while the store is unavailable, a sensor can then
    skip its tick and say why, instead of failing.
    """

    _kernel: Kernel | None = PrivateAttr(default=None)

    def open(self) -> Kernel:
        """The kernel of this run or tick.

        Raises:
            SettingsError: a setting is unknown or has a value of the wrong kind.
            StoreUnavailableError: the store does not answer.
        """
        if self._kernel is None:
            from floecat.runtime import open_kernel
            from floecat.settings import load_settings

            self._kernel = open_kernel(load_settings())
        return self._kernel

    def events(self) -> CatalogEvents:
        """The commit logs of all catalogs; raises what `open` raises."""
        return self.open().events.commits

    def lost_files(self) -> LostFiles:
        """Finds metadata files that are gone; raises what `open` raises."""
        return self.open().events.lost_files

    def delta_pipeline(self) -> DeltaPipeline:
        """The questions of the pipeline about Delta tables; raises what `open` raises.

        Raises:
            UnsupportedOperationError: Delta tables are turned off.
        """
        return self.open().delta.pipeline()

    def connector_scans(self) -> ScanJobs:
        """Scans for tables; raises what `open` raises."""
        return self.open().connectors.jobs

    def now_ms(self) -> int:
        """The time, in ms since 1970; raises what `open` raises."""
        return self.open().clock.now_ms()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Closes what `open` opened."""
        del context
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()


class SparkResource(dg.ConfigurableResource[None]):
    """Spark, opened on first use: a session takes some seconds and hundreds of megabytes.

    A place or a property given here overrides the settings `floecat.spark`. Without either, Spark's own
    configuration decides: `SPARK_REMOTE`,
    `spark-defaults.conf`, else all cores of the machine that the run is on.
    """

    master: str | None = None
    remote: str | None = None
    conf: dict[str, str] = {}

    _session: SparkSession | None = PrivateAttr(default=None)

    def open(self) -> SparkSession:
        """The session of this run.

        Raises:
            SettingsError: a setting is unknown or has a value of the wrong kind.
            ImportError: PySpark is not installed.
            PySparkException: Spark does not start.
            UnavailableError: a Spark Connect server does not answer.
        """
        if self._session is None:
            from floecat_assets.spark.sessions import open_session

            self._session = open_session(self.place())
        return self._session

    def place(self) -> SparkPlace:
        """The place where Spark runs.

        Raises:
            SettingsError: a setting is unknown or has a value of the wrong kind.
        """
        from floecat.settings import load_settings
        from floecat_assets.spark.sessions import SparkPlace

        spark = load_settings().spark
        given = self.master is not None or self.remote is not None
        return SparkPlace(
            self.master if given else spark.master,
            self.remote if given else spark.remote,
            {**spark.conf, **self.conf},
        )

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Ends the session, if there is one."""
        del context
        session, self._session = self._session, None
        if session is not None:
            session.stop()


@dg.definitions
def defs() -> dg.Definitions:
    """Binds the resources to the names under which assets and sensors ask for them."""
    return dg.Definitions(resources={"kernel": KernelResource(), "spark": SparkResource()})
