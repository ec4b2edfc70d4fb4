"""Where services keep their data; any number of them can share one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from floecat.runtime import prepare_store
from floecat.settings.loading import load_settings
from tests.services.catalog import CatalogServer, postgres_environment

__all__ = ["Deployment"]

# A key whose owner was killed is free again before a test loses its patience.
_FAST_TAKEOVER = {"FLOECAT_GATEWAY_IDEMPOTENCY_IN_PROGRESS_TIMEOUT": "PT2S"}


class Deployment:
    """A store, made ready, and a folder."""

    def __init__(
        self,
        data_dir: Path,
        start_catalog: Callable[..., CatalogServer],
        *,
        postgres_url: str | None = None,
        **environment: str,
    ) -> None:
        """Describes a deployment.

        Args:
            data_dir: what its services keep on local disk: files, and without PostgreSQL the store.
            start_catalog: the fixture.
            postgres_url: an empty database for the store.
            environment: further settings of all its services.
        """
        self.data_dir = data_dir
        self.store_url = postgres_url or f"sqlite:///{data_dir / 'floecat.db'}"
        self.environment: Mapping[str, str] = _FAST_TAKEOVER | environment
        if postgres_url:
            self.environment = {**self.environment, **postgres_environment(postgres_url)}
        self._start_catalog = start_catalog
        settings = load_settings(environ=self.environment, overrides={"floecat.data-dir": str(data_dir)})
        prepare_store(settings)

    def start(self, **environment: str) -> CatalogServer:
        """One more service, with settings of its own."""
        return self._start_catalog(data_dir=self.data_dir, **{**self.environment, **environment})
