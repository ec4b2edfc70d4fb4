"""Requests to object storage that the catalog signs for its clients."""

from __future__ import annotations

import msgspec
from litestar import Controller, post
from litestar.params import RawBody

from floecat.credentials.s3_requests import S3Request
from floecat.errors import BadRequestError
from floecat_rest.http.documents import SpelledName
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.iceberg.wire import SignedRequestResponse, SignRequest

__all__ = ["SignController"]

_CACHE_CONTROL = SpelledName(b"Cache-Control")
"""Clients in Java look the header up by this spelling."""


class SignController(Controller):
    """Signatures for the files of a table."""

    path = "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{table:str}/sign"
    tags = ["Tables"]

    @post(operation_id="signRequest", status_code=200, sync_to_thread=True)
    def sign(self, request: CatalogRequest, body: RawBody) -> Answer:
        """Signs a request about files of the table; it answers the headers that are added."""
        sent = request.read(body, SignRequest)
        if sent.provider != "s3":
            raise BadRequestError("Unsupported provider: requests to s3 are signed, and no others")
        call = request.call()
        asked = S3Request(sent.method, sent.uri, sent.headers, sent.body)
        signed = request.kernel.credentials.signing.sign(call, request.entry(call), asked)
        kept = b"private" if signed.may_be_kept else b"no-cache"
        answer = msgspec.json.encode(SignedRequestResponse(signed.uri, signed.headers))
        return Answer(200, answer, [(_CACHE_CONTROL, kept)])
