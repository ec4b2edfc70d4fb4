"""Keys of S3: AssumeRole and AssumeRoleWithWebIdentity with a session policy (AWS Security Token Service).

Each is one POST. It is signed by botocore, and sent within the bounds of the product.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import urlencode

from floecat.credentials.authorities import S3Method, Secrets, StorageAuthority
from floecat.credentials.keys import AuthorityError, KeyScope, StorageKeys
from floecat.credentials.policies import session_policy
from floecat.credentials.posts import PostAnswer, Poster, PostError
from floecat.credentials.sts import STS_VERSION, answer_texts, signed_headers, sts_endpoint
from floecat.credentials.tokens import read_text
from floecat.errors import BadRequestError
from floecat.fileio.options import ObjectStoreOptions

__all__ = ["DEFAULT_REGION", "AwsKeyMaker"]

DEFAULT_REGION: Final = "us-east-1"

_SESSION: Final = "floecat"
_NOT_IN_SESSION: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)
_NOT_IN_TAG: Final = re.compile(r"[^\w .:/=+@-]")
_LONGEST_SESSION: Final = 64
_LONGEST_TAG: Final = 256
_LONGEST_REASON: Final = 300
_SCOPE_ERRORS: Final = frozenset({"PackedPolicyTooLarge", "MalformedPolicyDocument"})
_TOKEN_FILE: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"  # noqa: S105 - the name of a variable
_FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"


class AwsKeyMaker:
    """Assumes roles. Thread-safe."""

    def __init__(
        self, poster: Poster, service: ObjectStoreOptions, web_identity_token_file: str | None = None
    ) -> None:
        """Asks for nothing yet.

        Args:
            service: options of the service's storage, with its keys; without, those of the environment count.
            web_identity_token_file: file with a token of the service; by default that of the environment.
        """
        self._poster = poster
        self._service = service
        self._token_file = web_identity_token_file

    def make(self, authority: StorageAuthority, secrets: Secrets, scope: KeyScope) -> StorageKeys:
        """Asks for keys; see `KeyMaker`."""
        method = cast("S3Method", authority.method)
        if method.role_arn is None:
            raise AuthorityError(authority, "it has no role")
        policy = session_policy(method, scope)
        form = {
            "Version": STS_VERSION,
            "Action": "AssumeRole",
            "RoleArn": method.role_arn,
            "RoleSessionName": _session(scope.principal),
            "DurationSeconds": str(method.duration_s),
            "Policy": policy,
        }
        region = method.region or DEFAULT_REGION
        url = method.sts_endpoint or method.endpoint or sts_endpoint(region)
        if method.keys_of == "web-identity":
            form |= {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": self._token(authority)}
            headers: Mapping[str, str] = {"content-type": _FORM}
        else:
            if method.external_id is not None:
                form["ExternalId"] = method.external_id
            if scope.principal is not None:
                form |= {"Tags.member.1.Key": "principal", "Tags.member.1.Value": _tag(scope.principal)}
            own, body = self.own(authority, secrets), urlencode(form).encode()
            headers = signed_headers(own, region, "sts", "POST", url, {"content-type": _FORM}, body)
        try:
            answer = self._poster.send(url, urlencode(form).encode(), headers)
        except PostError as error:
            said = f"{url} does not answer: {error}"
            raise AuthorityError(authority, said, "its STS does not answer") from None
        return _keys(authority, answer)

    def own(self, authority: StorageAuthority, secrets: Secrets) -> Any:
        """The long-lived keys that sign the request."""
        from botocore.credentials import ReadOnlyCredentials
        from botocore.exceptions import BotoCoreError

        method, service = cast("S3Method", authority.method), self._service
        if method.keys_of == "own":
            secret = secrets.get("secret-access-key")
            if not method.access_key_id or not secret:
                raise AuthorityError(authority, "it has no access key of its own")
            return ReadOnlyCredentials(method.access_key_id, secret, None)
        if service.access_key_id and service.secret_access_key:
            return ReadOnlyCredentials(
                service.access_key_id, service.secret_access_key, service.session_token
            )
        try:
            found = self._environment
            return found.get_frozen_credentials()
        except (BotoCoreError, AttributeError):  # None has none
            raise AuthorityError(authority, "the service has no keys to AWS (keys-of: service)") from None

    @cached_property
    def _environment(self) -> Any:
        from botocore.session import Session

        return Session().get_credentials()

    def _token(self, authority: StorageAuthority) -> str:
        path = self._token_file or os.environ.get(_TOKEN_FILE)
        if path is None:
            raise AuthorityError(authority, f"the service has no token file ({_TOKEN_FILE})")
        try:
            return read_text(path)
        except PostError as error:
            raise AuthorityError(authority, str(error), error.kind) from None


def _keys(authority: StorageAuthority, answer: PostAnswer) -> StorageKeys:
    found = answer_texts(answer.body)
    if answer.status != 200:
        code = found.get("Code", f"status {answer.status}")
        reason = f"{code}: {found.get('Message', '')}".rstrip(": ")[:_LONGEST_REASON]
        if code in _SCOPE_ERRORS:
            raise BadRequestError(f"Storage authority {authority.name} cannot make such keys: {reason}")
        raise AuthorityError(authority, f"its STS refuses ({reason})", "its STS refuses")
    try:
        expires = datetime.fromisoformat(found["Expiration"])
        expires_at_ms = round(expires.timestamp() * 1000)
        config = {
            "s3.access-key-id": found["AccessKeyId"],
            "s3.secret-access-key": found["SecretAccessKey"],
            "s3.session-token": found["SessionToken"],
            "s3.session-token-expires-at-ms": str(expires_at_ms),
        }
    except (KeyError, ValueError):
        raise AuthorityError(
            authority, "the answer of its STS has no keys, or no time when they end"
        ) from None
    return StorageKeys(config, expires_at_ms)


def _session(principal: str | None) -> str:
    named = _SESSION if principal is None else f"{_SESSION}-{principal}"
    return _NOT_IN_SESSION.sub("_", named)[:_LONGEST_SESSION]


def _tag(principal: str) -> str:
    return _NOT_IN_TAG.sub("_", principal)[:_LONGEST_TAG]
