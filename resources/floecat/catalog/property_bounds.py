"""Bounds of the properties of a namespace or of a catalog: they are held, listed and sent whole."""

from __future__ import annotations

from collections.abc import Mapping

from floecat.errors import BadRequestError

__all__ = ["check_property_bytes"]


def check_property_bytes(properties: Mapping[str, str], most: int) -> None:
    """Refuses properties that are too large together.

    Args:
        properties: all of them.
        most: bytes of keys and values.

    Raises:
        BadRequestError: they are larger; the setting is named.
    """
    if sum(len(text.encode(errors="surrogatepass")) for pair in properties.items() for text in pair) > most:
        raise BadRequestError(
            f"Invalid properties: more than {most} bytes (floecat.limits.namespace-property-bytes)"
        )
