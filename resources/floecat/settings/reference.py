"""Settings described: the rows of the reference page, and a dump without secrets."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

import msgspec

from floecat.settings.fields import LeafField, leaf_fields
from floecat.settings.groups.root import Settings
from floecat.settings.kinds import Duration, format_size

__all__ = ["SettingDescription", "describe", "dump"]

_DEPTH_OF_PLAIN_FIELDS = 3


class SettingDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the reference."""

    group: str
    """Subject of the outermost group, empty for a field of none."""

    key: str
    """Name in a file, as `floecat.gateway.rest-port`."""

    variable: str
    """Name in the environment."""

    expected: str
    """Accepted values."""

    default: str
    """Default as it would be written in a file; empty if the setting has none."""

    description: str
    """Docstring of the field."""

    secret: bool
    """Never shown."""


def describe() -> list[SettingDescription]:
    """The rows of the reference, one per setting, in the order of declaration."""
    return [
        SettingDescription(
            group=_field_docstrings(Settings)[field.path[0]] if len(field.path) > 1 else "",
            key=field.key,
            variable=field.variable,
            expected=field.kind.expected,
            default=_written(field.default, size="bytes" in field.kind.expected),
            description=_description(field),
            secret=field.kind.secret,
        )
        for field in leaf_fields(Settings)
    ]


def dump(settings: Settings) -> dict[str, str]:
    """The value of every setting by key, as one would write it; secrets that are set show as `***`."""
    values: dict[str, str] = {}
    for field in leaf_fields(Settings):
        value: object = settings
        for name in field.path:
            value = getattr(value, name)
        hidden = field.kind.secret and value not in (None, {}, ())
        values[field.key] = "***" if hidden else _written(value, size="bytes" in field.kind.expected)
    return values


def _description(field: LeafField) -> str:
    own = _field_docstrings(field.owners[-1])[field.path[-1]]
    if len(field.path) <= _DEPTH_OF_PLAIN_FIELDS:
        return own
    # The same struct serves several groups: say which one this row is about.
    return f"{_field_docstrings(field.owners[-2])[field.path[-2]]} {own}"


@cache
def _field_docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    declaration = next(
        node for node in ast.walk(ast.parse(inspect.getsource(struct))) if isinstance(node, ast.ClassDef)
    )
    found: dict[str, str] = {}
    for field, doc in pairwise(declaration.body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
            case _:
                continue
    return found


def _written(value: object, *, size: bool) -> str:
    match value:
        case None | ():
            return ""
        case Mapping():
            return json.dumps(dict(value)) if value else ""
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(str(item) for item in value)
        case int() if size:
            return format_size(value)
        case Duration() | _:
            return str(value)
