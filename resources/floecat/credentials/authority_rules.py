"""Rules of storage authorities: what is malformed, and what only the command line may say.

Who manages authorities over HTTP may not borrow the power of the service: its keys only for roles that the
settings name, and requests only to endpoints that they name.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

import msgspec

from floecat.credentials.authorities import AZURE_DOMAINS, AdlsMethod, GcsMethod, KeyMethod, S3Method, Secrets
from floecat.errors import BadRequestError, ForbiddenError, SettingsError
from floecat.fileio.endpoints import check_endpoint, check_s3_endpoint
from floecat.fileio.locations import Location
from floecat.settings import AdlsSettings, GcsSettings, S3Settings, StorageSettings

__all__ = ["MASK", "BorrowedPower", "check_authority", "check_secrets"]

MASK: Final = "***"
"""What stands for a secret wherever an authority is shown."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_LONGEST_SECRET: Final = 16 * 1024
_DURATIONS: Final = range(900, 43_201)
_FORMS: Final = {
    # parts of hosts and paths: nothing that leads a request elsewhere
    "region": re.compile(r"[a-z0-9-]{1,64}"),
    "tenant_id": re.compile(r"[A-Za-z0-9.-]{1,255}"),
    "client_id": re.compile(r"[A-Za-z0-9-]{1,255}"),
    "project_id": re.compile(r"[A-Za-z0-9.:-]{1,255}"),
    "access_key_id": re.compile(r"[!-~]{1,255}"),
    "role_arn": re.compile(r"arn:[!-~]{1,2040}"),
    "external_id": re.compile(r"[A-Za-z0-9_+=,.@:/-]{2,1224}"),
    "sse_type": re.compile(r"s3|kms"),
    "sse_key": re.compile(r"[!-~]{1,2048}"),
}
_ENDPOINTS: Final = ("endpoint", "sts_endpoint", "login_endpoint")


class _ServiceAccountKey(msgspec.Struct):
    """The file of a service account. Files of other types let the reader fetch URLs and run programs."""

    type: str
    client_email: str
    private_key: str


_service_account: Final = msgspec.json.Decoder(_ServiceAccountKey)


def check_authority(name: str, prefix: Location, method: KeyMethod) -> None:
    """Refuses an authority that is malformed, or cannot work.

    Raises:
        BadRequestError: see above.
    """
    if not _NAME.fullmatch(name):
        raise BadRequestError(f"Invalid name of a storage authority: {name[:255]!r}")
    if prefix.scheme != method.SCHEME:
        raise _invalid(f"the prefix of kind {method.kind} is a location of {method.SCHEME}://")
    for field, form in _FORMS.items():
        value = getattr(method, field, None)
        if value is not None and not form.fullmatch(value):
            raise _invalid(f"{_written(field)} is malformed")
    for field in _ENDPOINTS:
        _check_url(_written(field), getattr(method, field, None))
    if not isinstance(method, GcsMethod) and method.duration_s not in _DURATIONS:
        raise _invalid(f"duration-s is from {_DURATIONS.start} to {_DURATIONS.stop - 1}")
    if isinstance(method, S3Method):
        _check_s3(method)
    if isinstance(method, AdlsMethod) and (method.client_id is None) != (method.tenant_id is None):
        raise _invalid("a service principal needs tenant-id and client-id")
    if method.keys_of == "web-identity" and not isinstance(method, S3Method):
        raise _invalid("keys-of web-identity is of kind s3")


