"""The page of `/schema`: operations and schemas of the documents, without scripts or files of other sites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from floecat_rest.http.html_pages import html_page

__all__ = ["render_viewer"]

_METHODS: Final = ("get", "head", "post", "put", "delete", "patch")
_COMPONENT: Final = re.compile("&quot;#/components/(\\w+)/([\\w.-]+)&quot;")


def render_viewer(documents: Mapping[str, dict[str, Any]]) -> str:
    """HTML that shows OpenAPI documents.

    Args:
        documents: by name; `<name>.json` and `<name>.yaml` are linked.
    """
    parts = ["<h1>API of this server</h1>"]
    for name, document in documents.items():
        info = document["info"]
        title, about = escape(info["title"]), escape(info.get("description", ""))
        files = [f'<a href="schema/{name}.{kind}">{name}.{kind}</a>' for kind in ("json", "yaml")]
        parts.append(f'<h2 id="{name}">{title}</h2><p>{about}</p><p>{" · ".join(files)}</p>')
        parts += _operations(name, document)
        parts.append("<h3>Components</h3>")
        for kind, components in document["components"].items():
            for key, component in components.items():
                anchor = f"{name}-{kind}-{key}"
                shown = _json(name, component)
                parts.append(
                    f'<details id="{escape(anchor)}"><summary>{escape(key)}</summary>{shown}</details>'
                )
    return html_page("API of this Floecat server", "".join(parts))


def _operations(name: str, document: dict[str, Any]) -> Iterator[str]:
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method in _METHODS:
            if method in item:
                yield _operation(name, path, method, item[method], shared)


def _operation(name: str, path: str, method: str, operation: dict[str, Any], shared: list[Any]) -> str:
    sections = [f"<p>{escape(operation.get('description', ''))}</p>" if "description" in operation else ""]
    parameters = [*shared, *operation.get("parameters", [])]
    for title, part in (
        ("Parameters", parameters),
        ("Body", operation.get("requestBody")),
        ("Answers", operation["responses"]),
    ):
        if part:
            sections.append(f"<h4>{title}</h4>{_json(name, part)}")
    anchor = escape(f"{name}-{operation['operationId']}")
    title = f"<b>{method.upper()}</b> <code>{escape(path)}</code> {escape(operation.get('summary', ''))}"
    return f'<details id="{anchor}"><summary>{title}</summary>{"".join(sections)}</details>'


def _json(name: str, part: Any) -> str:
    """A part of a document, with links to the components that it names."""
    text = escape(json.dumps(part, indent=2, ensure_ascii=False))
    linked = _COMPONENT.sub(rf'<a href="#{name}-\1-\2">\g<0></a>', text)
    return f"<pre>{linked}</pre>"
