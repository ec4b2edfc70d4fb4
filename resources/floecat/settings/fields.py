"""The fields of the settings as one flat list, each with its key and its kind."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from floecat.settings.kinds import Kind

__all__ = ["ROOT", "LeafField", "leaf_fields"]

ROOT = "floecat"
"""First part of every key."""


class LeafField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that holds a value rather than a group."""

    path: tuple[str, ...]
    """Attribute names from the outermost struct."""

    owners: tuple[type[msgspec.Struct], ...]
    """Struct that declares each part of the path."""

    kind: Kind
    """What it accepts."""

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
            kind = next(extra for extra in get_args(hint)[1:] if isinstance(extra, Kind))
            found.append(LeafField(path=inner, owners=owners, kind=kind, default=default))
        else:
            found.extend(_walk(hint, inner, owners, default))
    return found
