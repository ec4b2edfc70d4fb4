from __future__ import annotations

import json

import pytest

from floecat.credentials.authorities import S3Method
from floecat.credentials.keys import KeyScope
from floecat.credentials.policies import session_policy
from floecat.errors import BadRequestError
from floecat.fileio.locations import FileLocation, normalize_location

METHOD = S3Method(role_arn="arn:aws-cn:iam::0:role/r", sse_type="kms", sse_key="arn:aws-cn:kms:x:0:key/k")


def policy(*locations, may_write=False):
    scope = KeyScope(tuple(normalize_location(FileLocation(each)) for each in locations), may_write)
    return json.loads(session_policy(METHOD, scope))["Statement"]


def test_readers_read_and_list_the_folders_alone():
    assert policy("s3://b/t", "s3://c/x/y") == [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:GetObjectVersion"],
            "Resource": ["arn:aws-cn:s3:::b/t/*", "arn:aws-cn:s3:::c/x/y/*"],
        },
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws-cn:s3:::b"],
            "Condition": {"StringLike": {"s3:prefix": ["t/*"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws-cn:s3:::c"],
            "Condition": {"StringLike": {"s3:prefix": ["x/y/*"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetBucketLocation"],
            "Resource": ["arn:aws-cn:s3:::b", "arn:aws-cn:s3:::c"],
        },
        {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": ["arn:aws-cn:kms:x:0:key/k"]},
    ]


def test_writers_write_and_delete_too():
    written = policy("s3://b/t", may_write=True)
    assert {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"} < set(written[0]["Action"])
    assert written[-1]["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert not any("s3:*" in each["Action"] for each in written)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a*", "a${*}"),
        ("a?b", "a${?}b"),
        ("${aws:username}", "${$}{aws:username}"),
        ("'\"", "'\""),
        ("表", "表"),
    ],
)
def test_characters_of_a_name_mean_themselves(name, written):
    first = policy(f"s3://b/{name}")[0]
    assert first["Resource"] == [f"arn:aws-cn:s3:::b/{written}/*"]
    scope = KeyScope((normalize_location(FileLocation(f"s3://b/{name}")),), False)
    assert session_policy(METHOD, scope).isascii()


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(BadRequestError, match=r"its 12 locations take a session policy of \d+ characters"):
        policy(*(f"s3://b/{'x' * 100}{number}" for number in range(12)))
