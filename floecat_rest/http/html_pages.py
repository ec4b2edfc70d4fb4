"""Pages for people. They need no scripts and load nothing."""

from __future__ import annotations

from html import escape
from typing import Final

__all__ = ["HTML_HEADERS", "html_page"]

HTML_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Of every page: a browser runs no script in it and loads nothing for it."""

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}h4{margin:.5rem 0 0}"
    "pre{background:#8882;border-radius:6px;padding:.75rem;overflow-x:auto;font-size:.85rem}"
    "details{border-bottom:1px solid #8884;padding:.3rem 0}summary{cursor:pointer}"
    "details p{white-space:pre-line}code{overflow-wrap:anywhere}"
)


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
