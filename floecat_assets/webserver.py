"""Dagster's web server behind the catalog's rules for browsers (`python -m floecat_assets.webserver`).

Dagster asks for no login and runs GraphQL mutations from any page, by GET too. Options are those of
`dagster-webserver`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from floecat.auth.browser_requests import BrowserRules
from floecat.settings.loading import load_settings

__all__ = ["OwnPagesOnly", "main"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_GRAPHQL = "/graphql"


class OwnPagesOnly:
    """ASGI wrapper that refuses what pages of other sites send."""

    def __init__(self, app: App, rules: BrowserRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        refusal = None
        if scope["type"] in {"http", "websocket"}:
            method, is_graphql = scope.get("method", "GET"), scope["path"].rstrip("/").endswith(_GRAPHQL)
            if is_graphql and scope.get("query_string"):
                # a query in the URL runs as one in a body does
                method = "POST"
            refusal = self._rules.refusal(
                method, scope["headers"], links=not is_graphql, bare_posts=not is_graphql
            )
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
            await send({"type": "http.response.body", "body": refusal.message.encode()})


def main() -> None:
    """Runs the web server until it is stopped."""
    cli: Any = import_module("dagster_webserver.cli")
    create_app = cli.create_app_from_workspace_process_context
    allowed_hosts = load_settings().gateway.allowed_hosts
    options = ArgumentParser(add_help=False)
    options.add_argument("-h", "--host", default="127.0.0.1")
    host: str = options.parse_known_args()[0].host
    rules = BrowserRules(host, allowed_hosts, setting="floecat.gateway.allowed-hosts")

    def create_guarded_app(*args: Any, **options: Any) -> Any:
        return OwnPagesOnly(create_app(*args, **options), rules)

    # The command builds its application itself and has no option for middleware.
    cli.create_app_from_workspace_process_context = create_guarded_app
    cli.main()


if __name__ == "__main__":
    main()
