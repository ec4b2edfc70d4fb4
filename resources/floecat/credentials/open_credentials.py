"""Keys to the storage over a store."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.credentials.known_authorities import KnownAuthorities
from floecat.store.database.engine import Store

__all__ = ["CredentialServices", "open_credentials"]


@dataclass(frozen=True, slots=True)
class CredentialServices:
    """The services.

    Attributes:
        known: the authorities of each account.
    """

    known: KnownAuthorities


def open_credentials(store: Store) -> CredentialServices:
    """The services."""
    return CredentialServices(KnownAuthorities(store))
