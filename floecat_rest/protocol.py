"""HTTP, as the server speaks it before the application sees a request."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from floecat_rest.errors import ErrorModel, encode_error

__all__ = ["CatalogHttpProtocol"]


class CatalogHttpProtocol(HttpToolsProtocol):
    """Answers what is no HTTP at all in the shape of the specification too."""

    def send_400_response(self, msg: str) -> None:
        """Answer 400 and close the connection: where the next request would begin is unknown."""
        body = encode_error(ErrorModel(msg, "BadRequestException", 400))
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()
