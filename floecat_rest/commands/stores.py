"""A store made ready for use."""

from __future__ import annotations

from collections.abc import Callable

from floecat.settings import Settings

__all__ = ["has_no_store_yet", "prepare_store"]


def prepare_store(settings: Settings, report: Callable[[str], None] = print) -> None:
    """See `floecat.runtime.prepare_store`, which takes a while to import."""
    from floecat import runtime

    runtime.prepare_store(settings, report)


def has_no_store_yet(settings: Settings) -> bool:
    """Whether the store is the embedded one and was never made: nothing can be lost by making it now."""
    return settings.embedded_store is not None and not settings.embedded_store.exists()
