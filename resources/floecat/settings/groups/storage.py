"""Object storage and the local disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from floecat.settings.fields import SettingsGroup, named_groups
from floecat.settings.kinds import boolean, choice, integer, text, text_list

__all__ = [
    "AdlsSettings",
    "AuthoritySettings",
    "AwsSettings",
    "CatalogAccessSettings",
    "GcsSettings",
    "S3Settings",
    "StorageSettings",
]


class S3Settings(SettingsGroup, frozen=True, kw_only=True):
    """The S3 service that the catalog itself reads from and writes to."""

    endpoint: Annotated[str | None, text()] = None
    """URL of an S3-compatible service. Default: AWS."""

    path_style_access: Annotated[bool, boolean()] = False
    """Bucket in the path instead of in the host name."""

    access_key_id: Annotated[str | None, text()] = None
    """Access key. Default: the standard AWS sources (environment, web identity, instance role)."""

    secret_access_key: Annotated[str | None, text(secret=True)] = None
    """Secret of the access key."""

    session_token: Annotated[str | None, text(secret=True)] = None
    """Token of a temporary access key."""


class AwsSettings(SettingsGroup, frozen=True, kw_only=True):
    """Access to AWS and what speaks its protocols."""

    region: Annotated[str | None, text()] = None
    """Region of the buckets. Default: `AWS_REGION`, else `us-east-1`."""

    s3: S3Settings = S3Settings()
    """The S3 service."""


class GcsSettings(SettingsGroup, frozen=True, kw_only=True):
    """Access to Google Cloud Storage."""

    project_id: Annotated[str | None, text()] = None
    """Project, which clients are told."""

    endpoint: Annotated[str | None, text()] = None
    """URL of a compatible service. Default: `GOOGLE_BASE_URL`, else Google."""

    service_account_file: Annotated[str | None, text()] = None
    """JSON file with the key of a service account. Default: the standard Google sources (environment, default
    credentials, metadata server)."""

    service_account_key: Annotated[str | None, text(secret=True)] = None
    """The content of such a file, in its place."""

    token: Annotated[str | None, text(secret=True)] = None
    """OAuth 2 token, in their place. It is not renewed."""


class AdlsSettings(SettingsGroup, frozen=True, kw_only=True):
    """Access to Azure Data Lake Storage."""

    endpoint: Annotated[str | None, text()] = None
    """URL of a compatible service that has the account in the path, as Azurite. Default: Azure, in the domain
    that the location names."""

    account_key: Annotated[str | None, text(secret=True)] = None
    """Key of the account, which the location names. Default: the standard Azure sources (environment,
    workload identity, managed identity)."""

    sas_token: Annotated[str | None, text(secret=True)] = None
    """Shared access signature, in place of a key."""

    tenant_id: Annotated[str | None, text()] = None
    """Tenant of a service principal, in place of a key."""

    client_id: Annotated[str | None, text()] = None
    """Application id of the service principal."""

    client_secret: Annotated[str | None, text(secret=True)] = None
    """Secret of the service principal."""


class CatalogAccessSettings(AwsSettings, frozen=True, kw_only=True):
    """Access of one catalog."""

    gcs: GcsSettings = GcsSettings()
    """Google Cloud Storage."""

    adls: AdlsSettings = AdlsSettings()
    """Azure Data Lake Storage."""


class AuthoritySettings(SettingsGroup, frozen=True, kw_only=True):
    """Storage authorities, which make keys for clients."""

    roles: Annotated[tuple[str, ...], text_list()] = ()
    """Roles that an authority may have over HTTP with keys of the service (`keys-of`): an ARN is lent to the
    default account, `<account id>=<ARN>` to that one. The command line may name any."""

    endpoints: Annotated[tuple[str, ...], text_list()] = ()
    """URLs that an authority may have over HTTP as an endpoint, beside those in `floecat.storage` and the
    clouds' own. The command line may name any."""

    web_identity_token_file: Annotated[str | None, text()] = None
    """File with the token of the service for `AssumeRoleWithWebIdentity`. Default:
    `AWS_WEB_IDENTITY_TOKEN_FILE`."""

    timeout_ms: Annotated[int, integer(minimum=1)] = 5_000
    """Longest time to make keys; then the answer is 503."""

    calls_at_once: Annotated[int, integer(minimum=1, maximum=100)] = 8
    """Keys that a process has one authority make at the same time. Others wait, so that an authority that is
    slow holds few threads."""


class StorageSettings(SettingsGroup, frozen=True, kw_only=True):
    """Object storage and the local disk."""

    allowed_locations: Annotated[tuple[str, ...], text_list()] = ()
    """Locations that every catalog may use beside its own. Nothing else is read or written."""

    addable_locations: Annotated[tuple[str, ...], text_list()] = ()
    """Locations below which a location may be added to a catalog over HTTP. The command line may add any."""

    overlapping_locations: Annotated[str, choice("refuse", "allow")] = "refuse"
    """Tables and views below a storage authority whose folders contain each other: `refuse` makes none,
    and reads no files in them for each other. With `allow` the outer one is loaded without keys, as where two
    are there already."""

    aws: AwsSettings = AwsSettings()
    """S3."""

    gcs: GcsSettings = GcsSettings()
    """Google Cloud Storage."""

    adls: AdlsSettings = AdlsSettings()
    """Azure Data Lake Storage."""

    catalogs: Annotated[Mapping[str, CatalogAccessSettings], named_groups(CatalogAccessSettings)] = {}
    """Access of single catalogs in place of `floecat.storage.aws`, `gcs` and `adls`, by the name of the
    catalog, or by `<account id>/<name>` outside the default account: nothing of those is added to it.
    Catalogs share files only where the endpoint is the same, so give one service one endpoint."""

    authorities: AuthoritySettings = AuthoritySettings()
    """Keys for clients."""

    connect_timeout_ms: Annotated[int, integer(minimum=1)] = 5_000
    """Longest time to connect."""

    answer_timeout_ms: Annotated[int, integer(minimum=1)] = 6_000
    """Longest silence of object storage: until it answers a call, and in the middle of an answer. A call that
    failed is tried again within this time. So a call ends within twice this time where storage is away, and a
    commit within 14 seconds. Uploads above 8 MiB and bulk deletes may take `request-timeout-ms`."""

    request_timeout_ms: Annotated[int, integer(minimum=1)] = 30_000
    """Longest time of one call to object storage, the transfer included."""

    max_retries: Annotated[int, integer(maximum=100)] = 3
    """Retries of a call that failed for a passing reason."""

    fsync: Annotated[bool, boolean()] = True
    """Local files are on disk before a commit is answered. Off is for tests that can lose them."""
