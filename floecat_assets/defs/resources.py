"""Resources of every run, sensor and check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

if TYPE_CHECKING:
    from floecat.events.catalog_events import CatalogEvents
    from floecat.events.lost_files import LostFiles
    from floecat.runtime import Kernel

__all__ = ["KernelResource", "defs"]


class KernelResource(dg.ConfigurableResource[None]):
    """The kernel, opened with the settings that the service uses: environment and configuration file.

    It is opened by the first use and not before the body runs: with the store away a sensor then skips its
    tick and says why, where a failing resource would fail it.
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
        return self.open().events

    def lost_files(self) -> LostFiles:
        """Finds metadata files that are gone; raises what `open` raises."""
        return self.open().lost_files

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Closes what `open` opened."""
        del context
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()


@dg.definitions
def defs() -> dg.Definitions:
    """Binds the resources to the names under which assets and sensors ask for them."""
    return dg.Definitions(resources={"kernel": KernelResource()})
