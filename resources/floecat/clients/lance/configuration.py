"""Properties of a connection."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Configuration"]

_INTEGERS: Final = {
    "connect_timeout": (10_000, 1),
    "read_timeout": (30_000, 1),
    "max_retries": (3, 0),
    "max_answer_bytes": (256 << 20, 1),
    "max_pages": (10_000, 1),
}
"""Default and least value."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_TEXTS: Final = ("endpoint", "warehouse", "auth_token", "credential", "oauth2_server_uri", "scope", "root")


@dataclass(frozen=True)
class Configuration:
    """The properties of `lance_namespace.connect`, checked."""

    endpoint: str
    """URL of the catalog, without a slash at the end."""

    warehouse: str | None
    """The only warehouse of this connection; None allows any."""

    auth_token: str | None = field(repr=False)
    """Bearer token."""

    credential: tuple[str, str] | None = field(repr=False)
    """Client id and secret of the OAuth2 client credentials flow."""

    oauth2_server_uri: str
    """Token endpoint of the flow."""

    scope: str
    """Scope that the flow asks for."""

    connect_timeout_ms: int
    read_timeout_ms: int
    max_retries: int
    """Most times that a failed request is sent again."""

    max_answer_bytes: int
    """Largest answer that is read. It has to come within ten times the read timeout."""

    max_pages: int
    """Most pages of the catalog that are read for one list."""

    root: str
    """Location below which tables are declared; empty lets the catalog choose."""

    @classmethod
    def parse(cls, properties: Mapping[str, object]) -> Configuration:
        """Checks properties; numbers may be text.

        Raises:
            ValueError: a property is unknown, missing or malformed.
        """
        unknown = sorted(properties.keys() - _INTEGERS.keys() - set(_TEXTS))
        if unknown:
            raise ValueError(f"Unknown property {unknown[0]!r}")
        texts = {name: _text(properties, name) for name in _TEXTS}
        integers = {name: _integer(properties, name) for name in _INTEGERS}
        endpoint = _url("endpoint", texts["endpoint"])
        return cls(
            endpoint=endpoint,
            warehouse=texts["warehouse"] or None,
            auth_token=_token(texts["auth_token"]),
            credential=_credential(texts["credential"]),
            oauth2_server_uri=_url(
                "oauth2_server_uri", texts["oauth2_server_uri"] or f"{endpoint}/v1/oauth/tokens"
            ),
            scope=texts["scope"] or "catalog",
            connect_timeout_ms=integers["connect_timeout"],
            read_timeout_ms=integers["read_timeout"],
            max_retries=integers["max_retries"],
            max_answer_bytes=integers["max_answer_bytes"],
            max_pages=integers["max_pages"],
            root=_root(texts["root"]),
        )


def _text(properties: Mapping[str, object], name: str) -> str | None:
    value = properties.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"Property {name!r} must be text")
    return value


def _integer(properties: Mapping[str, object], name: str) -> int:
    default, least = _INTEGERS[name]
    value = properties.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"Property {name!r} must be a whole number, at least {least}")
    return value


def _url(name: str, value: str | None) -> str:
    if not value:
        raise ValueError(f"Property {name!r} is required")
    parts = urlsplit(value)
    if not value.startswith(("http://", "https://")) or not parts.hostname:
        raise ValueError(f"Property {name!r} must start with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise ValueError(f"Property {name!r} must not hold a password: use 'credential' or 'auth_token'")
    return value.rstrip("/")


def _credential(value: str | None) -> tuple[str, str] | None:
    if not value:
        return None
    client_id, colon, secret = value.partition(":")
    if not (client_id and colon and secret):
        raise ValueError("Property 'credential' must have the form client_id:client_secret")
    return client_id, secret


def _token(value: str | None) -> str | None:
    if value and not (value.isascii() and value.isprintable()):
        raise ValueError("Property 'auth_token' must be printable ASCII text")
    return value or None


def _root(value: str | None) -> str:
    if value == "":
        return ""
    root = value or os.getcwd()
    return root.rstrip("/") if _SCHEME.match(root) else os.path.abspath(root)
