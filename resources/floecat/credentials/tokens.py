"""Tokens of OAuth 2, and other answers, of the services that make keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from floecat.credentials.posts import Poster, PostError

__all__ = ["AccessToken", "answer_of", "ask_token", "read_text"]

_REASON: Final = re.compile(r'"error(?:_description)?"\s*:\s*"([^"]+)"|<Code>([^<]+)</Code>')
_LONGEST_REASON: Final = 300


class AccessToken(msgspec.Struct):
    """A token that was given."""

    access_token: str
    expires_in: int | None = None
    """Seconds. Google does not tell it where the token that was exchanged does not."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"AccessToken(expires_in={self.expires_in})"


def ask_token(
    poster: Poster, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str] | None = None
) -> AccessToken:
    """A token: by POST of a form, or by GET without one.

    Raises:
        PostError: none is given.
    """
    body = None if form is None else urlencode(form).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    try:
        answer = answer_of(poster, url, body, {**kind, **(headers or {})})
        return msgspec.json.decode(
            answer, type=AccessToken, strict=False
        )  # Azure's metadata has numbers as texts
    except (msgspec.MsgspecError, RecursionError):
        raise PostError(f"the answer of {url.partition('?')[0]} holds no token") from None


def answer_of(poster: Poster, url: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    """What a service answers.

    Raises:
        PostError: it does not, or refuses.
    """
    host = url.partition("?")[0]
    try:
        answer = poster.send(url, body, headers)
    except PostError as error:
        raise PostError(f"{host} does not answer: {error}", "its service does not answer") from None
    if answer.status != 200:
        found = _REASON.findall(answer.body.decode(errors="replace"))
        reasons = [f"status {answer.status}", *(a or b for a, b in found)]
        said = f"{host} refuses ({', '.join(reasons)[:_LONGEST_REASON]})"
        raise PostError(said, "its service refuses")
    return answer.body


def read_text(file: str) -> str:
    """What a file of the service holds.

    Raises:
        PostError: it cannot be read.
    """
    try:
        return Path(file).read_text().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        said = f"the service's file {file} cannot be read: {why}"
        raise PostError(said, "a file of the service cannot be read") from None
