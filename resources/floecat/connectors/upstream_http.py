"""Requests to other catalogs: to allowed hosts alone, and within bounds of bytes, time and redirects.

A connection goes to the address that was checked, so that a name that is answered otherwise the next time
leads nowhere. Proxies of the environment are not used: a proxy looks names up by itself.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from floecat.auth.deadlines import Deadline, reason_of, trusting
from floecat.errors import (
    BadRequestError,
    FloecatError,
    LocationNotAllowedError,
    UnavailableError,
    UnprocessableError,
)

__all__ = ["CA_FILE", "LONGEST_ANSWER_BYTES", "AllowedHosts", "Signer", "UpstreamAnswer", "UpstreamHttp"]

LONGEST_ANSWER_BYTES: Final = 64 << 20
"""As the document of a table; listings and tokens have less."""

CA_FILE: Final = "floecat.connectors.ca-file"
"""Setting that names a file with certificates."""

_SETTING: Final = "floecat.connectors.allowed-hosts"
_MOST_REDIRECTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_STEP_BYTES: Final = 64 << 10
_TIMEOUT_S: Final = 60.0
_LONGEST_URL: Final = 8 << 10

T = TypeVar("T")

Signer: TypeAlias = Callable[[str, str, bytes | None], Mapping[str, str]]
"""Headers that log a request in, by its method, URL and body."""


class UpstreamAnswer(NamedTuple):
    """What a catalog answered, whatever the status."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes

    def decoded(self, type: type[T], *, strict: bool = True) -> T | None:
        """The body, which is JSON; `None` if it is none, or not of the type.

        Args:
            strict: see `msgspec.json.decode`.
        """
        try:
            return msgspec.json.decode(self.body, type=type, strict=strict)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


class AllowedHosts:
    """The hosts that connectors may connect to, as the settings list them."""

    def __init__(self, allowed: Sequence[str]) -> None:
        """Takes names, addresses, or `*.domain` for all names below a domain."""
        self._exact = {each.lower().strip("[]") for each in allowed if not each.startswith("*.")}
        self._domains = tuple(each[1:].lower() for each in allowed if each.startswith("*."))

    def check_url(self, url: str) -> SplitResult:
        """The parts of an address that a connector may ask.

        Raises:
            BadRequestError: it is no http or https URL, or holds a user, a fragment or a control character.
            LocationNotAllowedError: its host is not allowed.
        """
        try:
            parts = urlsplit(url)
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_web = False
        if not is_web or not url.isascii() or not url.isprintable() or " " in url or len(url) > _LONGEST_URL:
            raise BadRequestError("Invalid address of another catalog: must be an http or https URL")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise BadRequestError("Invalid address of another catalog: must hold no user and no fragment")
        self.check_host(parts.hostname or "")
        return parts

    def check_host(self, host: str) -> None:
        """Refuses a host that is not listed.

        Raises:
            LocationNotAllowedError: it is not.
        """
        if host not in self._exact and not host.endswith(self._domains):
            raise LocationNotAllowedError(
                f"Connectors may not connect to the host {host[:255]!r}"
                f" ({_SETTING} lists those to which they may)"
            )

    def addresses(self, host: str, port: int) -> Sequence[tuple[socket.AddressFamily, tuple[object, ...]]]:
        """Where a host is. Addresses of inner networks count only for hosts that are listed themselves.

        Raises:
            LocationNotAllowedError: none of its addresses may be connected to.
            OSError: it is not found.
        """
        self.check_host(host)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        fit = [(family, to) for family, _, _, _, to in found if self._is_allowed(host, str(to[0]))]
        if not fit:
            raise LocationNotAllowedError(
                f"Connectors may not connect to the host {host!r}: its address {found[0][4][0]} is not of the"
                f" internet, and {_SETTING} does not list the host itself"
            )
        return fit

    def _is_allowed(self, host: str, address: str) -> bool:
        ip = ipaddress.ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if host in self._exact:
            # a link-local address is that of keys of the machine, in every cloud
            return host == address or not (ip.is_link_local or ip.is_multicast or ip.is_unspecified)
        return ip.is_global and not ip.is_multicast


class _Checked(http.client.HTTPConnection):
    """A connection to an address of its host that may be connected to, which ends in time."""

    allowed: AllowedHosts
    deadline: Deadline

    def connect(self) -> None:
        """Connects to the first address that answers."""
        problem: OSError | None = None
        for family, address in self.allowed.addresses(self.host, self.port):
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                self.deadline.watch(made)
                made.settimeout(self.timeout)
                made.connect(address)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                made.close()
                problem = error
            else:
                self.sock = made
                return
        raise problem or OSError("the host has no address")


class _CheckedTls(http.client.HTTPSConnection, _Checked):
    """The same by TLS: its name is checked against the certificate, by the order of its bases."""


