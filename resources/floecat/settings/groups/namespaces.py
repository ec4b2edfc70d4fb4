"""Names of nested namespaces as one text."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import boolean, choice, text

__all__ = ["NamespaceSettings"]


class NamespaceSettings(SettingsGroup, frozen=True, kw_only=True):
    """Names of nested namespaces as one text, as Gravitino's clients write them: `A:B:C`."""

    separator: Annotated[str, text()] = ":"
    """Character between the levels. Clients read it from `/configs` and `/v1/config`. A service does not
    start while a level in a nested catalog holds it."""

    separator_policy: Annotated[str, choice("any", "predefined")] = "any"
    """`predefined`: the separator is one of `:`, `;`, `$`, `|`, `~` and `^`, and no new level of any catalog
    holds it. `any`: it may be any character that paths and SQL can carry, and flat catalogs take names with
    it as they are."""

    nested: Annotated[bool, boolean()] = True
    """Whether new catalogs are nested; `floecat catalog update` changes it for one."""
