"""Answers that carry a metadata document: spliced from bytes, never parsed and rendered again.

``{"metadata-location": …, "metadata": <the stored bytes>, "config": {…}, "labels": {…}}``
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from floecat.compression.pieces import Piece, gzip_member
from floecat.entries.calls import Labels, LoadedTable, VendedCredential
from floecat.fileio.locations import scheme_of
from floecat.memory_budget import LruCache

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

__all__ = [
    "ETAG",
    "NO_STORE",
    "DocumentResponse",
    "Documents",
    "SpelledName",
    "accepts_gzip",
    "client_config",
    "credentials_json",
    "with_refresh",
]

_JOIN_BELOW_BYTES = 64 << 10
_COMPRESS_FROM_BYTES = 1 << 10
_COMPRESS_AT_ONCE_BYTES = 32 << 10
_KEY_BYTES = 1 << 10
"""Estimated memory of the key of a compressed answer."""
_LONGEST_ACCEPT_ENCODING = 1000
_WEIGHT = re.compile(r"[0-9](\.[0-9]{0,9})?")

_Headers = list[tuple[bytes, bytes]]


class SpelledName(bytes):
    """The name of a header that goes over the wire as it is spelled; servers send `name.lower()`."""

    __slots__ = ()

    def lower(self) -> SpelledName:
        """The name as it is spelled."""
        return self


ETAG = SpelledName(b"ETag")
"""Java clients of Iceberg (1.11) look the header up in a map of names as they came, by this spelling."""


class DocumentResponse:
    """An ASGI response in several parts, sent without joining them first.

    `content-length` is added to the headers when it is sent.
    """

    __slots__ = ("_headers", "_parts", "_status")

    def __init__(self, status: int, headers: _Headers, parts: Sequence[Piece]) -> None:
        self._status = status
        self._headers = headers
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends the answer."""
        parts = self._parts
        size = sum(map(len, parts))
        if self._status != 304:
            self._headers.append((b"content-length", str(size).encode()))
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        if size < _JOIN_BELOW_BYTES:
            parts = (b"".join(parts),)
        for part in parts[:-1]:
            await send({"type": "http.response.body", "body": bytes(part), "more_body": True})
        await send({"type": "http.response.body", "body": bytes(parts[-1]), "more_body": False})


class Documents:
    """Builds the answers, compressed for clients that accept it."""

    def __init__(self, cache: LruCache[bytes]) -> None:
        self._cache = cache

    def not_modified(self, etag: str | None) -> DocumentResponse:
        """304, without a body."""
        return DocumentResponse(304, [*_etag(etag), _VARY], (b"",))

    def answer(
        self,
        pieces: Sequence[Piece],
        metadata_location: str | None,
        accept_encoding: str | None,
        *,
        config: Mapping[str, str] | None = None,
        labels: Labels | None = None,
        etag: str | None = None,
        kept_as: str | None = None,
        mode: str = "all",
        credentials: Sequence[VendedCredential] = (),
    ) -> DocumentResponse:
        """200 with a document.

        Args:
            pieces: the document, JSON.
            metadata_location: its file; None for a staged table.
            accept_encoding: header of the request.
            config: client settings; None leaves the field out.
            labels: of the table or view; None leaves the field out.
            etag: tag of the representation, to be sent.
            kept_as: identifies the state of the document, as cache key of the compressed answer; None caches
                nothing.
            mode: form of the document: `all` or `refs`.
            credentials: keys to the storage; what caches on the way to the client must not keep.
        """
        parts = _parts(pieces, metadata_location, config, labels, credentials)
        headers = [NO_STORE] if credentials else []
        if not _compresses(pieces, accept_encoding):
            return _found(parts, etag, *headers)
        if kept_as is None:
            compressed = gzip_member(parts)
        else:
            compressed = self._cache.get_or_make(
                _key(parts, kept_as, mode),
                lambda: gzip_member(parts),
                lambda made: _KEY_BYTES + len(parts[-1]) + len(made),
            )
        return _found((compressed,), etag, _GZIP, *headers)

    def answer_at_once(
        self,
        pieces: Sequence[Piece],
        metadata_location: str,
        accept_encoding: str | None,
        *,
        config: Mapping[str, str],
        labels: Labels | None = None,
        etag: str,
        mode: str,
        credentials: Sequence[VendedCredential] = (),
    ) -> DocumentResponse | None:
        """The result of `answer`, cached under the tag; None if a large document is yet to be compressed."""
        if _size(pieces) > _COMPRESS_AT_ONCE_BYTES and _compresses(pieces, accept_encoding):
            parts = _parts(pieces, metadata_location, config, labels, credentials)
            if self._cache.get(_key(parts, etag, mode)) is None:
                return None
        return self.answer(
            pieces,
            metadata_location,
            accept_encoding,
            config=config,
            labels=labels,
            etag=etag,
            kept_as=etag,
            mode=mode,
            credentials=credentials,
        )


