"""`/v1/oauth/tokens`, which the REST specification advises against: tokens come from an identity provider."""

from __future__ import annotations

import msgspec
from litestar import Controller, post

from floecat_rest.http.json_responses import Answer
from floecat_rest.http.options import PUBLIC, UNLISTED
from floecat_rest.iceberg.wire import OAuthError

__all__ = ["OAuthController"]


class OAuthController(Controller):
    """Refuses to issue tokens, in the words of OAuth."""

    path = "/v1/oauth/tokens"
    tags = ["OAuth2"]

    @post(operation_id="getToken", status_code=400, sync_to_thread=False, opt={PUBLIC: True, UNLISTED: True})
    def get_token(self) -> Answer:
        """400 `unsupported_grant_type`."""
        refusal = OAuthError(
            "unsupported_grant_type",
            "This catalog issues no tokens. Set oauth2-server-uri to the one of your identity provider.",
        )
        return Answer(400, msgspec.json.encode(refusal))
