"""Compression of answers that do not bring their own (metadata documents do, `documents`)."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from floecat_rest.http.documents import accepts_gzip
from floecat_rest.http.requests import header_of

if TYPE_CHECKING:
    from litestar.types import Scope

    from floecat_rest.http.json_responses import Answer

__all__ = ["compressed"]

_LEAST_BYTES: Final = 1 << 10
_LEVEL: Final = 3
_OWN: Final = frozenset({b"content-encoding", b"vary"})
_GZIP: Final = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


def compressed(answer: Answer, scope: Scope) -> Answer:
    """The answer as gzip, if the client accepts it and it is long enough to be worth it. May take a while."""
    if len(answer.body) < _LEAST_BYTES or not _OWN.isdisjoint(answer.header_names):
        return answer
    if not accepts_gzip(header_of(scope["headers"], b"accept-encoding")):
        return answer
    body = gzip.compress(answer.body, _LEVEL, mtime=0)
    return answer.replaced(body, *_GZIP)
