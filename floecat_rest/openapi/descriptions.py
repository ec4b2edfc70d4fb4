"""The documents of a process, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import yaml
from litestar.routes import BaseRoute

from floecat.settings import GatewaySettings
from floecat_rest.openapi.iceberg_document import iceberg_document
from floecat_rest.openapi.management_document import management_document
from floecat_rest.openapi.viewer import render_viewer

__all__ = ["Descriptions"]


class Descriptions:
    """OpenAPI documents of an application, as objects, JSON and YAML, and the page that shows them."""

    def __init__(self, routes: Sequence[BaseRoute], gateway: GatewaySettings) -> None:
        self._routes = routes
        self._gateway = gateway

    @cached_property
    def documents(self) -> dict[str, dict[str, Any]]:
        """Documents by name: `iceberg` and `management`."""
        security = _security(self._gateway)
        return {
            "iceberg": iceberg_document(self._routes, self._gateway, security),
            "management": management_document(self._routes, security),
        }

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Encoded documents by file name."""
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        encoded = {}
        for name, document in self.documents.items():
            encoded[f"{name}.json"] = msgspec.json.encode(document)
            text = yaml.dump(_plain(document), Dumper=dumper, sort_keys=False, allow_unicode=True)
            encoded[f"{name}.yaml"] = text.encode()
        return encoded

    @cached_property
    def page(self) -> bytes:
        """HTML that lists all operations and schemas."""
        return render_viewer(self.documents).encode()


def _security(gateway: GatewaySettings) -> dict[str, Any]:
    """Security schemes by name."""
    if gateway.auth_mode == "dev":
        return {}
    if gateway.auth_header.lower() == "authorization":
        return {"BearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    scheme = {"type": "apiKey", "in": "header", "name": gateway.auth_header, "description": "`Bearer <JWT>`"}
    return {"HeaderAuth": scheme}


def _plain(document: dict[str, Any]) -> Any:
    """A copy in which no object stands twice: YAML would write references."""
    return msgspec.json.decode(msgspec.json.encode(document))
