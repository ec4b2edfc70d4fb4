"""Session policies: what keys of a role may do, cut to folders (AWS IAM, "Session policies").

Characters that a policy gives a meaning are written as policy variables: ``*`` in a name is ``${*}``.
"""

from __future__ import annotations

import json
import re
from typing import Final

from floecat.credentials.authorities import S3Method
from floecat.credentials.keys import KeyScope
from floecat.errors import BadRequestError

__all__ = ["session_policy"]

_MOST_CHARACTERS: Final = 2048
"""Longest session policy that STS takes (AWS STS, `AssumeRole`)."""
_SPECIAL: Final = re.compile(r"[*?$]")
_READ: Final = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE: Final = (
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)


def session_policy(method: S3Method, scope: KeyScope) -> str:
    """The policy of keys that open the folders of a scope and nothing else, in ASCII.

    Raises:
        BadRequestError: it would be longer than STS takes.
    """
    partition = (method.role_arn or "arn:aws:").split(":")[1]
    folders: dict[str, list[str]] = {}
    for location in scope.locations:
        key = f"{location.key}/" if location.key else ""
        folders.setdefault(location.authority, []).append(_SPECIAL.sub(r"${\g<0>}", key) + "*")
    arn = f"arn:{partition}:s3:::"
    objects = [f"{arn}{bucket}/{key}" for bucket, keys in folders.items() for key in keys]
    statements = [_allow([*_READ, *(_WRITE if scope.may_write else ())], objects)]
    for bucket, keys in folders.items():
        listing = _allow(["s3:ListBucket"], [arn + bucket])
        statements.append({**listing, "Condition": {"StringLike": {"s3:prefix": keys}}})
    statements.append(_allow(["s3:GetBucketLocation"], [arn + bucket for bucket in folders]))
    if method.sse_key is not None:
        actions = ["kms:Decrypt", *(["kms:GenerateDataKey"] if scope.may_write else [])]
        statements.append(_allow(actions, [method.sse_key]))
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > _MOST_CHARACTERS:
        raise BadRequestError(
            f"No keys can be made for this table: its {len(scope.locations)} locations take a session policy"
            f" of {len(policy)} characters, and STS takes {_MOST_CHARACTERS}"
        )
    return policy


def _allow(actions: list[str], resources: list[str]) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}
