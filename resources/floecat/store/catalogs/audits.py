"""Who made a catalog or a namespace, and who changed it last."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Audit"]


class Audit(NamedTuple):
    """When something was made and changed last, and by whom: names of principals, as in the commit log.

    A name is `None` where nobody did it: the service makes the default catalog. All is where it is not known.
    """

    created_at_ms: int | None = None
    updated_at_ms: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
