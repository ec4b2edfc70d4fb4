"""What a client can know after a request, read from the answer or from its absence."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import httpx

__all__ = ["Answer", "Fate", "Sender"]

Fate: TypeAlias = Literal["done", "refused", "not applied", "unknown"]
"""`refused`: the catalog said no. `not applied`: the service could not, and says that nothing was done."""

_REFUSALS = frozenset({400, 404, 409})


class Answer(NamedTuple):
    """An answer in shape, or none."""

    fate: Fate
    status: int | None
    body: Any

    @property
    def error_type(self) -> str:
        """The exception that a Java client would raise."""
        return str(self.body["error"]["type"])


class Sender:
    """Sends requests to one service and takes no answer that the contract does not know.

    Not 500, except for a commit of unknown outcome; not 503 without Retry-After; no error out of shape.
    All senders are closed at the end of the test that made them.
    """

    opened: ClassVar[list[Sender]] = []

    def __init__(self, base_url: str, *, timeout_s: float = 60.0, connections: int = 256) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.Client(
            base_url=f"{base_url}/v1/floecat",
            timeout=timeout_s,
            limits=limits,
            verify=False,
            headers={"x-client-version": "test"},
        )
        self.opened.append(self)

    def close(self) -> None:
        self._http.close()

    def send(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **params: str
    ) -> Answer:
        """The answer to a request; `unknown` when the connection broke after it may have been sent."""
        headers = {"idempotency-key": key} if key else {}
        try:
            answer = self._http.request(method, path, json=body, params=params or None, headers=headers)
        except httpx.ConnectError:
            return Answer("not applied", None, None)
        except httpx.TimeoutException as error:
            raise AssertionError(f"{method} {path} hung") from error
        except httpx.TransportError:
            return Answer("unknown", None, None)
        return read_answer(answer)

    def metadata(self, path: str) -> Any:
        """The metadata of a table that is there."""
        answer = self.send("GET", path)
        assert answer.status == 200, answer
        return answer.body["metadata"]


def read_answer(answer: httpx.Response) -> Answer:
    """What an answer says.

    Raises:
        AssertionError: it is out of shape, or one that no client should ever see.
    """
    status = answer.status_code
    body = answer.json() if answer.content else None
    if status < 300:
        return Answer("done", status, body)
    if answer.request.method != "HEAD":
        error = body["error"]
        assert isinstance(error["message"], str), body
        assert error["message"], body
        assert error["code"] == status, body
    if status in _REFUSALS:
        return Answer("refused", status, body)
    if status == 503:
        assert int(answer.headers["retry-after"]) >= 1, answer.headers
        return Answer("not applied", status, body)
    assert (status, body["error"]["type"]) == (500, "CommitStateUnknownException"), answer.text
    return Answer("unknown", status, body)
