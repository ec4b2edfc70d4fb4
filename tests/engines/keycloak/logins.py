"""The settings of docs/login.md for a client of a provider, filled in."""

from __future__ import annotations

from typing import NamedTuple

from tests.engines.pages import blocks

__all__ = ["Login"]


class Login(NamedTuple):
    """A client that gets tokens with the grant `client_credentials`."""

    client_id: str
    client_secret: str
    token_url: str

    @property
    def placeholders(self) -> dict[str, str]:
        """What the pages write in place of it."""
        return {
            "<client id>": self.client_id,
            "<client secret>": self.client_secret,
            "<token endpoint>": self.token_url,
        }

    def of_page(self, language: str, place: int = 0) -> str:
        """A block of the page that is in a language, with this login."""
        block = blocks("../login", language)[place]
        for placeholder, value in self.placeholders.items():
            block = block.replace(placeholder, value)
        assert "<" not in block
        return block
