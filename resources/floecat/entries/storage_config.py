"""Settings of storage that a client may know: where it is, never how to get in.

Credentials belong in `storage-credentials`, and only with a secret in them; region, endpoint and path style
go here.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["StorageConfig"]


class StorageConfig:
    """What a load returns as `config`, by the scheme of the table's location."""

    def __init__(self, *, s3_endpoint: str | None, s3_region: str | None, s3_path_style: bool | None) -> None:
        """Takes the client-safe settings of S3; those that are `None` are left out."""
        s3: dict[str, str] = {}
        if s3_endpoint:
            s3["s3.endpoint"] = s3_endpoint
        if s3_region:
            s3["s3.region"] = s3["client.region"] = s3_region
        if s3_path_style is not None:
            s3["s3.path-style-access"] = str(s3_path_style).lower()
        self._s3 = s3

    def of(self, location: str) -> Mapping[str, str]:
        """The settings for a location."""
        return self._s3 if location.startswith(("s3://", "s3a://", "s3n://")) else {}
