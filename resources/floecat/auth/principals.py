"""Principals: the identities that requests are made by."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec

__all__ = ["DEVELOPER", "Principal"]

DEVELOPER = "developer"
"""Name of the principal that everybody is in `auth-mode=dev`."""


class Principal(msgspec.Struct, frozen=True):
    """An identity and the account that it belongs to."""

    name: str
    account_id: UUID
    claims: Mapping[str, object] = {}
    """Claims of the token, verified. Empty in `auth-mode=dev`."""
    groups: tuple[str, ...] = ()
    """Groups that the token names (claim `roles`), verified. A role of Floecat may have them as members."""
    issuer: str = ""
    """Names the issuer of the token where there are several: a name belongs to its issuer."""
