"""`floecat authority check` finds out what keys open, and says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from floecat.auth.actors import Actor
from floecat.credentials.authorities import S3Method, Secrets, StorageAuthority
from floecat.credentials.authority_check import AuthorityTrial
from floecat.credentials.authority_service import AuthorityUpdate, NewAuthority
from floecat.credentials.keys import AuthorityError, KeyScope, StorageKeys
from floecat.runtime import Kernel
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.parametrize("settings", ["sqlite"], indirect=True)]

WORKS = [
    "makes keys to write",
    "makes keys to read",
    "makes keys for a place beside",
    "writes beside with those",
    "writes",
    "reads",
    "lists",
]
REFUSED = [
    "keys to read do not write",
    "keys to read do not delete",
    "keys do not read beside their place",
    "keys do not write beside it",
    "keys do not list beside it",
    "keys do not list above it",
]


def method(server: S3Server, **changes: Any) -> S3Method:
    made = S3Method(
        access_key_id=server.access_key_id,
        role_arn=server.role_arn,
        region=server.region,
        endpoint=server.endpoint,
        path_style_access=True,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def authority(
    kernel: Kernel, actor: Actor, s3_server: S3Server, s3_bucket: str
) -> Iterator[StorageAuthority]:
    secrets = {"secret-access-key": s3_server.secret_access_key}
    wanted = NewAuthority("lake", f"s3://{s3_bucket}/tables", method(s3_server), secrets)
    yield kernel.credentials.authorities.create(actor, wanted, anywhere=True)
    left = s3_server.client().list_objects_v2(Bucket=s3_bucket)
    assert left.get("Contents", []) == []


def problem(kernel: Kernel, authority: StorageAuthority) -> str:
    """The problem of the one step that fails."""
    (found,) = [step.problem for step in kernel.credentials.trial.run(authority) if step.problem]
    return found


def test_keys_open_their_place_and_nothing_beside(kernel: Kernel, authority: StorageAuthority) -> None:
    steps = list(kernel.credentials.trial.run(authority))
    assert [step.problem for step in steps] == [None] * len(steps)
    assert [step.what for step in steps] == [*WORKS, *REFUSED, "deletes what it wrote"]


def test_without_a_role_its_own_keys_are_tried(
    kernel: Kernel, actor: Actor, authority: StorageAuthority, s3_server: S3Server
) -> None:
    signs = kernel.credentials.authorities.update(
        actor, "lake", AuthorityUpdate(method=method(s3_server, role_arn=None)), anywhere=True
    )
    steps = list(kernel.credentials.trial.run(signs))
    assert [(step.what, step.problem) for step in steps] == [
        ("has no role: signs requests, and makes no keys", None),
        *((what, None) for what in ("has keys", "writes", "reads", "lists", "deletes what it wrote")),
    ]


@pytest.mark.parametrize(
    ("changes", "said", "advice"),
    [
        ({"role_arn": "arn:aws:iam::000000000000:role/None"}, "STS refuses", "the trust policy of the role"),
        ({"access_key_id": "nobody"}, "InvalidAccessKeyId", "the service knows no such access key"),
        ({"endpoint": "http://127.0.0.1:9"}, "does not answer", "look at the options endpoint"),
    ],
)
def test_what_is_wrong_is_told_with_what_mends_it(
    kernel: Kernel,
    actor: Actor,
    authority: StorageAuthority,
    s3_server: S3Server,
    changes: dict[str, Any],
    said: str,
    advice: str,
) -> None:
    wrong = kernel.credentials.authorities.update(
        actor, "lake", AuthorityUpdate(method=method(s3_server, **changes)), anywhere=True
    )
    found = problem(kernel, wrong)
    assert found.startswith("Storage authority lake makes no keys: ")
    assert said in found
    assert advice in found
    assert s3_server.secret_access_key not in found


def test_a_wrong_secret_and_a_wrong_bucket_are_told(
    kernel: Kernel, actor: Actor, authority: StorageAuthority
) -> None:
    service = kernel.credentials.authorities
    wrong = service.update(actor, "lake", AuthorityUpdate(secrets={"secret-access-key": "x"}), anywhere=True)
    assert "the secret is not that of the access key" in problem(kernel, wrong)
    elsewhere = msgspec.structs.replace(
        authority, prefix=authority.prefix._replace(authority="nobodys-bucket")
    )
    assert "or the bucket is not there" in problem(kernel, elsewhere)


class Refuses:
    """A service that refuses to make keys."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def make(self, authority: StorageAuthority, _secrets: Secrets, _scope: KeyScope) -> StorageKeys:
        raise AuthorityError(authority, self._reason)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        # in the words of the services
        (
            "its STS refuses (SignatureDoesNotMatch: Signature expired: 20261130T1 is now earlier)",
            "the clock",
        ),
        ("its STS refuses (RegionDisabledException: STS is not activated in this region)", "the region"),
        (
            "its STS refuses (AccessDenied: User: x is not authorized to perform: sts:AssumeRole)",
            "trust policy",
        ),
        (
            "its STS refuses (ValidationError: The requested DurationSeconds exceeds the MaxSessionDuration)",
            "lower",
        ),
        ("its STS refuses (InvalidIdentityToken: Incorrect token audience)", "does not trust the issuer"),
        ("https://login refuses (status 401, invalid_client, AADSTS7000215)", "the secret is not that"),
        ("https://a refuses (status 403, AuthorizationPermissionMismatch)", "Storage Blob Delegator"),
    ],
)
def test_refusals_of_clouds_are_told_in_plain_words(
    kernel: Kernel, authority: StorageAuthority, s3_server: S3Server, reason: str, advice: str
) -> None:
    trial = AuthorityTrial(kernel.credentials.secrets, {"s3": Refuses(reason)}, s3_server.options())
    (step,) = trial.run(authority)
    assert step.problem is not None
    assert reason in step.problem
    assert advice in step.problem.partition(reason)[2]


class AllKeys:
    """Keys of a service that ignores session policies: those to everything."""

    def __init__(self, server: S3Server) -> None:
        self._config = {
            "s3.access-key-id": server.access_key_id,
            "s3.secret-access-key": server.secret_access_key,
        }

    def make(self, _authority: StorageAuthority, _secrets: Secrets, _scope: KeyScope) -> StorageKeys:
        return StorageKeys(self._config, 0)


def test_keys_that_open_more_are_found(
    kernel: Kernel, authority: StorageAuthority, s3_server: S3Server
) -> None:
    trial = AuthorityTrial(kernel.credentials.secrets, {"s3": AllKeys(s3_server)}, s3_server.options())
    steps = list(trial.run(authority))
    broken = [step.what for step in steps if step.problem is not None]
    # the key to read deleted what the rest reads, so it is not found twice
    assert broken == REFUSED
    assert all("they do" in str(step.problem) for step in steps if step.what in broken)
