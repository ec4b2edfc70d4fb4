"""Entity tags of tables.

A tag names one representation: the state of the entry, the snapshots mode, and the labels. Create, commit,
register and load of one state so agree on it (RFC 9110 section 8.8.3). A rename makes another state, with
another tag.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from floecat.entries.calls import Labels
from floecat.store.tables import EntryState

__all__ = ["SnapshotsMode", "etag_of", "matches"]

SnapshotsMode = Literal["all", "refs"]
"""Which snapshots a load returns: all, or those that a branch or tag points at."""


def etag_of(state: EntryState, snapshots: SnapshotsMode = "all", labels: Labels | None = None) -> str:
    """The entity tag, quoted and weak: the bytes may be compressed or not."""
    named = f"{state.id.hex}|{state.version}|{snapshots}|{state.metadata_location}"
    digest = blake2b(named.encode(), digest_size=16)
    if labels is not None:
        digest.update(b"|" + msgspec.json.encode(labels, order="deterministic"))
    return f'W/"{digest.hexdigest()}"'


def matches(if_none_match: str, etag: str) -> bool:
    """Whether the value of an `If-None-Match` header names the tag.

    Takes one tag, a list, `*`, weak and strong forms, and tags that a client sent without quotes.
    """
    wanted = _opaque(etag)
    candidates = (part.strip() for part in if_none_match.split(","))
    return any(candidate == "*" or _opaque(candidate) == wanted for candidate in candidates if candidate)


def _opaque(tag: str) -> str:
    return tag.removeprefix("W/").strip('"')
