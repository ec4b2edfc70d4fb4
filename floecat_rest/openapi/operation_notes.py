"""Facts about operations that their handlers do not declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from floecat_rest.http.errors import IcebergErrorResponse

__all__ = ["OperationNotes"]


@dataclass(frozen=True)
class OperationNotes:
    """Facts about an operation that its handler does not declare."""

    request: type[msgspec.Struct] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    """Example of the request."""

    errors: Mapping[int, str] = field(default_factory=dict)
    """Errors beside those that any operation may answer."""

    replays: bool = False
    """Whether it takes `Idempotency-Key`."""

    error: type[msgspec.Struct] = IcebergErrorResponse
    """Body of its errors."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    """Schemas by media type, where the answer is not the struct that the handler returns."""
