"""Documents of a token issuer, fetched within bounds of size, time and redirects."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from floecat.auth.deadlines import Deadline, opener, reason_of, trusting

__all__ = ["DocumentError", "IssuerDocuments", "check_address"]

_MOST_REDIRECTS: Final = 3
_STEP_BYTES: Final = 64 << 10


class DocumentError(Exception):
    """A document cannot be had; the message says why, for an operator."""


class IssuerDocuments:
    """Reads documents by HTTP. Proxies are those of the environment."""

    def __init__(
        self,
        *,
        timeout_s: float,
        most_bytes: int,
        ca_file: str | None = None,
        bearer_token_file: str | None = None,
        setting: str = "floecat.oidc",
    ) -> None:
        """Sets the bounds.

        Args:
            timeout_s: how long a document may take, redirects and all.
            most_bytes: of a document.
            ca_file: certificates in PEM of authorities that are trusted beside those of the system.
            bearer_token_file: a file with a token that is sent, as Kubernetes wants one; read each time.
            setting: key of the settings of the issuer.

        Raises:
            SettingsError: the file holds no certificates.
        """
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._bearer_token_file = bearer_token_file
        self._setting = setting
        self._trusted = trusting(ca_file, f"{setting}.ca-file")

    def read(self, url: str) -> bytes:
        """The document at an address.

        Raises:
            DocumentError: there is none, or it exceeds a bound.
        """
        check_address(url)
        request = self._request(url)
        with Deadline(self._timeout_s) as deadline:
            try:
                found = opener(deadline, self._trusted, _Redirects())
                with found.open(request, timeout=self._timeout_s) as answer:
                    document = b"".join(self._parts(answer))
            except DocumentError:
                raise
            except (OSError, ValueError, http.client.HTTPException) as error:
                late = deadline.is_over or isinstance(_cause(error), TimeoutError)
                raise DocumentError(self._too_late() if late else _reason(error, self._setting)) from None
            if deadline.is_over:  # what had come by then looks like the whole of it
                raise DocumentError(self._too_late())
            return document

    def _request(self, url: str) -> urllib.request.Request:
        request = urllib.request.Request(url)  # noqa: S310 - it is http or https
        if self._bearer_token_file is None:
            return request
        setting = f"{self._setting}.bearer-token-file"
        if not url.startswith("https:"):
            raise DocumentError(f"it has no TLS, and the token of {setting} is sent by TLS alone")
        try:
            token = Path(self._bearer_token_file).read_text("ascii").strip()
            # another server, to which this one redirects, does not get it
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise DocumentError(f"{setting}: {self._bearer_token_file} cannot be read: {why}") from None
        return request

    def _parts(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        size_bytes = 0
        while part := answer.read1(_STEP_BYTES):
            size_bytes += len(part)
            if size_bytes > self._most_bytes:
                raise DocumentError(
                    f"it is larger than {self._most_bytes} bytes (floecat.limits.issuer-document-bytes)"
                )
            yield part
        if answer.length:
            raise DocumentError("it breaks off")

    def _too_late(self) -> str:
        return f"it did not come within {self._timeout_s:g} s"


def check_address(url: str, *, of: str = "") -> None:
    """Refuses addresses that keys must not come from.

    Args:
        url: the address.
        of: the address of the document or server that names it. Where that came by TLS, so must this.

    Raises:
        DocumentError: it is no http or https URL, or TLS would end here.
    """
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise DocumentError(f"{_shown(url)} is no http or https URL")
    if parts.scheme == "http" and of.startswith("https:"):
        raise DocumentError(f"{_shown(of)} names {_shown(url)}, which has no TLS")


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _MOST_REDIRECTS
    max_repeats = 1

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_address(newurl, of=req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _cause(error: BaseException) -> object:
    return error.reason if isinstance(error, urllib.error.URLError) else error


def _reason(error: Exception, setting: str) -> str:
    cause = _cause(error)
    if isinstance(error, urllib.error.HTTPError):
        if 300 <= error.code < 400:
            return f"it is redirected more than {_MOST_REDIRECTS} times, or not to an http or https URL"
        return f"the answer has the status {error.code}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{reason_of(error)} (see {setting}.ca-file)"
    return reason_of(error)


def _shown(url: str) -> str:
    return repr(url[:200])
