"""Body of a refusal by `/v1/oauth/tokens`, which is not Iceberg's but OAuth's (RFC 6749 section 5.2)."""

from __future__ import annotations

import msgspec

__all__ = ["OAuthError"]


class OAuthError(msgspec.Struct):
    """Why no token is issued."""

    error: str
    error_description: str
