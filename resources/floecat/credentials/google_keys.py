"""Keys of Google Cloud Storage: OAuth tokens that a credential access boundary cuts to folders.

A token of a service account is exchanged for one that opens less (RFC 8693). A service account that signs
for itself gets its token by RFC 7523.
"""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import quote

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from floecat.clock import Clock, SystemClock
from floecat.credentials.authorities import GcsMethod, Secrets, StorageAuthority
from floecat.credentials.keys import AuthorityError, KeyScope, StorageKeys
from floecat.credentials.posts import Poster, PostError
from floecat.credentials.tokens import AccessToken, ask_token, read_text
from floecat.errors import BadRequestError
from floecat.fileio.locations import Location
from floecat.fileio.options import GcsOptions

__all__ = ["GoogleKeyMaker"]

_OAUTH: Final = "https://oauth2.googleapis.com"
_STS: Final = "https://sts.googleapis.com"
_METADATA: Final = "metadata.google.internal"
_SERVICE_TOKEN: Final = "computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type
_SIGNED_LIFE_S: Final = 3600
_MOST_RULES: Final = 10
"""Of a boundary; each is for one bucket."""
_MOST_FOLDERS: Final = 6
"""Of a rule: its condition takes twelve operators, a folder takes two."""


class _Account(msgspec.Struct):
    type: str
    client_email: str
    private_key: str
    private_key_id: str | None = None


class GoogleKeyMaker:
    """Makes tokens. Thread-safe."""

    def __init__(self, poster: Poster, service: GcsOptions, clock: Clock | None = None) -> None:
        """Asks for nothing yet.

        Args:
            poster: sends requests; a key takes two.
            service: the service's own access, for authorities that use its keys.
            clock: the time.
        """
        self._poster = poster
        self._service = service
        self._clock = clock or SystemClock()

    def make(self, authority: StorageAuthority, secrets: Secrets, scope: KeyScope) -> StorageKeys:
        """See `KeyMaker.make`."""
        method = authority.method
        if not isinstance(method, GcsMethod):
            raise TypeError(type(method).__name__)
        boundary = {"accessBoundary": {"accessBoundaryRules": _rules(scope)}}
        began_ms = self._clock.now_ms()
        try:
            source = self._source(method, secrets)
            asked = {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": source.access_token,
                "subject_token_type": _ACCESS_TOKEN,
                "requested_token_type": _ACCESS_TOKEN,
                "options": quote(msgspec.json.encode(boundary)),
            }
            made = ask_token(self._poster, f"{(method.sts_endpoint or _STS).rstrip('/')}/v1/token", asked)
            life_s = made.expires_in or source.expires_in
            if life_s is None:
                raise PostError("the service's token does not say when it ends")
        except PostError as error:
            raise AuthorityError(authority, str(error), error.kind) from None
        expires_at_ms = began_ms + life_s * 1000
        return StorageKeys(
            {"gcs.oauth2.token": made.access_token, "gcs.oauth2.token-expires-at": str(expires_at_ms)},
            expires_at_ms,
        )

    def _source(self, method: GcsMethod, secrets: Secrets) -> AccessToken:
        if method.keys_of == "own":
            return self._signed_for(method, secrets.get("service-account-key", ""))
        if self._service.token is not None:
            return AccessToken(self._service.token)
        key = self._service.service_account_key
        file = self._service.service_account_file or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        if key is None and file:
            key = read_text(file)
        if key is not None:
            return self._signed_for(method, key)
        host = os.environ.get("GCE_METADATA_HOST") or _METADATA
        return ask_token(self._poster, f"http://{host}/{_SERVICE_TOKEN}", None, {"Metadata-Flavor": "Google"})

    def _signed_for(self, method: GcsMethod, key: str) -> AccessToken:
        # a key names an address for tokens, too; whoever gives a key does not choose whom the service calls
        url = f"{(method.sts_endpoint or _OAUTH).rstrip('/')}/token"
        now_s = self._clock.now_ms() // 1000
        try:
            account = msgspec.json.decode(key, type=_Account)
            claims: dict[str, Any] = {
                "iss": account.client_email,
                "scope": _SCOPE,
                "aud": f"{_OAUTH}/token",
                "iat": now_s,
                "exp": now_s + _SIGNED_LIFE_S,
            }
            header = {"alg": "RS256", "typ": "JWT", "kid": account.private_key_id or ""}
            assertion = jwt.encode(header, claims, RSAKey.import_key(account.private_key))
        except (msgspec.MsgspecError, JoseError, ValueError, RecursionError):
            raise PostError("its key is not the JSON of a service account's key") from None
        return ask_token(
            self._poster,
            url,
            {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion},
        )


def _rules(scope: KeyScope) -> list[dict[str, Any]]:
    role = "inRole:roles/storage.objectUser" if scope.may_write else "inRole:roles/storage.objectViewer"
    folders: dict[str, list[Location]] = {}
    for each in scope.locations:
        folders.setdefault(each.authority, []).append(each)
    if len(folders) > _MOST_RULES or any(len(each) > _MOST_FOLDERS for each in folders.values()):
        raise BadRequestError(
            f"The locations of the table do not fit a token of Google's: it takes {_MOST_RULES} buckets and"
            f" {_MOST_FOLDERS} folders of each"
        )
    return [
        {
            "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
            "availablePermissions": [role],
            "availabilityCondition": {"expression": " || ".join(_condition(bucket, each) for each in found)},
        }
        for bucket, found in folders.items()
    ]


def _condition(bucket: str, folder: Location) -> str:
    prefix = f"{folder.key}/" if folder.key else ""
    objects = _text(f"projects/_/buckets/{bucket}/objects/{prefix}")
    listed = f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith({_text(prefix)})"
    return f"resource.name.startsWith({objects}) || {listed}"


def _text(value: str) -> str:
    # a text of JSON is one of the language of conditions, too
    return msgspec.json.encode(value).decode()
