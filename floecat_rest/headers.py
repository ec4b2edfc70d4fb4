"""Headers of requests, read from the ASGI scope, and names of headers of answers.

A load looks at four headers. Scanning for each costs less than the mapping that the framework would build.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ETAG", "SpelledName", "header_of", "list_of"]


class SpelledName(bytes):
    """The name of a header that goes over the wire as it is spelled; servers send `name.lower()`."""

    __slots__ = ()

    def lower(self) -> SpelledName:
        """The name as it is spelled."""
        return self


ETAG = SpelledName(b"ETag")
"""Java clients of Iceberg (1.11) look the header up in a map of names as they came, by this spelling."""


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
