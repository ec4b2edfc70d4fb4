"""Headers of requests, read from the ASGI scope.

A load looks at four headers. Scanning for each costs less than the mapping that the framework would build.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["header_of", "list_of"]


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


def list_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """All values of a header that is a list, joined by commas (RFC 9110 section 5.3).

    Args:
        headers: of an ASGI scope, names in lower case.
        name: in lower case.
    """
    values = [value for key, value in headers if key == name]
    return b", ".join(values).decode("latin-1") if values else None
