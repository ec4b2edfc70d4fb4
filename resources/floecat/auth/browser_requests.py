"""Requests that web pages send with the rights of whoever has the page open.

A service without logins trusts every process of its machine, browsers included, and a browser sends requests
for any page. Three things tell a page's request from a client's: the name by which the page reached the
service (`Host`, which a page with a DNS record of its own chooses), the site of the page (`Origin` and
`Sec-Fetch-Site`; Fetch Standard and Fetch Metadata), and a body or header that a page of another site may
only send after a preflight request (Fetch Standard, "CORS-safelisted request-header"), which is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

__all__ = ["BrowserRefusal", "BrowserRules"]

_LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
_ANY: Final = "*"
_KEPT_HOSTS: Final = 256
_OWN_SITE: Final = frozenset({b"same-origin", b"none"})
_PREFLIGHTED: Final = frozenset({b"x-client-version", b"idempotency-key", b"x-iceberg-access-delegation"})
"""Headers of catalog clients that pages cannot send to another site without a preflight."""
_READS: Final = frozenset({"GET", "HEAD"})


class BrowserRefusal(NamedTuple):
    """The reason why a request is refused."""

    status: int
    """HTTP status: 403 for a page of another site, 415 for a POST that such a page could send."""

    message: str
    """Message for the client."""


class BrowserRules:
    """Judges requests to a service that asks for no login."""

    def __init__(self, bound_host: str, allowed_hosts: Iterable[str] = (), *, setting: str) -> None:
        """Builds the rules.

        Args:
            bound_host: the address that the service listens on. Its name is allowed; where it is every
                address (`0.0.0.0`, `::`), so is any address, as no page can have one of those as its name.
            allowed_hosts: further names, without ports; `*` allows any.
            setting: the name of the setting of `allowed_hosts`, for messages.
        """
        self._names = _LOOPBACK_NAMES | {bound_host.lower(), *map(str.lower, allowed_hosts)}
        self._any_address = _is_unspecified(bound_host)
        self._setting = setting
        self._judged: dict[bytes, bool] = {}

    def refusal(
        self,
        method: str,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        links: bool = True,
        bare_posts: bool = True,
    ) -> BrowserRefusal | None:
        """The reason why a request is refused; None if it is not.

        Args:
            method: HTTP method.
            headers: names in lower case, and values.
            links: pages of other sites may link to the resource (it only reads).
            bare_posts: a POST without body and `Content-Type` is taken. Pages send one with an `Origin`, and
                other methods, whose work may be that of a POST, without.
        """
        host = origin = site = destination = b""
        content_type: bytes | None = None
        preflighted = has_body = False
        for name, value in headers:
            if name == b"host":
                host = _joined(host, value)
            elif name == b"origin":
                origin = _joined(origin, value)
            elif name == b"sec-fetch-site":
                site = _joined(site, value)
            elif name == b"sec-fetch-dest":
                destination = value
            elif name == b"content-type":
                content_type = value
            elif name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
                has_body = True
            elif name in _PREFLIGHTED or (name == b"authorization" and value[:7].lower() == b"bearer "):
                preflighted = True
        if not self.allows(host):
            return BrowserRefusal(
                403,
                f"Host {_shown(host)} is not allowed; the setting {self._setting} lists the allowed names",
            )
        if origin and _host_of(origin) != host.lower():
            return BrowserRefusal(403, f"Requests of web pages from {_shown(origin)} are not allowed")
        if site and site not in _OWN_SITE and not (links and method in _READS and destination == b"document"):
            return BrowserRefusal(403, "Requests of web pages from other sites are not allowed")
        is_bare = bare_posts and content_type is None and not has_body
        if method == "POST" and not (preflighted or is_bare or _is_json(content_type or b"")):
            return BrowserRefusal(415, "A POST needs the header Content-Type: application/json")
        return None

    def allows(self, host: bytes) -> bool:
        """Whether clients may reach the service by this name (`Host`, with or without a port)."""
        allowed = self._judged.get(host)
        if allowed is None:
            allowed = self._names_allow(_without_port(host.decode("latin-1").lower()))
            if len(self._judged) < _KEPT_HOSTS:
                self._judged[host] = allowed
        return allowed

    def _names_allow(self, name: str) -> bool:
        if _ANY in self._names or name in self._names or name.endswith(".localhost"):
            return True
        try:
            address = ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self._any_address or address.is_loopback or str(address) in self._names


def _joined(before: bytes, value: bytes) -> bytes:
    """A header that is sent again: a list, which is none of the accepted values."""
    return before + b", " + value if before else value


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and (name.endswith("]") or ":" not in name) else host


def _host_of(origin: bytes) -> bytes:
    """Host and port of an origin; `null` of a page without one equals no host."""
    return origin.partition(b"://")[2].lower()


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))
