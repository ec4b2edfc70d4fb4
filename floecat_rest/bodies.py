"""Request bodies: JSON, read into the structs of `floecat_rest.iceberg.wire`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from floecat.errors import BadRequestError
from floecat_rest.errors import UnsupportedMediaTypeError

__all__ = ["check_media_type", "decode_body"]

T = TypeVar("T")


def decode_body(body: bytes, kind: type[T]) -> T:
    """Read a body. Unknown fields are ignored, as the specification grows, unless the struct forbids them.

    Raises:
        BadRequestError: it is not valid JSON in UTF-8, nested too deeply, or not of this form. The message
            names the JSON path, never what the body holds there.
    """
    if not body:
        raise BadRequestError("Invalid body: JSON is needed")
    try:
        # Parts that stay encoded would otherwise carry invalid text into metadata files.
        str(body, "utf-8")
        return cast("T", _decoder(cast("Any", kind)).decode(body))
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"Invalid body: {error}") from None
    except UnicodeDecodeError:
        raise BadRequestError("Invalid body: not UTF-8") from None
    except RecursionError:
        raise BadRequestError("Invalid body: nested too deeply") from None


def check_media_type(content_type: str | None) -> None:
    """Refuse a body that is declared to be something other than JSON. Some clients declare nothing.

    Raises:
        UnsupportedMediaTypeError: it is.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaTypeError("Unsupported media type: send application/json")


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
