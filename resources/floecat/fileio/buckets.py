"""How object storage is reached: its options, and one connected client for each bucket."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from obstore.store import AzureStore, GCSStore, S3Store

from floecat.errors import BadRequestError, SettingsError, StorageUnavailableError
from floecat.fileio.locations import Location
from floecat.fileio.object_failures import OBJECT_STORE_ERRORS

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["Bucket", "Buckets", "ObjectStoreOptions"]

Bucket: TypeAlias = S3Store | GCSStore | AzureStore

_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class ObjectStoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access to object storage. Secrets never show in `repr`.

    Fields named after S3 concern S3 only; Google Cloud Storage and Azure take their credentials from the
    environment, by their own standard variables.
    """

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

    connect_timeout_s: float = 5.0
    """How long a connection may take."""

    answer_timeout_s: float = 6.0
    """How long storage may be silent, until it answers or in the middle of an answer. No retry starts later
    than this either, so that a call on storage that is away ends within twice the time."""

    request_timeout_s: float = 30.0
    """How long one request may take, the transfer included."""

    max_retries: int = 3
    """Retries of a request that failed for a passing reason."""

    def __post_init__(self) -> None:
        """Checks what can be checked before the first request.

        Raises:
            SettingsError: an access key without its secret or the other way round, an endpoint that is not a
                URL or whose host cannot have the bucket before it, or a time-out of zero.
        """
        if self.endpoint is not None:
            _check_endpoint(self.endpoint, path_style=self.path_style_access)
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
        return self.endpoint or next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None)

    def __repr__(self) -> str:
        """The options without secrets."""
        return (
            f"ObjectStoreOptions(region={self.region!r}, endpoint={self.endpoint!r}, "
            f"path_style_access={self.path_style_access!r}, access_key_id={self.access_key_id!r})"
        )


class Buckets:
    """Makes clients when they are first needed and keeps them, with their connections."""

    def __init__(self, options: ObjectStoreOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str, bool, bool], Bucket] = {}

    def get(self, location: Location, *, retrying: bool = True, patient: bool = False) -> Bucket:
        """The client for the bucket of a location.

        Args:
            location: any location in the bucket.
            retrying: whether the client repeats failed requests itself.
            patient: whether storage may be silent for as long as a request may take. It is while it
                receives a large file or works through a bulk request.

        Raises:
            BadRequestError: the location is not in object storage.
        """
        key = (location.scheme, location.authority, retrying, patient)
        with self._lock:
            if key not in self._open:
                client = self._client_config(patient=patient)
                retries = self._retry_config(self._options.max_retries if retrying else 0)
                self._open[key] = self._connect(location, client, retries)
            return self._open[key]

    def _connect(self, location: Location, client: ClientConfig, retries: RetryConfig) -> Bucket:
        try:
            if location.scheme == "s3":
                return _s3(location.authority, self._options, client, retries)
            if location.scheme == "gs":
                return GCSStore(location.authority, client_options=client, retry_config=retries)
            if location.scheme == "abfss":
                return _azure(location.authority, client, retries)
        except SettingsError as error:
            raise StorageUnavailableError(
                f"Access to s3://{location.authority} is not configured right in the environment: "
                f"{error.message}"
            ) from None
        except OBJECT_STORE_ERRORS:
            # The text could quote a setting that is a secret.
            storage = f"{location.scheme}://{location.authority}"
            raise StorageUnavailableError(f"Access to {storage} is not configured right") from None
        raise BadRequestError(f"Location is not in object storage: {location}")

    def _client_config(self, *, patient: bool) -> ClientConfig:
        options = self._options
        silent_s = options.request_timeout_s if patient else options.answer_timeout_s
        return {
            "connect_timeout": timedelta(seconds=options.connect_timeout_s),
            "read_timeout": timedelta(seconds=silent_s),
            "timeout": timedelta(seconds=options.request_timeout_s),
            "allow_http": (options.s3_endpoint or "").startswith("http://"),
        }

    def _retry_config(self, max_retries: int) -> RetryConfig:
        return {
            "max_retries": max_retries,
            "retry_timeout": timedelta(seconds=self._options.answer_timeout_s),
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        }


def _check_endpoint(endpoint: str, *, path_style: bool) -> None:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port  # a port that is no number fails here
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError("An S3 endpoint must be a URL as https://host:port")
    if not path_style and _is_ip_address(host):
        raise SettingsError("An S3 endpoint that is an IP address needs s3.path-style-access")


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _s3(bucket: str, options: ObjectStoreOptions, client: ClientConfig, retries: RetryConfig) -> S3Store:
    settings: dict[str, Any] = {"virtual_hosted_style_request": not options.path_style_access}
    if options.region is not None:
        settings["region"] = options.region
    endpoint = options.s3_endpoint
    if endpoint is not None:
        _check_endpoint(endpoint, path_style=options.path_style_access)
        settings["endpoint"] = _bucket_endpoint(endpoint, bucket, options.path_style_access)
    if options.access_key_id is not None:
        # Keys given as plain settings would be mixed with a session token from the environment.
        settings["credential_provider"] = _static_credentials(options)
    return S3Store(bucket, client_options=client, retry_config=retries, **settings)


def _bucket_endpoint(endpoint: str, bucket: str, path_style: bool) -> str:
    endpoint = endpoint.rstrip("/")
    if path_style:
        return endpoint
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()


def _static_credentials(options: ObjectStoreOptions) -> Callable[[], Any]:
    credentials = {
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "token": options.session_token,
        "expires_at": None,
    }
    return lambda: credentials


def _azure(authority: str, client: ClientConfig, retries: RetryConfig) -> AzureStore:
    container, host = authority.split("@")
    account, _, domain = host.partition(".dfs.")
    settings: dict[str, Any] = {"account_name": account}
    if domain != "core.windows.net":
        settings["endpoint"] = f"https://{account}.blob.{domain}"
    return AzureStore(container, client_options=client, retry_config=retries, **settings)
