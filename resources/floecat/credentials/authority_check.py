"""A trial of a storage authority: what its keys open, and what they do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import uuid_utils.compat as uuids

from floecat.credentials.authorities import (
    AuthorityKind,
    GcsMethod,
    KeyMethod,
    S3Method,
    StorageAuthority,
)
from floecat.credentials.authority_secrets import AuthoritySecrets
from floecat.credentials.keys import KeyMaker, KeyScope
from floecat.errors import FloecatError, StorageRefusedError, StorageUnavailableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import normalize_location
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

__all__ = ["AuthorityTrial", "TrialStep"]

_CONTENT: Final = b"Written to find out what keys open, and deleted."
_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    (
        r"RequestTimeTooSkewed|RequestExpired|[Ss]ignature expired|not yet current|short-lived|time frame",
        "the clock of this machine is wrong by minutes: set it, as by NTP",
    ),
    (
        r"RegionDisabled|PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|HTTP 301",
        "the region is not that of the bucket, or its STS is not active: set the option region",
    ),
    (r"InvalidClientTokenId|InvalidAccessKeyId|UnrecognizedClient", "the service knows no such access key"),
    (r"SignatureDoesNotMatch|InvalidSecurity", "the secret is not that of the access key"),
    (
        r"NoSuchEntity|ValidationError.*[Rr]ole",
        "there is no such role: look at the option role-arn",
    ),
    (
        r"DurationSeconds|MaxSessionDuration",
        "the role allows no sessions that long: lower the option duration-s",
    ),
    (r"invalid_client|invalid_grant", "the secret is not that of the account, or is over"),
    (
        r"AuthorizationPermissionMismatch|AuthorizationFailure",
        "who asks lacks the role Storage Blob Delegator on the storage account",
    ),
    (
        r"InvalidIdentityToken|IDPRejectedClaim",
        "the role does not trust the issuer or the audience of the token",
    ),
    (
        r"STS refuses \(.*(AccessDenied|not authorized)",
        "the trust policy of the role does not name who asks (or not its external id), or who asks lacks the"
        " right sts:AssumeRole (with names-principals also sts:TagSession)",
    ),
    (
        r"Storage refuses",
        "the permission policy of the role does not allow this here, or the bucket is not there or is"
        " somebody else's",
    ),
    (r"NoSuchBucket", "there is no such bucket at this endpoint: look at the prefix and the option endpoint"),
    (
        r"does not answer|did not answer|Storage failed at",
        "nothing answers there: look at the options endpoint and sts-endpoint, and at the network",
    ),
)


class TrialStep(NamedTuple):
    """A step of a trial."""

    what: str
    problem: str | None = None
    """What went wrong, and what is likely to mend it."""


class AuthorityTrial:
    """Makes keys, and writes, reads, lists and deletes with them below the prefix and beside."""

    def __init__(
        self,
        secrets: AuthoritySecrets,
        makers: Mapping[AuthorityKind, KeyMaker],
        service: ObjectStoreOptions,
    ) -> None:
        """Sends nothing yet.

        Args:
            secrets: of authorities.
            makers: make keys.
            service: access of the service itself.
        """
        self._secrets = secrets
        self._makers = makers
        self._service = service

    def run(self, authority: StorageAuthority) -> Iterator[TrialStep]:
        """The steps, as they are done. The files that it writes are deleted again."""
        id = uuids.uuid7().hex
        # the name of one begins with that of the other: keys that take names for beginnings would open both
        own, beside = (f"{authority.prefix}/floecat-check-{id}{suffix}" for suffix in ("", "-beside"))
        made: dict[str, FileIO] = {}
        wrote: list[tuple[FileIO, str]] = []

        def keys(name: str, location: str, *, may_write: bool) -> None:
            scope = KeyScope((normalize_location(location),), may_write)
            secrets = self._secrets.of(authority)
            found = self._makers[authority.method.kind].make(authority, secrets, scope)
            made[name] = self._files(authority.method, found.config)

        def write(name: str, folder: str) -> None:
            _write(made[name], folder)
            wrote.append((made[name], folder))

        makes: list[_Action] = [
            ("makes keys to write", lambda: keys("writer", own, may_write=True)),
            ("makes keys to read", lambda: keys("reader", own, may_write=False)),
            ("makes keys for a place beside", lambda: keys("other", beside, may_write=True)),
            ("writes beside with those", lambda: write("other", beside)),
        ]
        refused: list[_Action] = [
            ("keys to read do not write", lambda: _write(made["reader"], own, "second")),
            ("keys to read do not delete", lambda: made["reader"].delete(f"{own}/first")),
            ("keys do not read beside their place", lambda: _read(made["writer"], beside)),
            ("keys do not write beside it", lambda: _write(made["writer"], beside, "second")),
            ("keys do not list beside it", lambda: _list(made["writer"], beside)),
            ("keys do not list above it", lambda: _list(made["writer"], str(authority.prefix))),
        ]
        if isinstance(authority.method, S3Method) and authority.method.role_arn is None:
            yield TrialStep("has no role: signs requests, and makes no keys")
            makes, refused = [("has keys", lambda: made.update(self._own(authority)))], []
        works: list[_Action] = [
            ("writes", lambda: write("writer", own)),
            ("reads", lambda: _read(made["reader"], own)),
            ("lists", lambda: _list(made["reader"], own)),
        ]
        for what, action in (*makes, *works):
            step = _worked(what, action)
            yield step
            if step.problem is not None:
                break
        else:
            yield from (_refused(what, action) for what, action in refused)
        if wrote:
            yield _worked("deletes what it wrote", lambda: _delete(wrote))

    def _files(self, method: KeyMethod, config: Mapping[str, str]) -> FileIO:
        """Storage as clients reach it with keys."""
        options = msgspec.structs.replace(
            self._service,
            **dict.fromkeys(("region", "endpoint", "access_key_id", "secret_access_key", "session_token")),
            path_style_access=False,
            gcs=GcsOptions(),
            adls=AdlsOptions(),
            max_retries=0,
        )
        if isinstance(method, S3Method):
            change: dict[str, Any] = {
                "region": method.region,
                "endpoint": method.endpoint,
                "path_style_access": method.path_style_access,
                "access_key_id": config["s3.access-key-id"],
                "secret_access_key": config["s3.secret-access-key"],
                "session_token": config.get("s3.session-token"),
            }
        elif isinstance(method, GcsMethod):
            change = {"gcs": GcsOptions(endpoint=method.endpoint, token=config["gcs.oauth2.token"])}
        else:
            sas = next(value for key, value in config.items() if key.startswith("adls.sas-token"))
            change = {"adls": AdlsOptions(endpoint=method.endpoint, sas_token=sas)}
        return open_fileio(msgspec.structs.replace(options, **change))

    def _own(self, authority: StorageAuthority) -> dict[str, FileIO]:
        """Storage with the keys that sign requests."""
        method, service = cast("S3Method", authority.method), self._service
        if method.keys_of == "own":
            secret = self._secrets.of(authority)["secret-access-key"]
            config = {"s3.access-key-id": method.access_key_id or "", "s3.secret-access-key": secret}
            files = self._files(method, config)
        else:
            files = open_fileio(
                msgspec.structs.replace(
                    service,
                    region=method.region or service.region,
                    endpoint=method.endpoint or service.endpoint,
                    path_style_access=method.path_style_access or service.path_style_access,
                )
            )
        return {"writer": files, "reader": files}


_Action: TypeAlias = tuple[str, Callable[[], object]]


def _worked(what: str, action: Callable[[], object]) -> TrialStep:
    try:
        action()
    except FloecatError as error:
        return TrialStep(what, _explained(error.message))
    return TrialStep(what)


def _refused(what: str, action: Callable[[], object]) -> TrialStep:
    try:
        action()
    except StorageRefusedError:
        return TrialStep(what)
    except FloecatError as error:
        return TrialStep(what, _explained(error.message))
    return TrialStep(
        what,
        "they do: this service does not cut keys to a place, so who gets keys to one table has keys to all."
        " Disable the authority",
    )


def _explained(message: str) -> str:
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, message)), None)
    return message if advice is None else f"{message}: {advice}"


def _write(files: FileIO, folder: str, name: str = "first") -> None:
    files.write_new(f"{folder}/{name}", _CONTENT, unique_name=True)


def _read(files: FileIO, folder: str) -> None:
    if files.read(f"{folder}/first", max_bytes=len(_CONTENT)) != _CONTENT:
        raise StorageUnavailableError(f"Storage gives back another file than it was given: {folder}/first")


def _list(files: FileIO, folder: str) -> None:
    if not any(files.list(f"{folder}/")):
        raise StorageUnavailableError(f"Storage lists nothing below {folder}, where a file is")


def _delete(folders: Sequence[tuple[FileIO, str]]) -> None:
    for files, folder in folders:
        for name in ("first", "second"):
            files.delete(f"{folder}/{name}")
