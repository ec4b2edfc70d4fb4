"""How long a search goes on where places cannot be read."""

from __future__ import annotations

from typing import Final

from floecat.errors import FloecatError, UnavailableError

__all__ = ["Patience"]

_MOST_IN_ROW: Final = 3


class Patience:
    """Ends a search after so many failures in a row that the service or the storage is away."""

    def __init__(self) -> None:
        self._in_row = 0

    def failed(self, error: FloecatError) -> None:
        """Counts a place that could not be read; raises the error if it is one too many."""
        self._in_row += 1
        if isinstance(error, UnavailableError) and self._in_row >= _MOST_IN_ROW:
            raise error

    def succeeded(self) -> None:
        """Begins anew: a place was read."""
        self._in_row = 0
