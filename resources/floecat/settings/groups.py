"""The settings themselves: one struct per concern, each field followed by what it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from floecat.settings.fields import Group, named_groups
from floecat.settings.kinds import (
    Duration,
    boolean,
    choice,
    duration,
    identifier,
    integer,
    mapping,
    size,
    text,
    text_list,
)
from floecat.settings.limits import LimitSettings

__all__ = [
    "AwsSettings",
    "BackoffSettings",
    "CacheSettings",
    "CommitSettings",
    "ConnectorSettings",
    "DeltaCompatSettings",
    "EventSettings",
    "GatewaySettings",
    "LogSettings",
    "OidcSettings",
    "PlanningSettings",
    "PurgeSettings",
    "S3Settings",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "StoreSettings",
]

_MIB = 1 << 20
_GIB = 1 << 30
_MINUTE = Duration(60_000)
_DAY = Duration(86_400_000)


class BackoffSettings(Group, frozen=True, kw_only=True):
    """A bounded number of tries with a sleep between them that doubles."""

    max_attempts: Annotated[int, integer(minimum=1, maximum=1000)]
    """Tries in all."""

    initial_sleep_ms: Annotated[int, integer(maximum=60_000)]
    """Sleep before the second try. It doubles before each further one."""

    max_sleep_ms: Annotated[int, integer(maximum=600_000)]
    """The sleep never grows beyond this."""


class CommitSettings(Group, frozen=True, kw_only=True):
    """What a commit does when it meets another one, or a store that does not answer."""

    confirm: BackoffSettings = BackoffSettings(max_attempts=6, initial_sleep_ms=25, max_sleep_ms=200)
    """Looks whether a commit of unknown outcome was applied, before the answer says so."""

    replan: BackoffSettings = BackoffSettings(max_attempts=40, initial_sleep_ms=5, max_sleep_ms=500)
    """Starts again from the newest metadata when another commit changed a table of this one."""

    purge_wait_ms: Annotated[int, integer(minimum=0)] = 10_000
    """How long a commit, or a registration, waits while a purge deletes files in folders where it adds some.
    Then it is answered 503."""


class DeltaCompatSettings(Group, frozen=True, kw_only=True):
    """Delta tables that read as Iceberg tables."""

    enabled: Annotated[bool, boolean()] = True
    """Delta tables can be registered and loaded. Off, loading one is answered 406."""

    read_only: Annotated[bool, boolean()] = True
    """Delta tables take no commits here. Only `true` is served: only Delta writes its log."""

    refresh_after: Annotated[Duration, duration()] = Duration(5_000)
    """A process looks for newer versions of a table, and for missing artifacts, at most this often. `PT0S`
    looks with every load."""

    location: Annotated[str | None, text()] = None
    """Where manifests and deletes that are made for Iceberg readers go, each table in a folder of its own, as
    `s3://bucket/compat`. Nothing else may write there. Default: the folder `metadata` of each table."""

    position_delete_format: Annotated[str, choice("parquet", "avro")] = "parquet"
    """Format of position deletes (format version 2). Not every engine reads Avro ones."""

    format_version: Annotated[int, integer(minimum=2, maximum=3)] = 2
    """Iceberg format version of tables that need no higher one. 3 copies deletion vectors as they are."""

    missing_statistics: Annotated[str, choice("read", "leave-out")] = "read"
    """What is done for files whose row count is not in the log: `read` their Parquet footers, or `leave-out`
    the count, which some engines do not take."""

    unnumbered_collections: Annotated[str, choice("copy", "refuse")] = "copy"
    """What is done for data files of tables with column mapping that have field ids for columns and none for
    what is in lists and maps (no `icebergCompatV2`), where readers of Iceberg find nothing then: `copy` them
    with another footer, or `refuse` the table."""

    max_files_in_request: Annotated[int, integer(minimum=0)] = 50_000
    """Versions for which more files than this have to be opened (for deletion vectors, footers or field ids)
    are left to the pipeline. On Spark it builds those, too."""

    max_versions_in_request: Annotated[int, integer(minimum=1)] = 100
    """A load brings in at most so many versions before the newest; the pipeline brings in the others."""

    wait: Annotated[Duration, duration()] = Duration(20_000)
    """How long a load waits for a new version to be made, by this process or by the pipeline, before it is
    answered 503 with `Retry-After`."""


class GatewaySettings(Group, frozen=True, kw_only=True):
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
    """How long a client may retry with the same `Idempotency-Key`. Told to clients by `/v1/config`."""

    idempotency_grace: Annotated[Duration, duration()] = Duration(600_000)
    """How much longer than advertised the answer of a key is kept."""

    idempotency_in_progress_timeout: Annotated[Duration, duration()] = _MINUTE
    """After this time a request that never finished no longer holds its key: a retry takes it over."""

    stage_ttl_seconds: Annotated[int, integer(floor=60)] = 900
    """How long a staged table waits for its commit, in seconds. Less than 60 counts as 60."""

    commit: CommitSettings = CommitSettings()
    """Retries of commits."""

    delta_compat: DeltaCompatSettings = DeltaCompatSettings()
    """Delta tables that read as Iceberg tables."""

    max_request_body_bytes: Annotated[int, size()] = 64 * _MIB
    """Larger request bodies are answered 413."""

    default_page_size: Annotated[int, integer(minimum=1)] = 1000
    """Page size of a listing that asks for pages and names no size."""

    max_page_size: Annotated[int, integer(minimum=1)] = 10_000
    """A larger page size counts as this one."""

    metrics_report_retention: Annotated[Duration, duration()] = Duration(604_800_000)
    """How long reports of scans and commits are kept."""

    register_storage_properties: Annotated[bool, boolean()] = False
    """A registration may bring its own access to storage to read its metadata file with: the fields
    `s3.endpoint`, `s3.region`, `s3.access-key-id` and so on of its `properties`. Off, since it lets clients
    choose an address that the service connects to."""

    verify_metadata_file: Annotated[bool, boolean()] = False
    """Load looks whether the metadata file is still in storage, and answers 404 if not."""

    max_metadata_file_bytes: Annotated[int, size()] = 2 * _GIB
    """Larger metadata files are not read."""

    gzip_metadata_above_bytes: Annotated[int, size()] = _MIB
    """Metadata files of tables are compressed with gzip, as `….gz.metadata.json`, when they would be larger
    than this. 0 compresses none. A table that sets `write.metadata.compression-codec` decides for itself."""

    plan_task_ttl: Annotated[Duration, duration(floor=_MINUTE)] = Duration(600_000)
    """How long a scan plan is kept after it was asked for last; one that has answered everything is kept for
    a minute. Less than a minute counts as a minute."""

    plan_task_files_per_task: Annotated[int, integer(minimum=1)] = 128
    """Most file scan tasks in one answer. Plans with more are answered by the names of plan tasks."""

    plan_task_read_once: Annotated[str, choice("replay", "strict")] = "replay"
    """A plan task is answered once. `replay` repeats the answer for the same `Idempotency-Key`, and within a
    minute for the same principal, so that a lost answer loses nothing. `strict` answers 404."""

    plan_sync_budget: Annotated[Duration, duration()] = Duration(1_000)
    """How long a client waits for a scan plan. One that takes longer is answered `submitted`, and made by the
    workers of `floecat.planning`. PyIceberg up to 0.12 cannot poll: it waits for 30 s, and gets 503 then."""

    scan_planning_mode: Annotated[str | None, choice("client", "server")] = None
    """Who plans the scans of tables without the property `scan-planning-mode` (of the table, or of its
    catalog): told to clients in `/v1/config` and with each table. Default: clients decide."""


class StoreSettings(Group, frozen=True, kw_only=True):
    """The SQL store."""

    url: Annotated[str | None, text(secret=True)] = None
    """SQLAlchemy URL, as `postgresql+psycopg://user@host/database`. Default: SQLite in the data folder."""

    pool_size: Annotated[int, integer(minimum=1, maximum=1000)] = 40
    """Most connections of a process. Fewer than `gateway.threads` makes requests wait for each other."""

    timeout_ms: Annotated[int, integer(minimum=1)] = 10_000
    """How long a statement or a connection may take before the answer is 503."""


class S3Settings(Group, frozen=True, kw_only=True):
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


class AwsSettings(Group, frozen=True, kw_only=True):
    """Access to AWS and what speaks its protocols."""

    region: Annotated[str | None, text()] = None
    """Region of the buckets. Default: `AWS_REGION`, else `us-east-1`."""

    s3: S3Settings = S3Settings()
    """The S3 service."""


class StorageSettings(Group, frozen=True, kw_only=True):
    """Object storage and the local disk."""

    allowed_locations: Annotated[tuple[str, ...], text_list()] = ()
    """Locations that every catalog may use beside its own. Nothing else is read or written."""

    addable_locations: Annotated[tuple[str, ...], text_list()] = ()
    """Locations below which a location may be added to a catalog over HTTP. The command line may add any."""

    aws: AwsSettings = AwsSettings()
    """S3."""

    catalogs: Annotated[Mapping[str, AwsSettings], named_groups(AwsSettings)] = {}
    """S3 of single catalogs in place of `floecat.storage.aws`, by the name of the catalog, or by
    `<account id>/<name>` outside the default account: nothing of `floecat.storage.aws` is added to it.
    Catalogs share files only where the endpoint is the same, so give one service one endpoint."""

    connect_timeout_ms: Annotated[int, integer(minimum=1)] = 5_000
    """How long a connection may take."""

    answer_timeout_ms: Annotated[int, integer(minimum=1)] = 6_000
    """How long object storage may be silent: until it answers a call, and in the middle of an answer. A call
    that failed is tried again within this time. So a call ends within twice this time where storage is away,
    and a commit within 14 seconds. Uploads above 8 MiB and bulk deletes may take `request-timeout-ms`."""

    request_timeout_ms: Annotated[int, integer(minimum=1)] = 30_000
    """How long one call to object storage may take, the transfer included."""

    max_retries: Annotated[int, integer(maximum=100)] = 3
    """Retries of a call that failed for a passing reason."""

    fsync: Annotated[bool, boolean()] = True
    """Local files are on disk before a commit is answered. Off is for tests that can lose them."""


class CacheSettings(Group, frozen=True, kw_only=True):
    """Memory of each process."""

    memory: Annotated[int | None, size()] = None
    """All caches of a process together, in place of `metadata-bytes`. By default a quarter of the memory of
    the machine or its control group (cgroup), at most 1 GiB."""


class OidcSettings(Group, frozen=True, kw_only=True):
    """Validation of bearer tokens in `auth-mode=oidc`."""

    issuer: Annotated[str | None, text()] = None
    """Accepted issuer (`iss`). Its discovery document names the keys if neither of the next two is set."""

    jwks_url: Annotated[str | None, text()] = None
    """Where the issuer publishes its keys."""

    public_key: Annotated[str | None, text()] = None
    """The one key of the issuer, in PEM."""

    audience: Annotated[str | None, text()] = None
    """Accepted audience (`aud`). Default: any."""

    principal_claim: Annotated[str, text()] = "sub"
    """Claim that names the principal."""

    leeway_s: Annotated[int, integer(maximum=3_600)] = 30
    """Clock difference to the issuer that is tolerated, in seconds."""


class PurgeSettings(Group, frozen=True, kw_only=True):
    """Deletion of the files of tables that were dropped with purge."""

    enabled: Annotated[bool, boolean()] = True
    """The service works on the purge queue. Off leaves it to other processes."""

    purger: Annotated[str, text()] = "sql-async"
    """What deletes files: `sql-async` (workers), `synchronous` (the request that drops a table), or a purger
    of another package as `package.module:Class` or by the name of its entry point."""

    properties: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Properties of a purger of another package."""

    worker_threads: Annotated[int, integer(minimum=1, maximum=64)] = 4
    """Jobs that one process works on at a time."""

    delete_threads_per_job: Annotated[int, integer(minimum=1, maximum=64)] = 8
    """Bulk deletes of one job that run at a time."""

    poll_interval_ms: Annotated[int, integer(minimum=10)] = 5_000
    """How often idle workers look for jobs of other processes; a drop wakes those of its own."""

    claim_batch: Annotated[int, integer(minimum=1, maximum=64)] = 16
    """Most jobs that one look takes, and never more than threads are idle."""

    lease_timeout_ms: Annotated[int, integer(minimum=1_000)] = 300_000
    """How long a worker owns a job without renewing. It renews after a third of that."""

    max_attempts: Annotated[int, integer(minimum=1)] = 5
    """Attempts of a job before it is set aside for an operator."""

    backoff_base_ms: Annotated[int, integer(minimum=1)] = 30_000
    """Longest wait after the first failed attempt; it doubles with each further one."""

    backoff_max_ms: Annotated[int, integer(minimum=1)] = 3_600_000
    """No wait between attempts is longer."""

    completed_retention_hours: Annotated[int, integer(minimum=0)] = 168
    """How long a job is kept after its files were deleted, or after it was cancelled."""

    files_per_call: Annotated[int, integer(minimum=1, maximum=1000)] = 1000
    """Files in one call to storage."""

    large_job_files: Annotated[int, integer(minimum=1)] = 200_000
    """From this number of files on, by the counts of the manifest lists, a job is offered to Spark first."""

    large_job_offer: Annotated[Duration, duration()] = Duration(15 * 60_000)
    """How long a large job waits for Spark; then the service works on it. `PT0S` offers none."""

    orphan_grace: Annotated[Duration, duration(floor=_DAY)] = Duration(3 * 86_400_000)
    """Files that were written later than so long ago are never taken for orphans, as the commit that names
    them may be under way. Less than a day counts as a day."""


