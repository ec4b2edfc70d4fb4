"""Requests to S3 that clients want signed: what each one does, to which objects.

Only what engines need is known; everything else is refused. What is signed is written anew from what was
understood, so that the service cannot understand another object than was checked.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from floecat.credentials.authorities import S3Method
from floecat.credentials.aws_keys import DEFAULT_REGION
from floecat.errors import BadRequestError, ForbiddenError
from floecat.fileio.locations import Location, normalize_location

__all__ = ["MOST_BODY_BYTES", "S3Request", "UnderstoodRequest", "understood"]

MOST_BODY_BYTES: Final = 2 << 20
"""Of a body that is looked at: 1,000 keys of 1,024 bytes, escaped."""
_MOST_TEXTS: Final = 200
_LONGEST_TEXT: Final = 8 << 10
_MOST_KEYS: Final = 1000

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_PAYLOAD: Final = re.compile("[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")

_LIST: Final = frozenset(
    ("list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after", "encoding-type")
)
_READS: Final = frozenset({"GET", "HEAD"})
_NO_EFFECT: Final = frozenset({"x-id", "fetch-owner"})
_WRITES: Final[Mapping[str, Sequence[frozenset[str]]]] = {
    "PUT": (frozenset(), frozenset({"partNumber", "uploadId"})),
    "POST": (frozenset({"uploads"}), frozenset({"uploadId"})),
    "DELETE": (frozenset(), frozenset({"uploadId"})),
}
"""Parameters of requests that change an object: what has others is another operation."""

_COPY_SOURCE: Final = "x-amz-copy-source"
_SENT_ANEW: Final = frozenset({"x-amz-date", "x-amz-security-token"})
_HEADERS: Final = re.compile(
    "x-amz-(?:content-sha256|decoded-content-length|trailer|te|user-agent|request-payer|expected-bucket-owner"
    "|checksum-[a-z0-9-]+|sdk-checksum-algorithm|storage-class|mp-object-size|meta-[a-z0-9._-]+"
    "|server-side-encryption(?:-[a-z0-9-]+)?|metadata-directive"
    "|copy-source(?:-range|-if-[a-z-]+)?)"
)
"""Headers of S3 that may be signed. The others give rights, locks, tags or redirects."""

_ENTITY: Final = "&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});"
_DELETE: Final = re.compile(
    r"(?:<\?xml version=[\"']1\.0[\"'](?: encoding=[\"'](?:UTF|utf)-8[\"'])?\?>)?\s*"
    r"<Delete(?: xmlns=\"http://s3\.amazonaws\.com/doc/2006-03-01/\")?>"
    rf"(?:<Object><Key>(?:[^<&]|{_ENTITY})*+</Key></Object>|<Quiet>(?:true|false)</Quiet>)*+"
    r"</Delete>\s*"
)
"""The body of DeleteObjects as programs write it: what any reader of XML understands in one way."""

_AWS_HOST: Final = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3(?:[.-](?P<region>[a-z]{2}-[a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?"
)


class S3Request(msgspec.Struct, frozen=True):
    """A request that a client is about to send."""

    method: str
    uri: str
    headers: Mapping[str, Sequence[str]] = {}
    body: str | None = None
    """Where the objects are named in it alone."""


class UnderstoodRequest(msgspec.Struct, frozen=True):
    """What a request does."""

    method: str
    uri: str
    """Written anew."""
    objects: Sequence[Location]
    """Objects that it reads or writes; of a list, its prefix."""
    writes: bool
    lists: bool
    lists_folder: bool
    """Whether it lists all of a folder, so that the object is one."""
    headers: Mapping[str, str]
    """Headers that have to be signed, in lower case."""
    payload: str
    """The hash of the body, or what S3 takes in its place."""
    by_body: bool = False
    """Whether the body names the objects."""
    sources: Sequence[Location] = ()
    """Objects that are copied."""


def understood(request: S3Request, method: S3Method) -> UnderstoodRequest:
    """What a request does.

    Args:
        method: says where the service is.

    Raises:
        BadRequestError: it is malformed, or too large.
        ForbiddenError: it goes to another service, or does what is never signed.
    """
    _check_size(request)
    host, bucket, key = _address(request.uri, method)
    parameters = _parameters(request.uri)
    headers = _headers(request)
    names = frozenset(parameters) - _NO_EFFECT
    verb = request.method
    payload = headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
    if not _PAYLOAD.fullmatch(payload):
        raise ForbiddenError(
            f"Requests with {payload[:64]!r} in place of the hash of the body are not signed"
        )
    sources: list[Location] = []
    folder = False
    if verb == "GET" and not key and parameters.get("list-type") == "2" and names <= _LIST:
        objects = [_object(bucket, parameters.get("prefix", ""))]
        folder = parameters.get("prefix", "").endswith("/")
    elif verb == "POST" and not key and names == {"delete"}:
        objects = [_object(bucket, each) for each in _deleted(request.body)]
        payload = _hash_of_body(request.body or "", headers)
    elif key and (not names if verb in _READS else names in _WRITES.get(verb, ())):
        objects = [_object(bucket, key)]
        source = headers.get(_COPY_SOURCE)
        if source is not None:
            sources.append(_source(source))
    else:
        raise ForbiddenError(
            f"{verb[:10]} with these parameters is never signed: {', '.join(sorted(names))[:200]}"
        )
    if any(name.startswith(_COPY_SOURCE) for name in headers) and (verb != "PUT" or not sources):
        raise ForbiddenError(f"{_COPY_SOURCE} goes with PUT of an object alone")
    query = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(parameters.items()))
    uri = f"{host}/{quote(key, safe='/-_.~')}" + (f"?{query}" if query else "")
    return UnderstoodRequest(
        verb,
        uri,
        objects,
        writes=verb not in _READS,
        lists="list-type" in names,
        lists_folder=folder,
        headers=headers,
        payload=payload,
        by_body="delete" in names,
        sources=sources,
    )


def _check_size(request: S3Request) -> None:
    texts = [request.uri, *request.headers, *(each for many in request.headers.values() for each in many)]
    if len(texts) > _MOST_TEXTS or max(map(len, texts)) > _LONGEST_TEXT:
        raise BadRequestError(
            f"Invalid request to sign: more than {_MOST_TEXTS} names and values of headers, or one above"
            f" {_LONGEST_TEXT} characters"
        )
    if len(request.body or "") > MOST_BODY_BYTES:
        raise BadRequestError(f"Invalid request to sign: its body has more than {MOST_BODY_BYTES} characters")
    if not all(each.isprintable() and each.isascii() for each in texts):
        raise BadRequestError("Invalid request to sign: URI and headers are printable ASCII")


def _address(uri: str, method: S3Method) -> tuple[str, str, str]:
    """The URI up to the path that is left, the bucket, and the key of an object, if there is one."""
    try:
        parts = urlsplit(uri)
        port = parts.port
        endpoint = urlsplit(method.endpoint or "")
        expected_port = endpoint.port
    except ValueError:
        raise BadRequestError("Invalid uri: it is not a URL") from None
    host = parts.hostname or ""
    if "@" in parts.netloc or any(each in uri for each in "#\\ ") or parts.scheme not in ("http", "https"):
        raise BadRequestError("Invalid uri: a URL of http or https, without user and fragment")
    key = _decoded(parts.path.removeprefix("/"))
    if method.endpoint is None:
        found = _AWS_HOST.fullmatch(host)
        is_ours = parts.scheme == "https" and port in (None, 443) and found is not None
        if found is None or not is_ours or found["region"] not in (None, method.region or DEFAULT_REGION):
            raise _elsewhere()
        bucket = found["bucket"]
    else:
        ports = {"http": 80, "https": 443}
        same = (parts.scheme, port or ports[parts.scheme]) == (
            endpoint.scheme,
            expected_port or ports.get(endpoint.scheme),
        )
        bucket, _, rest = host.rpartition(f".{endpoint.hostname}")
        # a service that looks at paths alone reads the first part of a key as a bucket
        has_bucket = bucket != "" and rest == "" and not method.path_style_access
        if not same or not (host == endpoint.hostname or has_bucket) or endpoint.path.strip("/"):
            raise _elsewhere()
    base = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")
    if bucket:
        return base, bucket, key
    bucket, slash, key = key.partition("/")
    return f"{base}/{quote(bucket, safe='-_.~')}" if slash or bucket else base, bucket, key


def _elsewhere() -> ForbiddenError:
    return ForbiddenError("The URI is not one of the storage authority's service: it is not signed")


def _parameters(uri: str) -> dict[str, str]:
    found: dict[str, str] = {}
    query = uri.partition("?")[2]
    for each in query.split("&") if query else ():
        name, _, value = each.partition("=")
        name, value = _decoded(name.replace("+", " ")), _decoded(value.replace("+", " "))
        if name in found:
            raise BadRequestError(f"Invalid uri: the parameter {name[:64]} is there twice")
        found[name] = value
    return found


def _headers(request: S3Request) -> dict[str, str]:
    """The headers of S3, which have to be signed."""
    found: dict[str, str] = {}
    for name, values in request.headers.items():
        lower = name.lower().strip()
        if not lower.startswith("x-amz-") or lower in _SENT_ANEW:
            continue
        if not _HEADERS.fullmatch(lower):
            raise ForbiddenError(f"Requests with the header {lower[:64]} are not signed")
        if lower in found or len(values) != 1:
            raise BadRequestError(f"Invalid headers: {lower[:64]} is there more than once")
        found[lower] = values[0]
    return found


def _decoded(text: str) -> str:
    """A text of a URI, decoded once."""
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        raise BadRequestError("Invalid uri: a percent sign is not followed by two digits")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise BadRequestError("Invalid uri: it is not UTF-8") from None


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


def _object(bucket: str, key: str) -> Location:
    """The location of an object or folder: what could be read in two ways is refused."""
    return normalize_location(f"s3://{bucket}/{key}")


def _source(header: str) -> Location:
    written = header.removeprefix("/")
    if quote(_decoded(written), safe="/-_.~") != written:
        raise BadRequestError(f"Invalid {_COPY_SOURCE}: bucket and key, percent-encoded, of no version")
    bucket, _, key = _decoded(written).partition("/")
    return _object(bucket, key)


def _deleted(body: str | None) -> list[str]:
    """The keys in the body of DeleteObjects."""
    if not body or not _DELETE.fullmatch(body):
        raise BadRequestError(
            "Invalid body: deletes of many objects are signed by their XML document, with keys and no"
            " versions; or delete one object at a time"
        )
    try:
        root = ET.fromstring(body)  # noqa: S314 - it has no declarations, see above
    except ET.ParseError:
        raise BadRequestError("Invalid body: it is not XML") from None
    keys = [each.text or "" for each in root.iter() if each.tag.rpartition("}")[2] == "Key"]
    if not 0 < len(keys) <= _MOST_KEYS:
        raise BadRequestError(f"Invalid body: it names no key, or more than {_MOST_KEYS}")
    return keys


def _hash_of_body(body: str, headers: Mapping[str, str]) -> str:
    digest = sha256(body.encode()).hexdigest()
    if headers.get("x-amz-content-sha256", digest) != digest:
        raise BadRequestError("Invalid headers: x-amz-content-sha256 is not the hash of the body")
    return digest
