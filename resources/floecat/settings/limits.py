"""Bounds on what one request, file or tenant may take. A refusal names its bound."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import Group
from floecat.settings.kinds import integer, size

__all__ = ["LimitSettings"]

_KIB = 1 << 10
_MIB = 1 << 20


class LimitSettings(Group, frozen=True, kw_only=True):
    """Bounds on what one request, file or tenant may take."""

    location_bytes: Annotated[int, size()] = 8 * _KIB
    """Longest storage location or path. Longer ones are answered 400."""

    percent_decoding_levels: Annotated[int, integer(minimum=1, maximum=64)] = 4
    """How often a location may be percent-encoded over itself. More levels are answered 400."""

    inflated_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Most bytes that a compressed metadata file, manifest or manifest list may inflate to."""
