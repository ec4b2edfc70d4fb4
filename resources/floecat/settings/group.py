"""Base of the structs that hold settings."""

from __future__ import annotations

import msgspec

from floecat.settings.fields import leaf_fields

__all__ = ["Group"]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the structs. Its representation hides secrets."""

    def __repr__(self) -> str:
        secrets = {field.path for field in leaf_fields(type(self)) if field.kind.secret}
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        parts = (f"{name}={_mask((name,) in secrets, value)}" for name, value in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"


def _mask(secret: bool, value: object) -> str:
    return "'***'" if secret and value not in (None, {}) else repr(value)