_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", b"Accept-Encoding, X-Iceberg-Access-Delegation")
_GZIP = (b"content-encoding", b"gzip")
NO_STORE = (b"cache-control", b"no-store")
_REFRESH = {
    "s3": "client.refresh-credentials-endpoint",
    "gs": "gcs.oauth2.refresh-credentials-endpoint",
    "abfss": "adls.refresh-credentials-endpoint",
}
"""Settings of Iceberg's file IO that name the route of new keys, by scheme."""
_SIGNS = {
    "s3.remote-signing-enabled": "true",
    "s3.signer": "S3V4RestSigner",
    "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
}
_SIGNER = "s3.signer.endpoint"
"""Names the route of signatures. Iceberg 1.12 for Java does not read it: it knows the route itself."""


def _parts(
    pieces: Sequence[Piece],
    location: str | None,
    config: Mapping[str, str] | None,
    labels: Labels | None,
    credentials: Sequence[VendedCredential],
) -> Sequence[Piece]:
    prefix = b'{"metadata-location":%b,"metadata":' % msgspec.json.encode(location)
    beside = b"" if config is None else b',"config":' + msgspec.json.encode(config)
    if labels is not None:
        beside += b',"labels":' + msgspec.json.encode(labels)
    if credentials:
        beside += b"," + credentials_json(credentials)
    if config is not None and _SIGNER in config:
        beside += b',"remote-signing-config":{}'  # its presence tells clients from 1.12
    return (prefix, *pieces, beside + b"}")


def credentials_json(credentials: Sequence[VendedCredential]) -> bytes:
    """The member of an object that holds keys."""
    return b'"storage-credentials":' + msgspec.json.encode(credentials)


def with_refresh(credentials: Sequence[VendedCredential], path: str) -> list[VendedCredential]:
    """Keys with where new ones are got, for readers that are told nothing beside them: those of a plan.

    Args:
        path: path of the table, as the client spells it.
    """
    place = f"{path.lstrip('/')}/credentials"
    return [
        VendedCredential(each.prefix, {**each.config, _REFRESH[scheme_of(each.prefix)]: place})
        for each in credentials
    ]


def client_config(table: LoadedTable, path: str) -> Mapping[str, str]:
    """The configuration of a table for clients, with where they get new keys, or have requests signed.

    The places are relative to the URI of the catalog. PyIceberg has requests signed with fsspec alone.

    Args:
        path: path of the table, as the client spells it.
    """
    place = path.lstrip("/")
    config = {**table.config}
    for each in table.storage_credentials:
        config[_REFRESH[scheme_of(each.prefix)]] = f"{place}/credentials"
    if table.signs:
        config |= {**_SIGNS, _SIGNER: f"{place}/sign"}
    return config


def _key(parts: Sequence[Piece], kept_as: str, mode: str) -> Hashable:
    return kept_as, mode, parts[0], parts[-1]


def _found(body: Sequence[Piece], etag: str | None, *headers: tuple[bytes, bytes]) -> DocumentResponse:
    return DocumentResponse(200, [_JSON, _VARY, *_etag(etag), *headers], body)


def _size(pieces: Sequence[Piece]) -> int:
    return sum(map(len, pieces))


def _compresses(pieces: Sequence[Piece], accept_encoding: str | None) -> bool:
    return _size(pieces) >= _COMPRESS_FROM_BYTES and accepts_gzip(accept_encoding)


def _etag(etag: str | None) -> _Headers:
    return [(ETAG, etag.encode())] if etag else []


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether a value of `Accept-Encoding` accepts gzip (RFC 9110 section 12.5.3).

    A very long value is not read, as each request would pay for it: it gets an answer that is not compressed.
    """
    value = accept_encoding or ""
    return len(value) <= _LONGEST_ACCEPT_ENCODING and _accepts_gzip(value)


@lru_cache(256)
def _accepts_gzip(accept_encoding: str) -> bool:
    weights: dict[str, float] = {}
    for part in accept_encoding.split(","):
        coding, _, parameter = part.partition(";")
        name, _, value = parameter.strip().partition("=")
        weight = "1" if name.strip().lower() != "q" else value.strip()
        weights[coding.strip().lower()] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0
