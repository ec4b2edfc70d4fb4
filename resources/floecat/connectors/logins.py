"""How a connector logs in to another catalog: by a token, a service that gives tokens, or keys of AWS."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from floecat.connectors.upstream_http import UpstreamAnswer, UpstreamHttp
from floecat.credentials.sts import STS_VERSION, answer_texts, signed_headers, sts_endpoint
from floecat.errors import BadRequestError, UnavailableError, UnprocessableError, UpstreamRefusedError

__all__ = ["MASK", "Login", "check_credentials", "masked", "open_login"]

MASK: Final = "***"
"""What stands for each field of credentials wherever they are shown."""

_LONGEST_FIELD: Final = 16 << 10
_LONGEST_CODE: Final = 64
_ANSWER_BYTES: Final = 256 << 10
_SPARE_S: Final = 30.0
_COMMAND_S: Final = 30.0
_UNTOLD_LIFETIME_S: Final = 300.0
_FOR_EVER: Final = float("inf")
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


class _Scheme(NamedTuple):
    needed: frozenset[str] = frozenset()
    further: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()
    """Of which there must be exactly one."""


_CLIENT: Final = frozenset({"client-id", "client-secret"})
_SCHEMES: Final[Mapping[str, _Scheme]] = {
    "none": _Scheme(),
    "bearer": _Scheme(frozenset({"token"})),
    "cli": _Scheme(frozenset({"command"})),
    "oauth2": _Scheme(frozenset({"token-endpoint"}) | _CLIENT, frozenset({"scope", "audience"})),
    "token-exchange": _Scheme(
        frozenset({"token-endpoint"}),
        _CLIENT | {"scope", "audience", "resource", "subject-token-type", "requested-token-type", "form"},
        frozenset({"subject-token", "command"}),
    ),
    "password": _Scheme(frozenset({"password"}), frozenset({"user"})),
    "aws": _Scheme(
        frozenset({"access-key-id", "secret-access-key"}), frozenset({"region", "session-token", "service"})
    ),
    "aws-assume-role": _Scheme(
        frozenset({"access-key-id", "secret-access-key", "role-arn", "region"}),
        frozenset({"external-id", "sts-endpoint", "service"}),
    ),
    "aws-web-identity": _Scheme(
        frozenset({"role-arn", "region"}),
        frozenset({"sts-endpoint", "service"}),
        frozenset({"web-identity-token", "command"}),
    ),
}


def check_credentials(credentials: Mapping[str, str], commands: Mapping[str, str]) -> None:
    """Refuses credentials that no login can be made of.

    Args:
        credentials: `scheme`, and what it needs; empty for none.
        commands: by name, what `floecat.connectors.token-commands` says.

    Raises:
        BadRequestError: see above. The message has no value of a field.
    """
    if not credentials:
        return
    scheme = _SCHEMES.get(credentials.get("scheme", ""))
    if scheme is None:
        raise BadRequestError(f"Invalid credentials: scheme must be one of {', '.join(_SCHEMES)}")
    given = credentials.keys() - {"scheme"}
    if unknown := sorted(given - scheme.needed - scheme.further - scheme.one_of):
        known = ", ".join(sorted(scheme.needed | scheme.further | scheme.one_of)) or "no field"
        raise BadRequestError(f"Invalid credentials: unknown field {unknown[0][:80]!r} (known: {known})")
    if missing := sorted(scheme.needed - given):
        raise BadRequestError(f"Invalid credentials: {missing[0]} is missing")
    if scheme.one_of and len(scheme.one_of & given) != 1:
        raise BadRequestError(f"Invalid credentials: needs one of {', '.join(sorted(scheme.one_of))}")
    for name, value in credentials.items():
        if not value or value == MASK or len(value) > _LONGEST_FIELD or not value.isprintable():
            raise BadRequestError(
                f"Invalid credentials: {name} is empty, masked, too long or has a line break"
            )
    if credentials.get("form", "rfc8693") not in ("rfc8693", "azure"):
        raise BadRequestError("Invalid credentials: form must be rfc8693 or azure")
    if (command := credentials.get("command")) is not None and command not in commands:
        raise BadRequestError(
            "Invalid credentials: floecat.connectors.token-commands has no command of that name"
        )


def masked(credentials: Mapping[str, str]) -> dict[str, str]:
    """Credentials as they are shown: the scheme, and which fields there are."""
    return {name: value if name == "scheme" else MASK for name, value in credentials.items()}


class _Token(NamedTuple):
    value: Any
    until_s: float


class Login:
    """Logs requests in with what is got now and then, and kept until shortly before it ends. Thread-safe."""

    def __init__(
        self,
        get: Callable[[], _Token],
        sign: Callable[[Any, str, str, bytes | None], Mapping[str, str]],
    ) -> None:
        self._get = get
        self._sign = sign
        self._lock = threading.Lock()
        self._token: _Token | None = None

    def headers(self, method: str, url: str, body: bytes | None) -> Mapping[str, str]:
        """Headers that log a request in.

        Raises:
            UpstreamRefusedError: the service that gives tokens refuses the credentials.
            UnavailableError: it does not answer.
        """
        with self._lock:
            if self._token is None or self._token.until_s - _SPARE_S <= time.monotonic():
                self._token = self._get()
            value = self._token.value
        return self._sign(value, method, url, body)

    def get(
        self, http: UpstreamHttp, url: str, headers: Mapping[str, str], *, most_bytes: int
    ) -> UpstreamAnswer:
        """Sends a GET that is logged in; once more, if a token was refused. See `UpstreamHttp.send`."""

        def ask() -> UpstreamAnswer:
            return http.send("GET", url, headers, signer=self.headers, most_bytes=most_bytes)

        answer = ask()
        # a token may end before its time
        return ask() if answer.status == 401 and self.forget() else answer

    def forget(self) -> bool:
        """Drops what was got for a while, as a token, so that it is got anew; whether there was anything."""
        with self._lock:
            before, self._token = self._token, None
        return before is not None and before.until_s != _FOR_EVER


def open_login(credentials: Mapping[str, str], http: UpstreamHttp, commands: Mapping[str, str]) -> Login:
    """The login of credentials, which were checked before. Asks nobody yet.

    Raises:
        BadRequestError: an HTTP service takes no credentials of the scheme, or they lack the region.
    """
    scheme = credentials.get("scheme", "none")
    if scheme == "password":
        raise BadRequestError("Invalid credentials: connectors of this kind take no password")
    if scheme == "aws" and "region" not in credentials:
        raise BadRequestError("Invalid credentials: region is missing")
    command = credentials.get("command")

    def printed() -> str:
        return _printed(command or "", commands)

    if scheme == "none":
        return Login(lambda: _Token(None, _FOR_EVER), lambda *_: {})
    if scheme == "bearer":
        return Login(lambda: _Token(credentials["token"], _FOR_EVER), _bearer)
    if scheme == "cli":
        return Login(lambda: _Token(printed(), time.monotonic() + _UNTOLD_LIFETIME_S), _bearer)
    if scheme in ("oauth2", "token-exchange"):
        return Login(lambda: _token(credentials, printed if command else None, http), _bearer)

    def sign(keys: Any, method: str, url: str, body: bytes | None) -> Mapping[str, str]:
        service = credentials.get("service", "execute-api")
        return signed_headers(keys, credentials["region"], service, method, url, {}, body)

    return Login(lambda: _keys(credentials, printed if command else None, http), sign)


def _bearer(token: str, *_: object) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _printed(name: str, commands: Mapping[str, str]) -> str:
    """What a command prints, which the settings name."""
    command = commands.get(name)
    if command is None:
        raise UpstreamRefusedError(f"floecat.connectors.token-commands has no command {name}")
    try:
        done = subprocess.run(  # noqa: S603 - the command of the operator
            shlex.split(command),
            capture_output=True,
            timeout=_COMMAND_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        token = done.stdout[: _LONGEST_FIELD + 2].decode("ascii").strip()
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"The token command {name} did not end within {_COMMAND_S:g} s") from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        code = getattr(error, "returncode", None)
        why = "it cannot be run" if code is None else f"it exited with {code}"
        raise UpstreamRefusedError(f"The token command {name} printed no token: {why}") from None
    if not token or len(token) > _LONGEST_FIELD or not token.isprintable():
        raise UpstreamRefusedError(f"The token command {name} printed no token: expected one line")
    return token


class _TokenAnswer(msgspec.Struct):
    access_token: str = ""
    expires_in: float | None = None
    error: str = ""


def _token(credentials: Mapping[str, str], printed: Callable[[], str] | None, http: UpstreamHttp) -> _Token:
    """Asks a token endpoint: client credentials (RFC 6749), an exchange (RFC 8693), or that of Azure."""
    form = {name: credentials[name] for name in ("scope", "audience", "resource") if name in credentials}
    form |= {name.replace("-", "_"): credentials[name] for name in _CLIENT if name in credentials}
    if credentials["scheme"] == "oauth2":
        form["grant_type"] = "client_credentials"
    else:
        subject = printed() if printed else credentials["subject-token"]
        if credentials.get("form") == "azure":
            form |= {"grant_type": _JWT_BEARER, "assertion": subject, "requested_token_use": "on_behalf_of"}
        else:
            form |= {
                "grant_type": _EXCHANGE,
                "subject_token": subject,
                "subject_token_type": credentials.get("subject-token-type", _ACCESS_TOKEN),
                "requested_token_type": credentials.get("requested-token-type", _ACCESS_TOKEN),
            }
    url = credentials["token-endpoint"]
    found = http.send("POST", url, _FORM, urlencode(form).encode(), most_bytes=_ANSWER_BYTES)
    host = http.hosts.check_url(url).netloc
    answer = found.decoded(_TokenAnswer, strict=False) or _TokenAnswer()
    if found.status >= 500 or found.status == 429:
        raise UnavailableError(f"The token endpoint at {host} fails with the status {found.status}")
    if found.status != 200:
        raise UpstreamRefusedError(
            f"The token endpoint at {host} refuses the credentials: {_code(answer.error, found.status)}"
        )
    if not answer.access_token or not answer.access_token.isprintable() or not answer.access_token.isascii():
        raise UnprocessableError(f"The answer of the token endpoint at {host} holds no token")
    lifetime_s = _UNTOLD_LIFETIME_S if answer.expires_in is None else max(answer.expires_in, 0.0)
    return _Token(answer.access_token, time.monotonic() + lifetime_s)


def _keys(credentials: Mapping[str, str], printed: Callable[[], str] | None, http: UpstreamHttp) -> _Token:
    """Keys of AWS: those that are given, or those of a role (AWS Security Token Service)."""
    from botocore.credentials import ReadOnlyCredentials

    scheme, region = credentials["scheme"], credentials["region"]
    own = None
    if scheme != "aws-web-identity":
        own = ReadOnlyCredentials(
            credentials["access-key-id"], credentials["secret-access-key"], credentials.get("session-token")
        )
    if scheme == "aws":
        return _Token(own, _FOR_EVER)
    form = {"Version": STS_VERSION, "RoleArn": credentials["role-arn"], "RoleSessionName": "floecat"}
    url = credentials.get("sts-endpoint", sts_endpoint(region))
    headers: Mapping[str, str] = _FORM
    if own is None:
        token = printed() if printed else credentials["web-identity-token"]
        form |= {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": token}
        body = urlencode(form).encode()
    else:
        form["Action"] = "AssumeRole"
        if "external-id" in credentials:
            form["ExternalId"] = credentials["external-id"]
        body = urlencode(form).encode()
        headers = signed_headers(own, region, "sts", "POST", url, _FORM, body)
    found = http.send("POST", url, headers, body, most_bytes=_ANSWER_BYTES)
    host = http.hosts.check_url(url).netloc
    texts = answer_texts(found.body)
    if found.status >= 500:
        raise UnavailableError(f"The STS at {host} fails with the status {found.status}")
    if found.status != 200:
        raise UpstreamRefusedError(f"The STS at {host} refuses: {_code(texts.get('Code', ''), found.status)}")
    try:
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        # a session of a role lasts an hour where nothing else is asked for
        return _Token(ReadOnlyCredentials(*(texts[name] for name in names)), time.monotonic() + 3600)
    except KeyError:
        raise UnprocessableError(f"The answer of the STS at {host} holds no keys") from None


def _code(code: str, status: int) -> str:
    """The name of an error that a service answers, or the status where that is no name."""
    plain = code.replace("_", "").replace(".", "")
    return code if plain.isalnum() and len(code) <= _LONGEST_CODE else f"status {status}"
