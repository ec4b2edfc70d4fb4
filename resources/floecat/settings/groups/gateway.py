"""The REST service, and what it promises to clients."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from floecat.settings.fields import SettingsGroup
from floecat.settings.groups.commits import CommitSettings
from floecat.settings.groups.delta import DeltaCompatSettings
from floecat.settings.kinds import (
    Duration,
    boolean,
    choice,
    duration,
    identifier,
    integer,
    size,
    text,
    text_list,
)

__all__ = ["GatewaySettings"]

_KIB = 1 << 10
_MIB = 1 << 20
_MINUTE = Duration(60_000)


class GatewaySettings(SettingsGroup, frozen=True, kw_only=True):
    """The REST service."""

    host: Annotated[str, text()] = "127.0.0.1"
    """Address to listen on."""

    rest_port: Annotated[int, integer(maximum=65_535)] = 9200
    """Port of the REST service. 0 takes a free one."""

    workers: Annotated[int, integer(minimum=1, maximum=256)] = 1
    """Worker processes. More than one needs PostgreSQL to be of use: SQLite has one writer at a time."""

    threads: Annotated[int, integer(minimum=1, maximum=1000)] = 40
    """Threads of a worker for requests that may need object storage: the most that it works on at a time."""

    auth_mode: Annotated[str, choice("dev", "oidc")] = "dev"
    """`dev`: no login, everybody is the same principal. `oidc`: every request needs a bearer token (JWT)."""

    dev_allow_remote: Annotated[bool, boolean()] = False
    """Lets `auth-mode=dev` listen on an address that other machines reach. They then have every right."""

    allowed_hosts: Annotated[tuple[str, ...], text_list()] = ()
    """Names by which clients reach the service in `auth-mode=dev`, and the Dagster UI of `floecat up`, beside
    those of loopback and `floecat.gateway.host`: requests with another `Host` are answered 403, as web pages
    could send them. `*` allows any name. Addresses are allowed where `host` is `0.0.0.0` or `::`."""

    cors_allowed_origins: Annotated[tuple[str, ...], text_list()] = ()
    """Sites whose web pages may use the service in `auth-mode=oidc`, as `https://console.example.com`."""

    dagster_url: Annotated[str | None, text()] = None
    """Address of the Dagster UI, as `https://dagster.example.com`: the page `/` links to it."""

    auth_header: Annotated[str, text(aliases=("authHeader",))] = "authorization"
    """Header that carries `Bearer <token>`."""

    account_claim: Annotated[str, text()] = "account_id"
    """Claim of the token that names the account."""

    default_account_id: Annotated[UUID, identifier()] = UUID("5eaa9cd5-7d08-3750-9457-cfe800b0b9d2")
    """Account of `auth-mode=dev`."""

    default_prefix: Annotated[str, text()] = "floecat"
    """Catalog that paths without a prefix mean. `floecat up` creates it."""

    default_warehouse_path: Annotated[str | None, text()] = None
    """Storage location of the default catalog, as `s3://bucket/warehouse`.

    Default: the folder `warehouse` in the data folder.
    """

    namespace_separator: Annotated[str, text()] = "%1F"
    """Separator of namespace levels in paths and parameters, URL-encoded. `%1F` is always accepted too."""

    idempotency_key_lifetime: Annotated[Duration, duration()] = Duration(1_800_000)
    """Time in which a client may retry with the same `Idempotency-Key`. Told to clients by `/v1/config`."""

    idempotency_grace: Annotated[Duration, duration()] = Duration(600_000)
    """Time that the answer of a key is kept beyond the advertised one."""

    idempotency_in_progress_timeout: Annotated[Duration, duration()] = _MINUTE
    """Time after which a request that never finished no longer holds its key: a retry takes it over."""

    stage_ttl_seconds: Annotated[int, integer(floor=60)] = 900
    """Time that a staged table waits for its commit, in seconds. Less than 60 counts as 60."""

    client_locations: Annotated[str, choice("allow", "refuse")] = "allow"
    """Whether clients choose locations of namespaces, tables and views, and let tables write outside of
    theirs (`write.data.path` and the like). With `refuse`, a request may name a location of the form that the
    catalog gives, as Trino does: the folder of the namespace, and the name in it, with or without a UUID.
    Registrations bring their location with them."""

    commit: CommitSettings = CommitSettings()
    """Retries of commits."""

    delta_compat: DeltaCompatSettings = DeltaCompatSettings()
    """Delta tables that read as Iceberg tables."""

    max_request_body_bytes: Annotated[int, size()] = 10 * _MIB
    """Larger request bodies are answered 413. 10 MiB hold a schema of 100,000 columns, or a transaction of
    5,000 appends. Other requests wait while a large body is decoded, about 0.1 s with 10 MiB."""

    default_page_size: Annotated[int, integer(minimum=1)] = 1000
    """Page size of a listing that asks for pages and names no size."""

    max_page_size: Annotated[int, integer(minimum=1)] = 10_000
    """A larger page size counts as this one."""

    metrics_report_retention: Annotated[Duration, duration()] = Duration(604_800_000)
    """Time that reports of scans and commits are kept."""

    register_storage_properties: Annotated[bool, boolean()] = False
    """A registration may bring its own access to storage to read its metadata file with: `s3.endpoint`,
    `s3.region`, `s3.access-key-id` and so on in its `properties`; for Google `gcs.service.host` and
    `gcs.oauth2.token`; for Azure `adls.connection-string.<host>`, `adls.account-key`, `adls.sas-token` or a
    service principal. Off, since it lets clients choose an address that the service connects to."""

    verify_metadata_file: Annotated[bool, boolean()] = False
    """Load looks whether the metadata file is still in storage, and answers 404 if not."""

    max_metadata_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Larger metadata files are not read, and larger documents are not written."""

    gzip_metadata_above_bytes: Annotated[int, size()] = _MIB
    """Metadata files of tables are compressed with gzip, as `….gz.metadata.json`, when they would be larger
    than this. 0 compresses none. A table that sets `write.metadata.compression-codec` decides for itself."""

    plan_task_ttl: Annotated[Duration, duration(floor=_MINUTE)] = Duration(600_000)
    """Time that a scan plan is kept after it was asked for last; one that has answered everything is kept for
    a minute. Less than a minute counts as a minute."""

    plan_task_files_per_task: Annotated[int, integer(minimum=1)] = 10_000
    """Most file scan tasks in one answer. Plans with more are answered by the names of plan tasks."""

    plan_task_bytes: Annotated[int, size()] = 512 * _KIB
    """The same in bytes of JSON. Answers with long filters take up to 8 MiB. One file scan task may have half
    of `limits.working-memory-bytes`; a plan with a longer one is answered 406."""

    plan_task_read_once: Annotated[str, choice("replay", "strict")] = "replay"
    """A plan task is answered once. `replay` repeats the answer for the same `Idempotency-Key`, and within a
    minute for the same principal, so that a lost answer loses nothing. `strict` answers 404."""

    plan_sync_budget: Annotated[Duration, duration()] = Duration(1_000)
    """Time a client waits for a scan plan. One that takes longer is answered `submitted`, and made by the
    workers of `floecat.planning`. PyIceberg up to 0.12 cannot poll: it waits for 30 s, and gets 503 then."""

    scan_planning_mode: Annotated[str | None, choice("client", "server")] = None
    """Planner of the scans of tables without the property `scan-planning-mode` (of the table, or of its
    catalog): told to clients in `/v1/config` and with each table. Default: clients decide. Tables of format
    version 3 are told `client` in place of `server`: plans do not carry their row lineage."""