class EventSettings(Group, frozen=True, kw_only=True):
    """What happens to tables, for other packages."""

    listeners: Annotated[tuple[str, ...], text_list()] = ()
    """Functions that are called with each event, as `package.module:function`."""


class ConnectorSettings(Group, frozen=True, kw_only=True):
    """Connectors, which find tables that are in storage already."""

    kinds: Annotated[tuple[str, ...], text_list()] = ()
    """Kinds beside the built-in `delta`, as `package.module:Class`. Only these are ever imported."""


class PlanningSettings(Group, frozen=True, kw_only=True):
    """Where scan plans are made: in processes of their own, and by workers where they take long."""

    processes: Annotated[int | None, integer(maximum=256)] = None
    """Processes, at lower priority, in which scans with many bytes of manifests are planned. 0 plans all in
    the service itself. Default: one less than the machine has cores, at least one."""

    memory: Annotated[int | None, size()] = None
    """Decoded manifests that the processes keep in memory, together. Default: half of the default of
    `floecat.cache.memory`."""

    in_process_bytes: Annotated[int, size()] = 256 << 10
    """Scans whose manifests have no more bytes are planned in the service itself."""

    most_waiting: Annotated[int, integer(minimum=1)] = 100
    """Plans that may wait for a process. More are answered 503."""

    workers: Annotated[int, integer(maximum=64)] = 2
    """Plans that took longer than `floecat.gateway.plan-sync-budget` and that one process of the service goes
    on with at a time. 0 leaves them to other processes."""

    poll_interval_ms: Annotated[int, integer(minimum=10)] = 1_000
    """How often an idle worker looks for plans that other processes were asked for."""

    lease_ms: Annotated[int, integer(minimum=1_000)] = 15_000
    """How long a worker owns a plan without renewing. The plan of a worker that died starts again then."""

    max_attempts: Annotated[int, integer(minimum=1)] = 3
    """Tries of a plan before it fails."""


