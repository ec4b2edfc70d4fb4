"""Lists that are kept as they were sent, and sent again while nothing in them has changed.

A list costs one statement then, which tells the state that it hangs on (`entries.listing.ListStates`), on the
event loop where the store is local. All other requests go on to the application, whose answer is kept if the
state was the same before and after.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from litestar.enums import ScopeType

from floecat.entries.calls import Call
from floecat.errors import FloecatError
from floecat.identifiers.namespace import Namespace
from floecat.memory_budget import LruCache
from floecat_rest.http.documents import accepts_gzip
from floecat_rest.http.errors import ErrorForm, answer_error
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.requests import HttpServices, header_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["KeptListAnswers"]

# names of other characters may have two readings, or none
_NAME: Final = "[A-Za-z0-9_-]+"
_LEVELS: Final = f"{_NAME}(?:%1F{_NAME})*"
_LIST: Final = re.compile(f"/v1/({_NAME})/namespaces(?:/({_LEVELS})/(tables|views))?")
# nothing else is kept: parameters that mean nothing would make any number of equal lists
_QUERY: Final = re.compile(
    f"(?:(?:parent=({_LEVELS})|pageSize=[0-9]+|pageToken=[A-Za-z0-9_-]*)(?:&|$))*".encode()
)
_SCHEMAS: Final = re.compile(f"/api/metalakes/{_NAME}/catalogs/({_NAME})/schemas")
# in a query a name of printable characters has one reading
_SCHEMAS_QUERY: Final = re.compile(b"(?:parentSchema=((?:[A-Za-z0-9_:;$|~^+-]|%[2-7][0-9A-Fa-f])*))?")
_LONGEST: Final = 512
_OF_ANY_ANSWER: Final = frozenset({b"content-type", b"content-length"})
_KEPT_BYTES: Final = 1 << 10
"""Estimated memory of a key and headers."""


class _List(NamedTuple):
    """A list that a request asks for."""

    catalog: str
    kind: str | None
    levels: str
    """Name of the namespace that is listed."""

    def within(self, schema_separator: str | None) -> Namespace | None:
        """The namespace. A schema of a flat catalog has none in it, and no namespace has this name."""
        if not self.levels:
            return None
        separator = schema_separator if self.kind == "schemas" else "%1F"
        return tuple(self.levels.split(separator)) if separator else ()


class _Sent:
    """Sends an answer on.

    Attributes:
        answer: it, if it is a 200 with a body in one part.
    """

    def __init__(self, send: Send) -> None:
        self.answer: Answer | None = None
        self._send = send
        self._headers: list[tuple[bytes, bytes]] | None = None

    async def __call__(self, message: Message) -> None:
        # first, since servers and what stands between may change the headers
        if message["type"] == "http.response.start" and message["status"] == 200:
            self._headers = [header for header in message["headers"] if header[0] not in _OF_ANY_ANSWER]
        elif message["type"] == "http.response.body" and self._headers is not None:
            whole = not message["more_body"] and self.answer is None
            self.answer = Answer(200, message["body"], self._headers) if whole else None
        await self._send(message)


class KeptListAnswers:
    """ASGI wrapper, behind the one that restores raw paths. Metrics use `templates`."""

    def __init__(
        self,
        app: ASGIApp,
        services: HttpServices,
        *,
        templates: dict[str | None, str],
        error_form: Callable[[str], ErrorForm],
    ) -> None:
        """Takes the application.

        Args:
            app: what answers first.
            services: what the process shares.
            templates: paths as the framework labels them, of lists of `tables`, `views`, `schemas` and, by
                `None`, of namespaces.
            error_form: of errors of a path.
        """
        self._app = app
        self._services = services
        self._templates = templates
        self._error_form = error_form
        self._kept: LruCache[Answer] = services.memory.cache("lists", largest_part=4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a list, or passes the request on."""
        found = _named(scope) if scope["type"] == ScopeType.HTTP and scope["method"] == "GET" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        within = None
        try:
            call = await self._services.remembered_call(scope["headers"], found.catalog)
            if call is not None:
                within = found.within(call.catalog.schema_separator)
            state = None if call is None else await self._state(call, within)
        except FloecatError as error:
            await answer_error(scope, error, self._error_form(scope["path"]))(scope, receive, send)
            return
        if call is None or state is None:
            await self._app(scope, receive, send)
            return
        is_compressed = accepts_gzip(header_of(scope["headers"], b"accept-encoding"))
        # of schemas, the path names the account, and the separator is in each name
        of_schemas = (scope["path"], call.catalog.schema_separator) if found.kind == "schemas" else None
        key = (state, found.kind, of_schemas, scope["query_string"], is_compressed)
        kept = self._kept.get(key)
        if kept is not None:
            scope["path_template"] = self._templates[found.kind]
            await kept(scope, receive, send)
            return
        sent = _Sent(send)
        await self._app(scope, receive, sent)
        if sent.answer is not None and await self._is_still(state, call, within):
            self._kept.put(key, sent.answer, _KEPT_BYTES + len(sent.answer.body))

    async def _is_still(self, state: Hashable, call: Call, within: Namespace | None) -> bool:
        try:
            return await self._state(call, within) == state
        except FloecatError:  # the list is sent already
            return False

    async def _state(self, call: Call, within: Namespace | None) -> Hashable | None:
        kernel = self._services.kernel
        if kernel is None:
            return None
        ask = partial(kernel.catalog.list_states.state, call, within)
        return ask() if kernel.store.is_read_at_once else await self._services.threads.run(ask)


def _named(scope: Scope) -> _List | None:
    """The list that is asked for; `None` for all else, and for what may be read in two ways."""
    path, query = scope["path"], scope["query_string"]
    if len(path) + len(query) >= _LONGEST or query.count(b"parent=") > 1:
        return None
    if (schemas := _SCHEMAS.fullmatch(path)) is not None:
        parameters = _SCHEMAS_QUERY.fullmatch(query)
        return None if parameters is None else _List(schemas[1], "schemas", unquote_plus(_text(parameters)))
    found, parameters = _LIST.fullmatch(path), _QUERY.fullmatch(query)
    if found is None or parameters is None:
        return None
    prefix, levels, kind = found.groups()
    return _List(prefix, kind, _text(parameters) if kind is None else levels)


def _text(parameters: re.Match[bytes]) -> str:
    return (parameters[1] or b"").decode()
