"""Keys for clients, and what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

import msgspec

from floecat.credentials.authorities import Secrets, StorageAuthority
from floecat.errors import UnavailableError
from floecat.fileio.locations import Location

__all__ = ["AuthorityError", "KeyMaker", "KeyScope", "StorageKeys"]


class AuthorityError(UnavailableError):
    """An authority makes no keys now: its service is away, slow, or refuses. The message names it."""

    def __init__(self, authority: StorageAuthority, reason: str, kind: str = "") -> None:
        """Says why.

        Args:
            authority: which one.
            reason: for an operator.
            kind: what clients are told in its place: a reason may have addresses, and names of roles.
        """
        super().__init__(f"Storage authority {authority.name} makes no keys: {reason}")
        self.told = f"Storage authority {authority.name} makes no keys: {kind or reason}"
        self.said = reason, kind


class KeyScope(msgspec.Struct, frozen=True):
    """What a key opens."""

    locations: tuple[Location, ...]
    """Folders, below the prefix of the authority; none lies in another. In order."""
    may_write: bool
    """Whether it writes and deletes, too."""
    principal: str | None = None
    """Principal that the keys name; None if they name none."""
    entry_id: UUID | None = None
    """Entry that the folders are of. Another one that gets the same folders gets none of its keys."""


class StorageKeys(msgspec.Struct, frozen=True):
    """Keys that were made."""

    config: Mapping[str, str]
    """Keys, and until when they last, as clients of Iceberg name them (`StorageCredential.config`)."""
    expires_at_ms: int

    def __repr__(self) -> str:
        """Without the keys."""
        return f"StorageKeys(expires_at_ms={self.expires_at_ms})"


class KeyMaker(Protocol):
    """Makes keys of one kind of authority. Thread-safe."""

    def make(self, authority: StorageAuthority, secrets: Secrets, scope: KeyScope) -> StorageKeys:
        """Asks for keys; takes at most the time of `floecat.storage.authorities.timeout-ms`.

        Args:
            authority: of this kind.
            secrets: of the authority.
            scope: what the keys open.

        Raises:
            AuthorityError: none can be had now.
            BadRequestError: the scope cannot be expressed; the message says what about it.
        """
        ...
