"""Pages for people. They need no scripts and load nothing."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from floecat_rest.http.json_responses import Answer

__all__ = ["html_answer", "html_page"]

_HEADERS: Final = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; "
        b"form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
"""Headers of every page: a browser runs no script in it and loads nothing for it."""

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}h4{margin:.5rem 0 0}"
    "pre{background:#8882;border-radius:6px;padding:.75rem;overflow-x:auto;font-size:.85rem}"
    "details{border-bottom:1px solid #8884;padding:.3rem 0}summary{cursor:pointer}"
    "details p{white-space:pre-line}code{overflow-wrap:anywhere}"
)


def html_answer(page: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    """The answer that sends a page."""
    return Answer(200, page, [*_HEADERS, *headers], media_type=b"text/html; charset=utf-8")


def html_page(title: str, body: str) -> str:
    """A whole page.

    Args:
        title: plain text.
        body: HTML.
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
