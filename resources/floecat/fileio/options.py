"""Options of object storage: endpoints, credentials, time-outs. Secrets never show in `repr`."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from floecat.errors import SettingsError
from floecat.fileio.endpoints import check_endpoint, check_s3_endpoint

__all__ = ["AdlsOptions", "GcsOptions", "ObjectStoreOptions"]

_S3_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_GCS_ENDPOINT_VARIABLES: Final = ("GOOGLE_BASE_URL",)


class GcsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access to Google Cloud Storage. Without a field of credentials the standard Google sources count."""

    endpoint: str | None = None
    """URL of a compatible service. Default: ``GOOGLE_BASE_URL``, else Google."""

    project_id: str | None = None
    """Project that clients are told."""

    service_account_file: str | None = None
    """Path of the JSON file of a service account."""

    service_account_key: str | None = None
    """The content of such a file."""

    token: str | None = None
    """OAuth 2 token. It is not renewed."""

    def __post_init__(self) -> None:
        """Checks what can be checked before the first request.

        Raises:
            SettingsError: the endpoint is not a URL, or there are several credentials.
        """
        check_endpoint("A GCS endpoint", self.endpoint)
        given = (self.service_account_file, self.service_account_key, self.token)
        if sum(value is not None for value in given) > 1:
            raise SettingsError("GCS takes one of a service account's file, its key and a token")

    @property
    def service(self) -> str | None:
        """`endpoint`, otherwise that of the environment."""
        return self.endpoint or _variable(_GCS_ENDPOINT_VARIABLES)

    def __repr__(self) -> str:
        """The options without secrets."""
        return f"GcsOptions(endpoint={self.endpoint!r}, service_account_file={self.service_account_file!r})"


class AdlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access to Azure Data Lake Storage. Without credentials here the standard Azure sources count."""

    endpoint: str | None = None
    """URL of a compatible service, which has the account as first part of the path. Default: Azure."""

    account_key: str | None = None
    """Key of the account that locations name."""

    sas_token: str | None = None
    """Shared access signature."""

    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    """Secret of a service principal."""

    def __post_init__(self) -> None:
        """Checks what can be checked before the first request.

        Raises:
            SettingsError: the endpoint is not a URL, there are several credentials, or a service principal
                lacks a part.
        """
        check_endpoint("An ADLS endpoint", self.endpoint)
        principal = (self.tenant_id, self.client_id, self.client_secret)
        if any(principal) and not all(principal):
            raise SettingsError(
                "An ADLS service principal needs a tenant id, a client id and a client secret"
            )
        given = (self.account_key, self.sas_token, self.client_secret)
        if sum(value is not None for value in given) > 1:
            raise SettingsError("ADLS takes one of an account key, a SAS token and a service principal")

    def __repr__(self) -> str:
        """The options without secrets."""
        return f"AdlsOptions(endpoint={self.endpoint!r}, client_id={self.client_id!r})"


class ObjectStoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access to object storage; what is not of a group of its own is S3's."""

    region: str | None = None
    """S3 region. Default: ``AWS_REGION``, else ``us-east-1``."""

    endpoint: str | None = None
    """URL of an S3-compatible service. Default: ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``, else AWS."""

    path_style_access: bool = False
    """Bucket in the path instead of in the host name."""

    access_key_id: str | None = None
    """S3 access key. Default: the standard AWS sources (environment, web identity, instance role)."""

    secret_access_key: str | None = None
    session_token: str | None = None

    gcs: GcsOptions = GcsOptions()
    adls: AdlsOptions = AdlsOptions()

    connect_timeout_s: float = 5.0
    """Longest time to connect."""

    answer_timeout_s: float = 6.0
    """Longest silence of storage, until it answers or in the middle of an answer. No retry starts later than
    this either, so that a call on storage that is away ends within twice the time."""

    request_timeout_s: float = 30.0
    """Longest time of one request, the transfer included."""

    max_retries: int = 3
    """Retries of a request that failed for a passing reason."""

    def __post_init__(self) -> None:
        """Checks what can be checked before the first request.

        Raises:
            SettingsError: an access key without its secret or the other way round, an endpoint that is not a
                URL or whose host cannot have the bucket before it, or a time-out of zero.
        """
        if self.endpoint is not None:
            check_s3_endpoint(self.endpoint, path_style=self.path_style_access)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise SettingsError("An S3 access key and its secret must be set together")
        if self.session_token is not None and self.access_key_id is None:
            raise SettingsError("An S3 session token needs its access key")
        timeouts = (self.connect_timeout_s, self.answer_timeout_s, self.request_timeout_s)
        if min(timeouts) <= 0 or self.max_retries < 0:
            raise SettingsError("Time-outs of object storage must be positive, and retries not negative")

    @property
    def s3_endpoint(self) -> str | None:
        """`endpoint`, otherwise that of the environment, which is checked with the first use of S3."""
        return self.endpoint or _variable(_S3_ENDPOINT_VARIABLES)

    def service(self, scheme: str) -> str | None:
        """URL of the service for locations of a scheme (see `Location`); None if it is the cloud's own."""
        if scheme == "s3":
            return self.s3_endpoint
        return self.gcs.service if scheme == "gs" else self.adls.endpoint

    def __repr__(self) -> str:
        """The options without secrets."""
        return (
            f"ObjectStoreOptions(region={self.region!r}, endpoint={self.endpoint!r}, "
            f"path_style_access={self.path_style_access!r}, access_key_id={self.access_key_id!r}, "
            f"gcs={self.gcs!r}, adls={self.adls!r})"
        )


def _variable(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)