class BorrowedPower:
    """What an authority may borrow from the service that was not made by the command line."""

    def __init__(self, storage: StorageSettings, default_account_id: UUID) -> None:
        """Reads the settings.

        Raises:
            SettingsError: a role is written in no known form.
        """
        used: list[S3Settings | GcsSettings | AdlsSettings] = [storage.aws.s3, storage.gcs, storage.adls]
        used += [each for own in storage.catalogs.values() for each in (own.s3, own.gcs, own.adls)]
        lent = [*storage.authorities.endpoints, *(each.endpoint for each in used)]
        self._endpoints = {each.rstrip("/") for each in lent if each}
        self._roles = {_lent_role(each, default_account_id) for each in storage.authorities.roles}

    def check(self, account_id: UUID, prefix: Location, method: KeyMethod) -> None:
        """Refuses what the settings do not lend to an account.

        Raises:
            ForbiddenError: see above; the message names the setting.
        """
        if method.keys_of != "own":
            role = getattr(method, "role_arn", None)
            if (account_id, role) not in self._roles:
                raise ForbiddenError(
                    f"keys-of {method.keys_of} needs a role that floecat.storage.authorities.roles lends to"
                    " this account; the command line may name any"
                )
        for field in _ENDPOINTS:
            url = getattr(method, field, None)
            if url is not None and url.rstrip("/") not in self._endpoints:
                raise ForbiddenError(
                    f"{_written(field)} is none of floecat.storage.authorities.endpoints; the command line"
                    " may name any"
                )
        if isinstance(method, AdlsMethod) and method.endpoint is None:
            domain = prefix.authority.partition(".dfs.")[2]
            if domain not in AZURE_DOMAINS:
                raise ForbiddenError(
                    f"The domain of {prefix} is none of Azure: endpoint has to be one of"
                    " floecat.storage.authorities.endpoints"
                )


def _lent_role(written: str, default_account_id: UUID) -> tuple[UUID, str]:
    """An account, and a role that it may use."""
    account, _, role = ("", "", written) if written.startswith("arn:") else written.partition("=")
    try:
        found = UUID(account) if account else default_account_id
    except ValueError:
        found = None
    if found is None or not role.startswith("arn:"):
        raise SettingsError(
            f"Invalid floecat.storage.authorities.roles: {written!r} is neither an ARN nor <account id>=<ARN>"
        )
    return found, role


def _check_s3(method: S3Method) -> None:
    if method.keys_of == "own" and method.access_key_id is None:
        raise _invalid("keys-of own needs access-key-id")
    if method.keys_of == "web-identity" and method.role_arn is None:
        raise _invalid("keys-of web-identity needs role-arn")
    if method.sse_key is not None and method.sse_type != "kms":
        raise _invalid("sse-key is of sse-type kms")
    if method.endpoint is not None:
        try:
            check_s3_endpoint(method.endpoint, path_style=method.path_style_access)
        except SettingsError:
            raise _invalid("an endpoint that is an IP address needs path-style-access") from None


def check_secrets(method: KeyMethod, secrets: Secrets) -> None:
    """Refuses secrets that are not those of a method, or malformed.

    Raises:
        BadRequestError: see above; the message quotes none.
    """
    wanted = () if method.secret is None else (method.secret,)
    for name in sorted(secrets.keys() - {*wanted}):
        raise _invalid(f"it has no secret {name[:80]!r}" + (f", but {method.secret}" if wanted else ""))
    for name in wanted:
        secret = secrets.get(name)
        if not secret or secret == MASK:
            raise _invalid(f"the secret {name} is missing")
        if len(secret) > _LONGEST_SECRET or (name != "service-account-key" and not secret.isprintable()):
            raise _invalid(f"the secret {name} is malformed")
    if (key := secrets.get("service-account-key")) is not None:
        try:
            found = _service_account.decode(key)
        except (msgspec.DecodeError, UnicodeEncodeError):
            found = None
        if found is None or found.type != "service_account":
            raise _invalid("the secret service-account-key is the JSON of the key of a service account")


def _check_url(what: str, url: str | None) -> None:
    try:
        check_endpoint(what, url)
    except SettingsError as error:
        raise _invalid(error.message) from None


def _written(field: str) -> str:
    return field.replace("_", "-")


def _invalid(reason: str) -> BadRequestError:
    return BadRequestError(f"Invalid storage authority: {reason}")
