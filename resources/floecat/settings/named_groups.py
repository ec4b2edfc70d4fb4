"""Groups of settings by a name that the user chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from floecat.errors import SettingsError
from floecat.settings.fields import ROOT, leaf_fields
from floecat.settings.kinds import Kind

__all__ = ["named_groups"]

T = TypeVar("T", bound=msgspec.Struct)


def named_groups(group: type[T]) -> Kind:
    """A table of groups: tables of a file, a JSON object in the environment."""

    def read(value: object) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise TypeError("not a table")
        return {name: _read_group(group, name, fields) for name, fields in value.items()}

    keys = ", ".join(_keys(group))
    return Kind(
        expected=f"tables by name, each with any of {keys} (in the environment a JSON object)",
        from_value=read,
        from_text=lambda raw: read(json.loads(raw)),
        secret=True,
        takes_table=True,
    )


def _read_group(group: type[T], name: str, value: object) -> T:
    if not isinstance(value, dict):
        raise SettingsError(f"{name}: expected a table")
    known = _keys(group)
    built: dict[str, Any] = {}
    for key, given in _flat(value, ()):
        field = known.get(key)
        if field is None:
            raise SettingsError(f"{name}.{key}: no such setting (known: {', '.join(known)})")
        inner: dict[str, Any] = built
        for part in field.path[:-1]:
            inner = inner.setdefault(part, {})
        try:
            inner[field.path[-1]] = field.kind.from_value(given)
        except (ValueError, TypeError):
            raise SettingsError(f"{name}.{key}: expected {field.kind.expected}") from None
    return msgspec.convert(built, group)


def _keys(group: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.key.removeprefix(f"{ROOT}."): field for field in leaf_fields(group)}


def _flat(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield ".".join((*path, name)), value
