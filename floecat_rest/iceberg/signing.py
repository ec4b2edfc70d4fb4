"""Requests to object storage that the catalog signs for its clients."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar import Controller, post
from litestar.params import RawBody

from floecat.credentials.s3_requests import S3Request
from floecat.credentials.signing import SignedRequest
from floecat.errors import BadRequestError
from floecat_rest.http.documents import SpelledName
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.options import UNLISTED
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.iceberg.wire import SignedRequestResponse, SignRequest

__all__ = ["SignByObjectController", "SignController"]

_CACHE_CONTROL = SpelledName(b"Cache-Control")
"""Clients in Java look the header up by this spelling."""


class SignController(Controller):
    """Signatures for the files of a table."""

    path = "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{table:str}/sign"
    tags = ["Tables"]

    @post(operation_id="signRequest", status_code=200, sync_to_thread=True)
    def sign(self, request: CatalogRequest, body: RawBody) -> Answer:
        """Signs a request about files of the table; it answers the headers that are added."""
        asked, call = _asked(request, body), request.call()
        return _answer(request.kernel.credentials.signing.sign(call, request.entry(call), asked))


class SignByObjectController(Controller):
    """Signatures for clients that name no table: of before Iceberg 1.11, or that are told no path."""

    path = "/v1/aws/s3/sign"
    tags = ["Tables"]

    @post(operation_id="signS3Request", status_code=200, sync_to_thread=True, opt={UNLISTED: True})
    def sign(self, request: CatalogRequest, body: RawBody) -> Answer:
        """Signs a request about files of the table in whose locations they are."""
        kernel, principal = request.kernel, request.principal
        opened = partial(kernel.catalog.calls.open, principal)
        asked = _asked(request, body)
        return _answer(kernel.credentials.signing.sign_by_object(principal.account_id, opened, asked))


def _asked(request: CatalogRequest, body: bytes) -> S3Request:
    sent = request.read(body, SignRequest)
    if sent.provider != "s3":
        raise BadRequestError("Unsupported provider: requests to s3 are signed, and no others")
    return S3Request(sent.method, sent.uri, sent.headers, sent.body)


def _answer(signed: SignedRequest) -> Answer:
    kept = b"private" if signed.may_be_kept else b"no-cache"
    answer = msgspec.json.encode(SignedRequestResponse(signed.uri, signed.headers))
    return Answer(200, answer, [(_CACHE_CONTROL, kept)])
