"""Body of `/v1/config`."""

from __future__ import annotations

import msgspec

__all__ = ["CatalogConfig"]


class CatalogConfig(msgspec.Struct, rename="kebab"):
    """What a client learns before anything else."""

    defaults: dict[str, str]
    """Applied below the client's own properties."""

    overrides: dict[str, str]
    """Applied above them."""

    endpoints: list[str]
    """What is served, as `<verb> <path template>`."""

    idempotency_key_lifetime: str
    """ISO-8601. Its presence tells clients that `Idempotency-Key` works."""
