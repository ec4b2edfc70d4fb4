"""Decisions by the Open Policy Agent, or by another service that answers in its form.

One POST asks for all checks of a question. Whatever is no clear answer refuses the request with 503.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Authorizer, Check, FoundSecurable
from floecat.auth.deadlines import Deadline, Watched, WatchedTls
from floecat.auth.principals import Principal
from floecat.errors import SettingsError, UnavailableError
from floecat.settings.groups.process import OpaSettings
from floecat.store.database.engine import Connection

__all__ = ["OpaAuthorizer"]

_STEP_BYTES: Final = 64 << 10
_MOST_IDLE: Final = 64
"""Connections that are kept; a request takes one."""


class _Check(msgspec.Struct, omit_defaults=True):
    privilege: str
    kind: str
    catalog: str = ""
    namespace: Sequence[str] = ()
    name: str | None = None


class _Input(msgspec.Struct):
    account: UUID
    principal: str
    issuer: str
    groups: Sequence[str]
    checks: Sequence[_Check]


class _Question(msgspec.Struct):
    input: _Input


class _Allowed(msgspec.Struct):
    allowed: list[bool]


class _Answer(msgspec.Struct):
    result: list[bool] | _Allowed


class _NoAnswerError(Exception):
    """The service does not say whether something is allowed; the message says why, for an operator."""


class OpaAuthorizer(Authorizer):
    """Asks by HTTP, over connections that are used again. Thread-safe; never to be asked on an event loop."""

    def __init__(self, settings: OpaSettings) -> None:
        """Connects on first use.

        Raises:
            SettingsError: there is no address, or it is malformed.
        """
        url = urlsplit(settings.url or "")
        try:
            self._host, self._port = url.hostname or "", url.port
        except ValueError:
            self._host = ""
        if url.scheme not in ("http", "https") or not self._host:
            raise SettingsError(
                "floecat.auth.opa.url: an http or https URL is needed with authorizer = 'opa'"
            )
        self._path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if settings.token:
            self._headers["authorization"] = f"Bearer {settings.token}"
        self._timeout_s = settings.timeout_ms / 1000
        self._most_bytes = settings.max_answer_bytes
        self._idle: list[Watched] = []

    def allowed(
        self, principal: Principal, checks: Sequence[Check], _found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """As the policy says.

        Raises:
            UnavailableError: there is no clear answer in time.
        """
        asked = [
            _Check(privilege, each.kind, each.catalog, each.namespace, each.name)
            for privilege, each in checks
        ]
        question = _Question(
            _Input(principal.account_id, principal.name, principal.issuer, principal.groups, asked)
        )
        try:
            answer = _read(self._post(msgspec.json.encode(question)))
            if len(answer) != len(checks):
                raise _NoAnswerError(f"{len(answer)} answers to {len(checks)} checks")
        except _NoAnswerError as error:
            raise UnavailableError(
                f"The policy service (floecat.auth.opa.url) does not decide, so nothing is done: {error}"
            ) from None
        return answer

    def owner(self, _conn: Connection, _principal: Principal, /) -> UUID | None:
        """Nobody: policies know no owners."""
        return None

    def close(self) -> None:
        """Closes the connections that wait for a request."""
        while self._idle:
            self._idle.pop().close()

    def _post(self, question: bytes) -> bytes:
        with Deadline(self._timeout_s) as deadline:
            while True:
                used: Watched | None = None
                with suppress(IndexError):  # other threads take some, too
                    used = self._idle.pop()
                connection = used or self._connection()
                connection.deadline = deadline
                try:
                    if used is not None:
                        deadline.watch(used.sock)
                    connection.request("POST", self._path, question, self._headers)
                    answer = connection.getresponse()
                    if answer.status != http.HTTPStatus.OK:
                        raise _NoAnswerError(f"its answer has the status {answer.status}")
                    body = self._body(answer)
                    if deadline.is_over:  # what had come by then looks like the whole of it
                        raise TimeoutError
                    answer.close()  # only then the connection takes another request
                except (OSError, ValueError, http.client.HTTPException) as error:
                    connection.close()
                    if used is not None and not deadline.is_over:
                        continue  # it may have ended while it was idle
                    raise _NoAnswerError(
                        f"no answer within {self._timeout_s:g} s (floecat.auth.opa.timeout-ms)"
                        if deadline.is_over or isinstance(error, TimeoutError)
                        else f"{type(error).__name__} on the way to it"
                    ) from None
                except BaseException:
                    connection.close()
                    raise
                if answer.will_close or len(self._idle) >= _MOST_IDLE:
                    connection.close()
                else:
                    self._idle.append(connection)
                return body

    def _connection(self) -> Watched:
        if self._tls is None:
            return Watched(self._host, self._port, timeout=self._timeout_s)
        return WatchedTls(self._host, self._port, timeout=self._timeout_s, context=self._tls)

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        while part := answer.read1(_STEP_BYTES):
            body += part
            if len(body) > self._most_bytes:
                raise _NoAnswerError(
                    f"its answer is larger than {self._most_bytes} bytes (floecat.auth.opa.max-answer-bytes)"
                )
        if answer.length:
            raise _NoAnswerError("its answer breaks off")
        return bytes(body)


def _read(body: bytes) -> list[bool]:
    try:
        result = msgspec.json.decode(body, type=_Answer).result
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise _NoAnswerError("its answer has no result of one boolean for each check") from None
    return result.allowed if isinstance(result, _Allowed) else result
