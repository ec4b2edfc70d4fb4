"""Options of handlers: keys of `opt`, on a handler or its controller."""

from __future__ import annotations

from typing import Final

__all__ = ["AT_ONCE", "PUBLIC", "STRICT", "UNLISTED", "WAITS_FOR_CATALOGS", "WITHOUT_STORAGE"]

PUBLIC: Final = "public"
"""Mark of a route that needs no login."""

STRICT: Final = "strict"
"""Mark of a route that refuses query parameters unknown to it: a misspelt filter would list everything."""

UNLISTED: Final = "unlisted"
"""Mark of a route that answers, and that clients should not count on."""

WITHOUT_STORAGE: Final = "without_storage"
"""Mark of a route that asks the store alone, or goes on in a thread for storage."""

WAITS_FOR_CATALOGS: Final = "waits_for_catalogs"
"""Mark of a route that asks another catalog, which may take long to answer."""

AT_ONCE: Final = "at_once"
"""Mark of a route that needs no storage, and reads a few rows by key. A local store answers on the event
loop: switching threads costs several times as much. What would read more there (`Store.check_may_wait`) takes
a thread after all."""
