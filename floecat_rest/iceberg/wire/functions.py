"""Bodies of the function operations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["ListFunctionsResponse"]


class ListFunctionsResponse(msgspec.Struct, rename="kebab"):
    """Functions of a namespace, each as the levels of its full name."""

    identifiers: Sequence[tuple[str, ...]] = ()
    next_page_token: str | None = None
