"""Whether there is a Lance dataset at a location."""

from __future__ import annotations

from collections.abc import Mapping

from lance_namespace.errors import InternalError, UnsupportedOperationError

__all__ = ["has_dataset"]


def has_dataset(location: str, storage_options: Mapping[str, str]) -> bool:
    """Whether a dataset was written to the location; a table that is only declared has none.

    Raises:
        UnsupportedOperationError: Lance is not installed.
        InternalError: storage does not say.
    """
    try:
        import lance
    except ImportError:
        raise UnsupportedOperationError("Looking for data needs the package pylance") from None
    try:
        lance.dataset(location, storage_options=dict(storage_options))
    except (ValueError, OSError) as error:
        if isinstance(error, ValueError) and "was not found" in str(error):
            return False
        raise InternalError(f"Cannot look for a dataset at {location}") from error
    return True
