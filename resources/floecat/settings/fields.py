"""Groups of settings, and their fields as one flat list, each with its key and its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from floecat.errors import SettingsError
from floecat.settings.kinds import SettingKind

__all__ = ["ROOT", "LeafField", "SettingsGroup", "leaf_fields", "named_groups"]

ROOT = "floecat"
"""First part of every key."""

T = TypeVar("T", bound=msgspec.Struct)


class SettingsGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the structs. Its representation hides secrets."""

    def __repr__(self) -> str:
        secrets = {field.path for field in leaf_fields(type(self)) if field.kind.secret}
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        parts = (f"{name}={_mask((name,) in secrets, value)}" for name, value in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"


class LeafField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that holds a value rather than a group."""

    path: tuple[str, ...]
    """Attribute names from the outermost struct."""

    owners: tuple[type[msgspec.Struct], ...]
    """Struct that declares each part of the path."""

    kind: SettingKind
    """Kind of its values."""

    default: Any
    """Value if no source names it."""

    @property
    def key(self) -> str:
        """Name in a file and in messages, as `floecat.gateway.rest-port`."""
        return ".".join((ROOT, *self.path)).replace("_", "-")

    @property
    def keys(self) -> tuple[str, ...]:
        """The key and its aliases."""
        group = self.key.rpartition(".")[0]
        return (self.key, *(f"{group}.{alias}" for alias in self.kind.aliases))

    @property
    def variable(self) -> str:
        """Name in the environment, as `FLOECAT_GATEWAY_REST_PORT`."""
        return self.key.replace(".", "_").replace("-", "_").upper()


@cache
def leaf_fields(struct: type[msgspec.Struct]) -> tuple[LeafField, ...]:
    """All fields below a struct, in the order of their declaration."""
    return tuple(_walk(struct, (), (), None))


def named_groups(group: type[T]) -> SettingKind:
    """A table of groups: tables of a file, a JSON object in the environment."""

    def read(value: object) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise TypeError("not a table")
        return {name: _read_group(group, name, fields) for name, fields in value.items()}

    keys = ", ".join(_keys(group))
    return SettingKind(
        expected=f"tables by name, each with any of {keys} (in the environment a JSON object)",
        from_value=read,
        from_text=lambda raw: read(json.loads(raw)),
        secret=True,
        takes_table=True,
    )


def _walk(
    struct: type[msgspec.Struct], path: tuple[str, ...], above: tuple[type[msgspec.Struct], ...], value: Any
) -> list[LeafField]:
    found: list[LeafField] = []
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        default = field.default if value is None else getattr(value, field.name)
        inner, owners = (*path, field.name), (*above, struct)
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            kind = next(extra for extra in get_args(hint)[1:] if isinstance(extra, SettingKind))
            found.append(LeafField(path=inner, owners=owners, kind=kind, default=default))
        else:
            found.extend(_walk(hint, inner, owners, default))
    return found


def _read_group(group: type[T], name: str, value: object) -> T:
    if not isinstance(value, dict):
        raise SettingsError(f"{name}: expected a table")
    known = _keys(group)
    built: dict[str, Any] = {}
    for key, given in _flat(value, ()):
        field = known.get(key)
        if given == {} and any(name.startswith(f"{key}.") for name in known):
            continue
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
        if isinstance(value, dict) and value:
            yield from _flat(value, (*path, name))
        else:
            yield ".".join((*path, name)), value


def _mask(secret: bool, value: object) -> str:
    return "'***'" if secret and value not in (None, {}, ()) else repr(value)
