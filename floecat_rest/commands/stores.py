"""A store made ready for use."""

from __future__ import annotations

from floecat.settings import Settings

__all__ = ["has_no_store_yet", "prepare_store"]


def prepare_store(settings: Settings) -> None:
    """Bring the store to the schema of this version and create the default catalog where it is missing.

    Raises:
        SettingsError: the URL of the store is malformed, or a newer version has upgraded it.
        StoreUnavailableError: the store does not answer.
    """
    from floecat.runtime import kernel
    from floecat.store.engine import Store

    settings.data_path.mkdir(parents=True, exist_ok=True)
    store = Store.open(settings.store_url)
    try:
        store.upgrade()
    finally:
        store.close()
    gateway = settings.gateway
    with kernel(settings) as opened:
        opened.catalogs.ensure(
            gateway.default_account_id, gateway.default_prefix, settings.warehouse_location
        )


def has_no_store_yet(settings: Settings) -> bool:
    """Whether the store is the embedded one and was never made: nothing can be lost by making it now."""
    return settings.embedded_store is not None and not settings.embedded_store.exists()
