"""Keys to the storage over a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floecat.access.changes import AccessChanges
from floecat.credentials.authorities import AuthorityKind
from floecat.credentials.authority_check import AuthorityTrial
from floecat.credentials.authority_rules import BorrowedPower
from floecat.credentials.authority_secrets import AuthoritySecrets
from floecat.credentials.authority_service import AuthorityService
from floecat.credentials.aws_keys import AwsKeyMaker
from floecat.credentials.azure_keys import AzureKeyMaker
from floecat.credentials.google_keys import GoogleKeyMaker
from floecat.credentials.key_cache import KeyCache
from floecat.credentials.keys import KeyMaker
from floecat.credentials.known_authorities import KnownAuthorities
from floecat.credentials.posts import Poster
from floecat.credentials.secrets import Encryption, open_encryption
from floecat.credentials.signing import Signing
from floecat.credentials.vending import Vending
from floecat.entries.open_entries import EntryParts
from floecat.settings import Settings
from floecat.storage.catalog_storages import object_store_options

__all__ = ["CredentialServices", "open_credentials"]


@dataclass(frozen=True, slots=True)
class CredentialServices:
    """The services.

    Attributes:
        encryption: of secrets in the store, whatever they are of.
        known: the authorities of each account.
        secrets: those of authorities.
        authorities: changes and lists authorities.
        trial: tries what the keys of an authority open.
        keys: keys of authorities.
        vending: adds keys to answers.
        signing: signs requests of clients.
    """

    encryption: Encryption
    known: KnownAuthorities
    secrets: AuthoritySecrets
    authorities: AuthorityService
    trial: AuthorityTrial
    keys: KeyCache
    vending: Vending
    signing: Signing


def open_credentials(parts: EntryParts, settings: Settings, changes: AccessChanges) -> CredentialServices:
    """The services over the parts of entries.

    Raises:
        SettingsError: a key of `floecat.secrets.keys` is malformed.
    """
    own = settings.storage.authorities
    encryption = open_encryption(settings)
    secrets = AuthoritySecrets(encryption)
    known = KnownAuthorities(parts.store)
    poster = Poster(timeout_s=own.timeout_ms / 1000)
    service = object_store_options(settings.storage)
    aws = AwsKeyMaker(poster, service, own.web_identity_token_file)
    makers: Mapping[AuthorityKind, KeyMaker] = {
        "s3": aws,
        "gcs": GoogleKeyMaker(poster, service.gcs),
        "adls": AzureKeyMaker(poster, service.adls),
    }
    keys = KeyCache(
        makers,
        secrets.of,
        parts.memory.cache("keys"),
        parts.clock,
        calls_at_once=own.calls_at_once,
        timeout_s=own.timeout_ms / 1000,
    )
    vending = Vending(parts.store, parts.overlaps, known, keys, parts.memory.cache("vended"), parts.clock)
    return CredentialServices(
        encryption,
        known,
        secrets,
        AuthorityService(
            changes, secrets, BorrowedPower(settings.storage, settings.gateway.default_account_id)
        ),
        AuthorityTrial(secrets, makers, service),
        keys,
        vending,
        Signing(parts, vending, keys, aws, secrets.of),
    )
