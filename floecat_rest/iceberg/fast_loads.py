"""Fast loads (`floecat.catalog.load_table`), answered in front of the application.

Such a load takes one statement. On a local store it runs on the event loop: handing it to a thread and back
costs several times that, since both compete for the interpreter. A remote store is asked in a thread.
All other requests go on to the application: this wrapper answers 200 and 304 as `TableController` would. It
also answers 503 when a remote store is unavailable, so that the application does not wait for it again.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from litestar.enums import ScopeType

from floecat.catalog.load_table import SnapshotsMode
from floecat.errors import FloecatError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.http.documents import client_config
from floecat_rest.http.errors import answer_error
from floecat_rest.http.requests import HttpServices, header_of, list_of

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["FastLoadAnswers"]

# Names of other characters may have two readings, or none.
_NAME = "[A-Za-z0-9_-]+"
_LOAD = re.compile(f"/v1/({_NAME})/namespaces/({_NAME}(?:%1F{_NAME})*)/tables/({_NAME})")
_KEPT_PATHS: Final = 4096
_LONGEST_KEPT_PATH: Final = 512
_QUERIES: Final[dict[bytes, SnapshotsMode]] = {b"": "all", b"snapshots=all": "all", b"snapshots=refs": "refs"}


class FastLoadAnswers:
    """ASGI wrapper, behind the one that restores raw paths. Metrics use `path_template`."""

    def __init__(self, app: ASGIApp, services: HttpServices, *, path_template: str) -> None:
        self._app = app
        self._services = services
        self._path_template = path_template

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a load, or passes the request on."""
        answer = await self._answer(scope) if scope["type"] == ScopeType.HTTP else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        scope["path_template"] = self._path_template
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope) -> ASGIApp | None:
        kernel = self._services.kernel
        named = _named(scope["path"]) if scope.get("method") == "GET" else None
        mode = _QUERIES.get(scope["query_string"])
        if named is None or kernel is None or mode is None:
            return None
        prefix, identifier = named
        headers = scope["headers"]
        try:
            call = await self._services.remembered_call(headers, prefix)
        except UnavailableError as error:
            return answer_error(scope, error)
        if call is None:
            return None
        try:
            tags = list_of(headers, b"if-none-match")
            load = kernel.catalog.fast_loads.load(call, identifier, mode, tags)
        except FloecatError:
            return None  # the application meets the same error and renders it
        if load.state == "waits":
            in_thread = partial(kernel.catalog.fast_loads.load, call, identifier, mode, tags, may_wait=True)
            try:
                load = await self._services.threads.run(in_thread)
            except FloecatError as error:
                return answer_error(scope, error)
        table = load.table
        if table is None or table.metadata_location is None or table.etag is None:
            return None
        if table.not_modified:
            return self._services.documents.not_modified(table.etag)
        return self._services.documents.answer_at_once(
            table.pieces,
            table.metadata_location,
            header_of(headers, b"accept-encoding"),
            config=client_config(table, scope["path"]),
            labels=table.labels,
            etag=table.etag,
            mode=mode,
            credentials=table.storage_credentials,
        )


def _named(path: str) -> tuple[str, TableIdentifier] | None:
    # long paths are rare, and caching thousands of them would fill the memory
    return _named_and_kept(path) if len(path) < _LONGEST_KEPT_PATH else _read_path(path)


def _read_path(path: str) -> tuple[str, TableIdentifier] | None:
    found = _LOAD.fullmatch(path)
    return (found[1], TableIdentifier(tuple(found[2].split("%1F")), found[3])) if found else None


_named_and_kept = lru_cache(_KEPT_PATHS)(_read_path)
