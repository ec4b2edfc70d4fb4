"""Headers of requests, read from the ASGI scope.

A load looks at four headers. Scanning for each costs less than the mapping that the framework would build.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["header_of"]


def header_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of a header.

    Args:
        headers: of an ASGI scope, names in lower case.
        name: in lower case.
    """
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None
