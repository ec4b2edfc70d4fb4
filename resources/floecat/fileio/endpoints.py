"""Checks of the URLs of storage services."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from floecat.errors import SettingsError

__all__ = ["check_endpoint", "check_s3_endpoint"]

# The client library panics on a URL with other characters (RFC 3986, section 2).
_URL: Final = re.compile(r"""(?:(?!["<>\\^`{|}])[!-~])+""")
_HOST: Final = re.compile(r"[a-z0-9._:-]+")


def check_s3_endpoint(endpoint: str, *, path_style: bool) -> None:
    """Refuses an endpoint that cannot work.

    Raises:
        SettingsError: it is not a URL, or an IP address, which cannot have the bucket before it.
    """
    host = check_endpoint("An S3 endpoint", endpoint)
    if not path_style and _is_ip_address(host):
        raise SettingsError("An S3 endpoint that is an IP address needs s3.path-style-access")


def check_endpoint(what: str, endpoint: str | None) -> str:
    """Checks an endpoint.

    Args:
        what: what it is, in messages.
        endpoint: to check; `None` passes.

    Returns:
        Its host.

    Raises:
        SettingsError: it is not a URL.
    """
    if endpoint is None:
        return ""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port  # a port that is no number fails here
    except ValueError:
        parts, host = urlsplit(""), ""
    is_http = parts.scheme in ("http", "https")
    if not is_http or not _URL.fullmatch(endpoint) or not _HOST.fullmatch(host):
        raise SettingsError(f"{what} must be a URL as https://host:port")
    return host


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