class UpstreamHttp:
    """Sends requests to other catalogs. Keeps connections to each between requests. Thread-safe."""

    def __init__(
        self, allowed: Sequence[str], *, ca_file: str | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Sends nothing yet.

        Args:
            allowed: hosts, as `floecat.connectors.allowed-hosts` lists them.
            ca_file: certificates in PEM of authorities that are trusted beside those of the system.
            timeout_s: longest time of a request, with its redirects.

        Raises:
            SettingsError: the file holds no certificates.
        """
        self.hosts = AllowedHosts(allowed)
        self._timeout_s = timeout_s
        self._kept: defaultdict[tuple[str, str], list[http.client.HTTPConnection]] = defaultdict(list)
        """As many of an origin as there were requests at once."""
        self._lock = threading.Lock()
        self._trusted = trusting(ca_file, CA_FILE)

    def close(self) -> None:
        """Ends the connections that are kept."""
        with self._lock:
            for connections in self._kept.values():
                while connections:
                    connections.pop().close()

    def __del__(self) -> None:
        # a connector has no end of its own
        self.close()

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        signer: Signer | None = None,
        most_bytes: int = LONGEST_ANSWER_BYTES,
    ) -> UpstreamAnswer:
        """Sends a request, and follows redirects of a GET to hosts that are allowed.

        Args:
            headers: sent to the host of the URL alone, as what they say may be secret.
            signer: logs the request in, at the host of the URL alone.
            most_bytes: of the answer.

        Raises:
            BadRequestError: it is no URL.
            LocationNotAllowedError: the host is not allowed, or one to which it redirects.
            UnavailableError: no answer came in time.
            UnprocessableError: the answer is too large, is compressed though nobody asked for that, or
                redirects in circles.
        """
        first = self.hosts.check_url(url)
        with Deadline(self._timeout_s) as deadline:
            for _ in range(_MOST_REDIRECTS + 1):
                parts = self.hosts.check_url(url)
                own: dict[str, str] = {}
                if parts[:2] == first[:2]:
                    own = {**(headers or {}), **(signer(method, url, body) if signer else {})}
                answer = self._ask(deadline, method, parts, own, body, most_bytes)
                if answer.status not in _REDIRECTS:
                    return answer
                to = answer.headers.get("location")
                if method != "GET" or to is None:
                    raise UnprocessableError(f"{parts.hostname} redirects a request that must not be")
                url = urljoin(url, to)
                if parts.scheme == "https" and not url.startswith("https:"):
                    raise UnprocessableError(f"{parts.hostname} redirects to an address without TLS")
        raise UnprocessableError(f"{first.hostname} redirects more than {_MOST_REDIRECTS} times")

    def _ask(
        self,
        deadline: Deadline,
        method: str,
        parts: SplitResult,
        headers: Mapping[str, str],
        body: bytes | None,
        most_bytes: int,
    ) -> UpstreamAnswer:
        origin = parts[:2]
        with self._lock:
            kept = self._kept[origin].pop() if self._kept[origin] else None
        connection = kept or self._new(parts)
        try:
            try:
                answer = self._begin(connection, deadline, method, parts, headers, body)
            except (ConnectionError, http.client.BadStatusLine):
                connection.close()
                if kept is None or deadline.is_over:
                    raise
                connection = self._new(parts)  # the one that was kept has ended meanwhile
                answer = self._begin(connection, deadline, method, parts, headers, body)
            with answer:
                found = self._read(parts, answer, most_bytes)
            late = deadline.is_over  # what had come by then looks like the whole of it
        except FloecatError:
            connection.close()
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            connection.close()
            late = deadline.is_over or isinstance(error, TimeoutError)
            if not late:
                hint = f" (see {CA_FILE})" if isinstance(error, ssl.SSLCertVerificationError) else ""
                raise UnavailableError(f"{parts.netloc} does not answer: {reason_of(error)}{hint}") from None
        if late:
            connection.close()
            raise UnavailableError(f"{parts.netloc} did not answer within {self._timeout_s:g} s")
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._kept[origin].append(connection)
        return found

    def _new(self, parts: SplitResult) -> http.client.HTTPConnection:
        made: _Checked
        # with its port, as the end of an IPv6 address would be taken for one
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if parts.scheme == "https":
            made = _CheckedTls(host, port, timeout=self._timeout_s, context=self._trusted)
        else:
            made = _Checked(host, port, timeout=self._timeout_s)
        made.allowed = self.hosts
        return made

    def _begin(
        self,
        connection: http.client.HTTPConnection,
        deadline: Deadline,
        method: str,
        parts: SplitResult,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> http.client.HTTPResponse:
        connection.deadline = deadline  # type: ignore[attr-defined]
        if connection.sock is not None:
            with suppress(OSError):  # it has ended: the request says so
                deadline.watch(connection.sock)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fixed = {"Accept-Encoding": "identity", "User-Agent": "floecat"}
        connection.request(method, path, body, {**fixed, **headers})
        return connection.getresponse()

    def _read(self, parts: SplitResult, answer: http.client.HTTPResponse, most_bytes: int) -> UpstreamAnswer:
        pieces, size_bytes = [], 0
        while piece := answer.read1(_STEP_BYTES):
            size_bytes += len(piece)
            if size_bytes > most_bytes:
                raise UnprocessableError(
                    f"The answer of {parts.netloc} is larger than {most_bytes} bytes, and was not read"
                )
            pieces.append(piece)
        if answer.length:
            raise http.client.IncompleteRead(b"")
        if answer.getheader("Content-Encoding", "identity") != "identity":
            raise UnprocessableError(f"The answer of {parts.netloc} is compressed, which was not asked for")
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return UpstreamAnswer(answer.status, headers, b"".join(pieces))
