"""Connected clients, one for each bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from floecat.errors import BadRequestError, SettingsError, StorageUnavailableError
from floecat.fileio.endpoints import check_s3_endpoint
from floecat.fileio.locations import Location
from floecat.fileio.object_failures import OBJECT_STORE_ERRORS
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["Bucket", "Buckets"]

Bucket: TypeAlias = S3Store | GCSStore | AzureStore

_GOOGLE: Final = "https://storage.googleapis.com"


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
                client = self._client_config(location.scheme, patient=patient)
                retries = self._retry_config(self._options.max_retries if retrying else 0)
                self._open[key] = self._connect(location, client, retries)
            return self._open[key]

    def _connect(self, location: Location, client: ClientConfig, retries: RetryConfig) -> Bucket:
        try:
            if location.scheme == "s3":
                return _s3(location.authority, self._options, client, retries)
            if location.scheme == "gs":
                return _gcs(location.authority, self._options.gcs, client, retries)
            if location.scheme == "abfss":
                return _azure(location.authority, self._options.adls, client, retries)
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

    def _client_config(self, scheme: str, *, patient: bool) -> ClientConfig:
        options = self._options
        silent_s = options.request_timeout_s if patient else options.answer_timeout_s
        return {
            "connect_timeout": timedelta(seconds=options.connect_timeout_s),
            "read_timeout": timedelta(seconds=silent_s),
            "timeout": timedelta(seconds=options.request_timeout_s),
            "allow_http": (options.service(scheme) or "").startswith("http://"),
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


def _s3(bucket: str, options: ObjectStoreOptions, client: ClientConfig, retries: RetryConfig) -> S3Store:
    settings: dict[str, Any] = {"virtual_hosted_style_request": not options.path_style_access}
    if options.region is not None:
        settings["region"] = options.region
    endpoint = options.s3_endpoint
    if endpoint is not None:
        check_s3_endpoint(endpoint, path_style=options.path_style_access)
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


def _gcs(bucket: str, options: GcsOptions, client: ClientConfig, retries: RetryConfig) -> GCSStore:
    settings: dict[str, Any] = {"base_url": (options.service or _GOOGLE).rstrip("/")}
    if options.token is not None:
        credentials = {"token": options.token, "expires_at": None}
        settings["credential_provider"] = lambda: credentials
    elif options.service_account_key is not None:
        settings["service_account_key"] = options.service_account_key
    elif options.service_account_file is not None:
        settings["service_account"] = options.service_account_file
    return GCSStore(bucket, client_options=client, retry_config=retries, **settings)


def _azure(authority: str, options: AdlsOptions, client: ClientConfig, retries: RetryConfig) -> AzureStore:
    container, host = authority.split("@")
    account, _, domain = host.partition(".dfs.")
    own = f"{options.endpoint.rstrip('/')}/{account}" if options.endpoint else None
    settings: dict[str, Any] = {
        "account_name": account,
        "endpoint": own or f"https://{account}.blob.{domain}",
    }
    # The type keeps credentials of the environment from taking precedence.
    if options.account_key is not None:
        settings |= {"credential_type": "access_key", "account_key": options.account_key}
    elif options.sas_token is not None:
        settings |= {"credential_type": "sas_token", "sas_key": options.sas_token}
    elif options.client_secret is not None:
        settings |= {
            "credential_type": "client_secret",
            "tenant_id": options.tenant_id,
            "client_id": options.client_id,
            "client_secret": options.client_secret,
        }
    return AzureStore(container, client_options=client, retry_config=retries, **settings)
