"""Requests to an Iceberg REST catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import uuid_utils.compat as uuids
from lance_namespace.errors import ErrorCode

from floecat.clients.lance.configuration import Configuration
from floecat.clients.lance.errors import Meanings, error_of
from floecat.clients.lance.tokens import Tokens
from floecat.clients.lance.transport import HttpAnswer, Transport
from floecat.clients.lance.wire import RestConfig, decode
from floecat.identifiers.encoding import encode_segment

__all__ = ["RestCatalog"]

T = TypeVar("T")

_READS: Final = ("GET", "HEAD")
_REFUSED: Final = (401, 419)
_OF_WAREHOUSE: Final = Meanings(ErrorCode.NAMESPACE_NOT_FOUND)


class _Warehouse(NamedTuple):
    """The answer of `/v1/config` for a warehouse."""

    prefix: str
    """First segment of its paths, encoded."""

    keeps_keys: bool
    """Whether the catalog knows idempotency keys, so that a change can be sent twice."""


class RestCatalog:
    """Sends requests to the warehouses of a catalog. Safe to share between threads."""

    def __init__(self, configuration: Configuration) -> None:
        """Opens no connection yet."""
        self._endpoint = configuration.endpoint
        self.max_pages: Final = configuration.max_pages
        self._transport = Transport(configuration)
        self._tokens = Tokens(configuration, self._transport)
        self._warehouses: dict[str, _Warehouse] = {}

    def request(
        self,
        method: str,
        warehouse: str,
        path: str,
        kind: type[T],
        meanings: Meanings,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        """Sends a request about a warehouse, and decodes the answer.

        Args:
            method: of HTTP.
            warehouse: its name.
            path: below the prefix of the warehouse, encoded.
            kind: type of the answer.
            meanings: codes for the statuses that depend on the operation.
            query: parameters, not encoded.
            headers: in addition to those of every request.
            body: JSON.

        Raises:
            LanceNamespaceError: the catalog refuses, fails or does not answer; see `error_of`.
        """
        config = self._warehouse(warehouse)
        url = f"{self._endpoint}/v1/{config.prefix}/{path}{_encoded(query)}"
        sent = dict(headers or {})
        if method not in _READS:
            sent["Idempotency-Key"] = str(uuids.uuid7())
        repeatable = method in _READS or config.keeps_keys
        answer = self._send(method, url, sent, body, repeatable=repeatable)
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, answer.body, meanings)
        return decode(answer.body, kind)

    def _warehouse(self, name: str) -> _Warehouse:
        known = self._warehouses.get(name)
        if known is None:
            url = f"{self._endpoint}/v1/config{_encoded({'warehouse': name})}"
            answer = self._send("GET", url, {}, None, repeatable=True)
            if answer.status != 200:
                raise error_of(answer.status, answer.body, _OF_WAREHOUSE)
            known = self._warehouses[name] = _described(name, decode(answer.body, RestConfig))
        return known

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
        *,
        repeatable: bool,
    ) -> HttpAnswer:
        """Sends a request with the current token, and once more with a new one if that is refused."""
        content = None if body is None else json.dumps(body).encode()
        sent = {"Accept": "application/json", **headers}
        if content is not None:
            sent["Content-Type"] = "application/json"
        token = self._tokens.current()
        answer = self._transport.send(
            method, url, headers=_with_token(sent, token), body=content, repeatable=repeatable
        )
        if answer.status not in _REFUSED or not self._tokens.forget(token):
            return answer
        sent = _with_token(sent, self._tokens.current())
        return self._transport.send(method, url, headers=sent, body=content, repeatable=repeatable)


def _with_token(headers: Mapping[str, str], token: str | None) -> dict[str, str]:
    return dict(headers) if token is None else {**headers, "Authorization": f"Bearer {token}"}


def _described(name: str, config: RestConfig) -> _Warehouse:
    defaults, overrides = config.defaults or {}, config.overrides or {}
    prefix = defaults.get("prefix") or overrides.get("prefix") or encode_segment(name)
    return _Warehouse(str(prefix).strip("/"), config.idempotency_key_lifetime is not None)


def _encoded(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query, quote_via=quote, safe='')}" if query else ""
