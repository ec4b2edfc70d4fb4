"""Keys to the storage over a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from floecat.credentials.authorities import S3Method
from floecat.credentials.aws_keys import AwsKeyMaker
from floecat.credentials.key_cache import KeyCache, decrypting
from floecat.credentials.known_authorities import KnownAuthorities
from floecat.credentials.posts import Poster
from floecat.credentials.vending import Vending
from floecat.entries.open_entries import EntryParts
from floecat.settings import Settings
from floecat.storage.catalog_storages import object_store_options

__all__ = ["CredentialServices", "open_credentials"]

_TIMEOUT_S = 5.0
_CALLS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class CredentialServices:
    """The services.

    Attributes:
        known: the authorities of each account.
        keys: keys of authorities.
        vending: adds keys to answers.
    """

    known: KnownAuthorities
    keys: KeyCache
    vending: Vending


def open_credentials(
    parts: EntryParts, settings: Settings, decrypt: Callable[[str, str], str]
) -> CredentialServices:
    """The services over the parts of entries.

    Args:
        decrypt: decrypts a text that was encrypted about the id of a row.
    """
    known = KnownAuthorities(parts.store)
    poster = Poster(timeout_s=_TIMEOUT_S)
    keys = KeyCache(
        {S3Method: AwsKeyMaker(poster, object_store_options(settings.storage))},
        decrypting(decrypt),
        parts.memory.cache("keys"),
        parts.clock,
        calls_at_once=_CALLS_AT_ONCE,
        timeout_s=_TIMEOUT_S,
    )
    return CredentialServices(known, keys, Vending(parts.store, parts.overlaps, known, keys))
