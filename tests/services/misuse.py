"""What keys to one folder of a bucket must not do, tried by a script that has nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import boto3
import botocore.config
from botocore.exceptions import ClientError

from floecat.fileio.locations import normalize_location
from tests.services.s3 import S3Server

__all__ = ["KeyThief"]

_DENIED = frozenset({"AccessDenied", "403", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken"})


class KeyThief:
    """Somebody who has the keys to the files of one table."""

    def __init__(self, server: S3Server, config: Mapping[str, str], location: str) -> None:
        """Takes keys as the catalog sends them, and the folder that they are for."""
        folder = normalize_location(location)
        self._server = server
        self._config = config
        self._bucket = folder.authority
        self._own = folder.key
        self._s3 = self._client("s3")

    def refused(self, *, may_write: bool) -> dict[str, str]:
        """Tries all that keys to another folder, or keys that only read, do not open.

        Its neighbours are there: one whose name starts like its own, and one in the folder above. Nothing of
        them changes.

        Args:
            may_write: whether the keys write, so that what they do in their own folder is not tried.

        Returns:
            What was not refused, with the answer.
        """
        above = self._own.rpartition("/")[0]
        neighbours = [f"{self._own}0/data/a", f"{self._own}", f"{above}/other/a", "elsewhere"]
        owner = self._server.client()
        for key in (*neighbours, f"{self._own}/data/own"):
            owner.put_object(Bucket=self._bucket, Key=key, Body=b"kept")
        tries: dict[str, Callable[[], Any]] = {}
        for key in neighbours if may_write else [*neighbours, f"{self._own}/data/own"]:
            tries |= self._writes(key)
        for key in neighbours:
            tries |= self._reads(key)
        for prefix in ("", above, f"{above}/", self._own, f"{self._own}0/"):
            tries |= self._lists(prefix)
        tries |= self._others()
        allowed = {name: answer for name, do in tries.items() if (answer := _answer(do)) is not None}
        for key in (*neighbours, f"{self._own}/data/own"):
            if owner.get_object(Bucket=self._bucket, Key=key)["Body"].read() != b"kept":
                allowed[f"changed {key}"] = ""
        if {each["Key"] for each in self._listed(owner, f"{above}/other/")} != {f"{above}/other/a"}:
            allowed["new files beside it"] = ""
        return allowed

    def reads_and_lists(self) -> bool:
        """Whether the keys open their own folder, so that a refusal says something."""
        found = self._s3.get_object(Bucket=self._bucket, Key=f"{self._own}/data/own")["Body"].read()
        return found == b"kept" and any(self._listed(self._s3, f"{self._own}/"))

    def answer(self) -> str:
        """The code with which a read of its own folder is refused; empty if it is not."""
        try:
            self._s3.get_object(Bucket=self._bucket, Key=f"{self._own}/data/own")
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    def _writes(self, key: str) -> dict[str, Callable[[], Any]]:
        s3, at = self._s3, {"Bucket": self._bucket, "Key": key}
        source = {"Bucket": self._bucket, "Key": f"{self._own}/data/own"}
        return {
            f"put {key}": lambda: s3.put_object(**at, Body=b"stolen"),
            f"copy to {key}": lambda: s3.copy_object(**at, CopySource=source),
            f"multipart {key}": lambda: s3.create_multipart_upload(**at),
            f"delete {key}": lambda: s3.delete_object(**at),
            f"batch delete {key}": lambda: _whole(
                s3.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": f"{self._own}/gone"}, {"Key": key}]}
                )
            ),
            f"acl {key}": lambda: s3.put_object_acl(**at, ACL="public-read"),
            f"tags {key}": lambda: s3.put_object_tagging(**at, Tagging={"TagSet": []}),
        }

    def _reads(self, key: str) -> dict[str, Callable[[], Any]]:
        s3, at = self._s3, {"Bucket": self._bucket, "Key": key}
        into = {"Bucket": self._bucket, "Key": f"{self._own}/copied"}
        return {
            f"get {key}": lambda: s3.get_object(**at),
            f"head {key}": lambda: s3.head_object(**at),
            f"range {key}": lambda: s3.get_object(**at, Range="bytes=0-1"),
            f"copy from {key}": lambda: s3.copy_object(**into, CopySource=at),
        }

    def _lists(self, prefix: str) -> dict[str, Callable[[], Any]]:
        s3 = self._s3
        return {
            f"list {prefix!r}": lambda: s3.list_objects_v2(Bucket=self._bucket, Prefix=prefix),
            f"list folders of {prefix!r}": lambda: s3.list_objects(
                Bucket=self._bucket, Prefix=prefix, Delimiter="/"
            ),
            f"list versions {prefix!r}": lambda: s3.list_object_versions(Bucket=self._bucket, Prefix=prefix),
        }

    def _others(self) -> dict[str, Callable[[], Any]]:
        s3, sts = self._s3, self._client("sts")
        role = {"RoleArn": self._server.role_arn, "RoleSessionName": "more"}
        return {
            "list of buckets' uploads": lambda: s3.list_multipart_uploads(Bucket=self._bucket),
            "policy of the bucket": lambda: s3.put_bucket_policy(Bucket=self._bucket, Policy="{}"),
            "a new bucket": lambda: s3.create_bucket(Bucket=f"{self._bucket}-more"),
            "no more bucket": lambda: s3.delete_bucket(Bucket=self._bucket),
            "the role again": lambda: sts.assume_role(**role),
        }

    def _listed(self, client: Any, prefix: str) -> list[Any]:
        return client.list_objects_v2(Bucket=self._bucket, Prefix=prefix).get("Contents", [])  # type: ignore[no-any-return]

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self._server.endpoint,
            aws_access_key_id=self._config["s3.access-key-id"],
            aws_secret_access_key=self._config["s3.secret-access-key"],
            aws_session_token=self._config["s3.session-token"],
            region_name=self._server.region,
            config=botocore.config.Config(
                read_timeout=120, retries={"max_attempts": 1}, s3={"addressing_style": "path"}
            ),
        )


def _whole(answer: dict[str, Any]) -> Any:
    """The answer of a batch delete; an error of one of its keys is thrown, as the request's would be."""
    for error in answer.get("Errors", []):
        raise ClientError({"Error": error}, "DeleteObjects")
    return answer


def _answer(do: Callable[[], Any]) -> str | None:
    try:
        found = do()
    except ClientError as error:
        # STS of SeaweedFS refuses keys that have ended by a document of S3, which botocore does not read
        status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        code = str(error.response.get("Error", {}).get("Code", status))
        return None if code in _DENIED else code
    return str(found)
