"""Keys to the storage over a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floecat.access.changes import AccessChanges
from floecat.credentials.authorities import AuthorityKind
from floecat.credentials.authority_rules import BorrowedPower
from floecat.credentials.authority_secrets import AuthoritySecrets
from floecat.credentials.authority_service import AuthorityService
from floecat.credentials.keys import KeyMaker
from floecat.credentials.known_authorities import KnownAuthorities
from floecat.credentials.secrets import Encryption, open_encryption
from floecat.settings import Settings
from floecat.store.database.engine import Store

__all__ = ["CredentialServices", "open_credentials"]


@dataclass(frozen=True, slots=True)
class CredentialServices:
    """The services.

    Attributes:
        encryption: of secrets in the store, whatever they are of.
        known: the authorities of each account.
        secrets: those of authorities.
        authorities: changes and lists authorities.
        makers: make keys, by the kind of the authority.
    """

    encryption: Encryption
    known: KnownAuthorities
    secrets: AuthoritySecrets
    authorities: AuthorityService
    makers: Mapping[AuthorityKind, KeyMaker]


def open_credentials(settings: Settings, store: Store, changes: AccessChanges) -> CredentialServices:
    """The services.

    Raises:
        SettingsError: a key of `floecat.secrets.keys` is malformed.
    """
    encryption = open_encryption(settings)
    secrets = AuthoritySecrets(encryption)
    return CredentialServices(
        encryption,
        KnownAuthorities(store),
        secrets,
        AuthorityService(changes, secrets, BorrowedPower(settings.storage)),
        {},
    )
