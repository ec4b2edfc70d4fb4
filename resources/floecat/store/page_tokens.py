"""Page tokens: where the next page of a listing starts.

A token holds the last key of a page and a digest of the listing that it belongs to. The digest finds
mistakes and keeps no secret: a token says nothing that the page before did not.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, TypeVar

from floecat.errors import BadRequestError

__all__ = ["decode", "decode_as", "encode"]

T = TypeVar("T")

_DIGEST_BYTES: Final = 9
_MAX_TOKEN_LENGTH: Final = 8192


def encode(last: str, scope: str) -> str:
    """The token for what follows a key.

    Args:
        last: last key of a page.
        scope: what is listed, e.g. the kind of item and its parent.

    Returns:
        URL-safe text.
    """
    key = last.encode()
    return base64.urlsafe_b64encode(_digest(key, scope) + key).rstrip(b"=").decode()


def decode(token: str, scope: str) -> str:
    """The key that a token of the same listing was made from.

    Raises:
        BadRequestError: the token is malformed, or of another listing.
    """
    if len(token) > _MAX_TOKEN_LENGTH:
        raise _invalid()
    try:
        data = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
        digest, key = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        last = key.decode()
    except (binascii.Error, UnicodeError):
        raise _invalid() from None
    # no key has a NUL, and PostgreSQL takes none in a parameter
    if "\0" in last or digest != _digest(key, scope) or encode(last, scope) != token:
        raise _invalid()
    return last


def decode_as(token: str, scope: str, kind: Callable[[str], T]) -> T:
    """The key as what it stands for, as a number.

    Args:
        token: what `decode` takes.
        scope: of the listing.
        kind: reads the key; a ValueError says that it is none.

    Raises:
        BadRequestError: as `decode`, or the token was made up.
    """
    try:
        return kind(decode(token, scope))
    except ValueError:
        raise _invalid() from None


def _digest(key: bytes, scope: str) -> bytes:
    scoped = blake2b(scope.encode(), digest_size=16, person=b"floecat-page").digest()
    return blake2b(key, key=scoped, digest_size=_DIGEST_BYTES).digest()


def _invalid() -> BadRequestError:
    return BadRequestError("Invalid page token: it does not belong to this listing")
