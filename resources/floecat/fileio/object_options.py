"""How object storage is reached."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from floecat.errors import SettingsError

__all__ = ["ObjectStoreOptions"]


class ObjectStoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access to object storage. Secrets never show in `repr`.

    Fields named after S3 concern S3 only; Google Cloud Storage and Azure take their credentials from the
    environment, by their own standard variables.
    """

    region: str | None = None
    """S3 region. Default: ``AWS_REGION``, else ``us-east-1``."""

    endpoint: str | None = None
    """URL of an S3-compatible service. Default: AWS."""

    path_style_access: bool = False
    """Bucket in the path instead of in the host name."""

    access_key_id: str | None = None
    """S3 access key. Default: the standard AWS sources (environment, web identity, instance role)."""

    secret_access_key: str | None = None
    session_token: str | None = None

    connect_timeout_s: float = 5.0
    """How long a connection may take."""

    answer_timeout_s: float = 6.0
    """How long storage may be silent, until it answers or in the middle of an answer. No retry starts later
    than this either, so that a call on storage that is away ends within twice the time."""

    request_timeout_s: float = 30.0
    """How long one request may take, the transfer included."""

    max_retries: int = 3
    """Retries of a request that failed for a passing reason."""

    def __post_init__(self) -> None:
        """Checks what can be checked before the first request.

        Raises:
            SettingsError: an access key without its secret or the other way round, an endpoint that is not a
                URL or whose host cannot have the bucket before it, or a time-out of zero.
        """
        if self.endpoint is not None:
            _check_endpoint(self.endpoint, path_style=self.path_style_access)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise SettingsError("An S3 access key and its secret must be set together")
        if self.session_token is not None and self.access_key_id is None:
            raise SettingsError("An S3 session token needs its access key")
        timeouts = (self.connect_timeout_s, self.answer_timeout_s, self.request_timeout_s)
        if min(timeouts) <= 0 or self.max_retries < 0:
            raise SettingsError("Time-outs of object storage must be positive, and retries not negative")

    def __repr__(self) -> str:
        """The options without secrets."""
        return (
            f"ObjectStoreOptions(region={self.region!r}, endpoint={self.endpoint!r}, "
            f"path_style_access={self.path_style_access!r}, access_key_id={self.access_key_id!r})"
        )


def _check_endpoint(endpoint: str, *, path_style: bool) -> None:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port  # a port that is no number fails here
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError("An S3 endpoint must be a URL as https://host:port")
    if not path_style and _is_ip_address(host):
        raise SettingsError("An S3 endpoint that is an IP address needs s3.path-style-access")


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