class SparkSettings(Group, frozen=True, kw_only=True):
    """Spark, on which the pipeline builds what many files have to be opened for."""

    master: Annotated[str | None, text()] = None
    """URL of a master, as `spark://host:7077` or `local[4]`. Default: what Spark's own configuration says,
    else all cores of the machine that the run is on."""

    remote: Annotated[str | None, text(secret=True)] = None
    """URL of a Spark Connect server, as `sc://host:15002`, instead of a master. Default: `SPARK_REMOTE`."""

    conf: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Properties of Spark, as `spark.executor.memory = "4g"`."""


class LogSettings(Group, frozen=True, kw_only=True):
    """Logs, on standard error."""

    level: Annotated[str, choice("debug", "info", "warning", "error")] = "info"
    """Least level that is written."""

    json: Annotated[bool, boolean()] = False
    """One JSON object a line instead of text."""

    file_bytes: Annotated[int, size()] = 16 * _MIB
    """A file in the folder `log` of `floecat up` that is larger becomes `NAME.1`, and a new one begins."""

    kept_files: Annotated[int, integer(minimum=1, maximum=100)] = 3
    """Older files that are kept beside each log, `NAME.1` being the newest."""


class Settings(Group, frozen=True, kw_only=True):
    """All settings of a process."""

    data_dir: Annotated[str, text()] = ".floecat"
    """Folder of everything that lives on the local disk by default."""

    gateway: GatewaySettings = GatewaySettings()
    """The REST service."""

    store: StoreSettings = StoreSettings()
    """The SQL store."""

    storage: StorageSettings = StorageSettings()
    """Object storage and the local disk."""

    cache: CacheSettings = CacheSettings()
    """Memory for what never changes."""

    oidc: OidcSettings = OidcSettings()
    """Validation of bearer tokens."""

    limits: LimitSettings = LimitSettings()
    """Bounds on what one request, file or tenant may take."""

    purge: PurgeSettings = PurgeSettings()
    """Deletion of files of dropped tables."""

    events: EventSettings = EventSettings()
    """What happens to tables, for other packages."""

    connectors: ConnectorSettings = ConnectorSettings()
    """Connectors, which find tables that are in storage already."""

    planning: PlanningSettings = PlanningSettings()
    """Scan plans."""

    spark: SparkSettings = SparkSettings()
    """Spark, on which the pipeline builds what many files have to be opened for."""

    log: LogSettings = LogSettings()
    """Logs."""

    @property
    def data_path(self) -> Path:
        """The data folder, absolute."""
        return Path(self.data_dir).expanduser().absolute()

    @property
    def embedded_store(self) -> Path | None:
        """The file of the SQLite store in the data folder; None if the URL of a store is set."""
        return None if self.store.url else self.data_path / "floecat.db"

    @property
    def store_url(self) -> str:
        """The URL of the store: the one that is set, else SQLite in the data folder."""
        return self.store.url or f"sqlite:///{quote(str(self.embedded_store))}"

    @property
    def warehouse_location(self) -> str:
        """Storage location of the default catalog: the one that is set, else a folder as `file://` URI."""
        return self.gateway.default_warehouse_path or (self.data_path / "warehouse").as_uri()
