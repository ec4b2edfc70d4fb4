"""Bounds on what one request, file or tenant may take. A refusal names its bound."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import Duration, duration, integer, size

__all__ = ["LimitSettings"]

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30


class LimitSettings(SettingsGroup, frozen=True, kw_only=True):
    """Bounds on what one request, file or tenant may take."""

    location_bytes: Annotated[int, size()] = 8 * _KIB
    """Longest storage location or path. Longer ones are answered 400."""

    percent_decoding_levels: Annotated[int, integer(minimum=1, maximum=64)] = 4
    """Most times that a location may be percent-encoded over itself. More levels are answered 400."""

    nesting: Annotated[int, integer(minimum=16, maximum=400)] = 400
    """Most levels of arrays and objects in a request or a metadata document; the deepest schema needs 3 for
    each of its 128 levels. More are answered 400."""

    json_text_bytes: Annotated[int, size()] = 16 * _MIB
    """Longest text, or stretch of blanks, in a metadata document. Longer ones are answered 400."""

    object_keys: Annotated[int, integer(minimum=1)] = 1_000_000
    """Most keys of an object in a metadata document. More are answered 400."""

    definition_bytes: Annotated[int, size()] = 64 * _MIB
    """Most bytes of each log in a table's metadata, and of all that is no log and no snapshot: schemas,
    specs, references, properties, statistics. Reading these takes up to 18 times as much memory. Larger
    documents are refused."""

    snapshots: Annotated[int, integer(minimum=1)] = 1_000_000
    """Most snapshots of a table. Documents with more are refused."""

    schema_name_bytes: Annotated[int, size()] = 64 * _MIB
    """Most bytes of the full names of the nested fields of a schema together, which may be many times as long
    as the schema. Larger schemas are answered 400."""
    elements: Annotated[int, integer(minimum=1)] = 100_000
    """Most elements of an array and keys of an object in a request, and most properties that a request may
    give a table or view; in all, a request may have ten times as many elements. More are answered 400: while
    elements are decoded, no other request is worked on."""

    principals: Annotated[int, integer(minimum=1)] = 100_000
    """Most principals of an account. Further ones may log in, but get no row, and own nothing."""

    roles: Annotated[int, integer(minimum=1)] = 10_000
    """Most roles of an account."""

    role_members: Annotated[int, integer(minimum=1)] = 100_000
    """Most members of all roles of an account together."""

    storage_authorities: Annotated[int, integer(minimum=1)] = 100
    """Most storage authorities of an account."""

    grants: Annotated[int, integer(minimum=1)] = 10_000
    """Most grants on one thing; a decision reads those on what a table is in, once access has changed."""

    recorded_refusals: Annotated[int, integer(minimum=1)] = 10_000
    """Most recorded refusals of an account; the oldest go. See `floecat.auth.record-refusals`."""

    access_file_bytes: Annotated[int, size()] = 16 * _MIB
    """Largest file of `floecat access apply`."""

    token_nesting: Annotated[int, integer(minimum=4, maximum=400)] = 64
    """Most levels of arrays and objects in a bearer token. More are answered 401."""

    issuer_document_bytes: Annotated[int, size()] = _MIB
    """Largest key set or discovery document of a token issuer. A larger one is not read, and the keys that
    are known stay."""

    issuer_keys: Annotated[int, integer(minimum=1)] = 100
    """Most keys in the key set of a token issuer; each of them is tried for a token that names none. A larger
    set is not taken, and the keys that are known stay."""

    delta_log_bytes: Annotated[int, size()] = 16 * _GIB
    """Most bytes that the log files and deletion vectors of a version of a Delta table may decode to. Larger
    tables are refused."""

    delta_log_bytes_in_request: Annotated[int, size()] = 256 * _MIB
    """The same for a load; deletion vectors count eight times there, as they are decoded. With more, see
    `data-file-footer-bytes`."""

    delta_line_bytes_in_request: Annotated[int, size()] = 32 * _MIB
    """Longest line of a Delta log with protocol, metadata or provenance that a load reads; `elements` bounds
    it there as well. With more, see `data-file-footer-bytes`."""

    delta_schema_bytes_in_request: Annotated[int, size()] = 4 * _MIB
    """Most characters of the schemas, of all versions, that a load of a Delta table translates. With more,
    see `data-file-footer-bytes`."""

    delta_log_files: Annotated[int, integer(minimum=1)] = 1_000_000
    """Most files in the log of a Delta table. Tables with more are refused."""

    delta_header_bytes: Annotated[int, size()] = 16 * _MIB
    """Most bytes of protocol, metadata and sidecars in one file of a Delta log. Files with more count as
    damaged."""

    checkpoint_footer_bytes: Annotated[int, size()] = 16 * _MIB
    """Longest Parquet footer of a Delta checkpoint or sidecar. Files with longer ones count as damaged."""

    delta_footer_bytes: Annotated[int, size()] = 64 * _MIB
    """Largest Parquet footer of a data file that the pipeline reads for a Delta table. Versions that need
    larger ones are refused."""

    data_file_footer_bytes: Annotated[int, size()] = 8 * _MIB
    """Largest Parquet footer of a data file that a load of a Delta table reads. With larger ones, loads are
    answered 503, and the pipeline or `floecat table refresh` builds the table. Statistics leave out data
    files with larger ones."""

    footer_bytes_in_request: Annotated[int, size()] = 512 * _MIB
    """Most bytes of Parquet footers of data files that a load of a Delta table reads, of all versions that it
    adds. With more, see `data-file-footer-bytes`."""

    deleted_rows: Annotated[int, integer(minimum=1)] = 100_000_000
    """Most rows that a load of a Delta table writes into position deletes, of all versions that it adds. With
    more, see `data-file-footer-bytes`."""

    deletion_vector_bytes: Annotated[int, size()] = 128 * _MIB
    """Most bytes of deletion vectors that a load of a Delta table reads, of all versions that it adds. With
    more, see `data-file-footer-bytes`. Also the largest deletion vector or delete file that statistics read;
    they leave out data files with larger ones."""

    copied_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Largest data file that a load of a Delta table copies (see `unnumbered-collections`). With larger ones,
    see `data-file-footer-bytes`."""

    inflated_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Most bytes that a compressed metadata file, manifest or manifest list may inflate to, and largest
    column chunk that a page index is built of."""

    metrics_report_bytes: Annotated[int, size()] = _MIB
    """Largest metrics report, as reports are kept in the store. Larger ones are answered 413."""

    metrics_reports_bytes: Annotated[int, size()] = 256 * _MIB
    """Most bytes of metrics reports that are kept of a catalog, as the store has them. The oldest go first,
    within minutes."""

    record_page_bytes: Annotated[int, size()] = 16 * _MIB
    """Most bytes of the records in one answer of a listing: statistics, constraints, index artifacts, purges,
    captures, connectors, catalogs. A page has one in any case, and ends before the one that would exceed
    this. Pages of more than 1 MiB are made one at a time; while two of an account wait, further ones of it
    are answered 503."""

    manifest_bytes: Annotated[int, size()] = 128 * _MIB
    """Largest manifest or manifest list that is read, and largest Avro data file that statistics read."""

    manifest_block_bytes: Annotated[int, size()] = 64 * _MIB
    """Most bytes that one block of a manifest or manifest list may inflate to."""

    manifest_index_bytes: Annotated[int, size()] = 128 * _MIB
    """Most bytes that the index in a manifest of a Delta table may inflate to."""

    manifest_entries: Annotated[int, integer(minimum=1)] = 5_000_000
    """Most entries of a manifest or manifest list."""

    manifest_block_entries: Annotated[int, integer(minimum=1)] = 250_000
    """Most entries in one block of a manifest or manifest list."""

    manifest_items: Annotated[int, integer(minimum=1)] = 500_000
    """Most items of lists and maps in a manifest or manifest list. Of entries that are decoded together (8
    MiB or 24,576 entries) the one with the most items counts."""

    manifest_schema_bytes: Annotated[int, size()] = 8 * _MIB
    """Longest Avro schema of a manifest or manifest list."""

    manifest_schema_types: Annotated[int, integer(minimum=1)] = 20_000
    """Most types in the Avro schema of a manifest or manifest list, references resolved."""

    manifest_schema_depth: Annotated[int, integer(minimum=1, maximum=64)] = 32
    """Deepest nesting of the Avro schema of a manifest or manifest list."""

    table_manifests: Annotated[int, integer(minimum=1)] = 500_000
    """Most manifests of one table that a purge reads, its own or those of a table that may share files."""

    earlier_metadata_files: Annotated[int, integer(minimum=0)] = 10_000
    """Most earlier metadata files of a dropped table that its purge reads, newest first, for the expired
    snapshots and replaced statistics that only they name. Further ones are deleted unread, and the purge says
    so."""

    connector_folders: Annotated[int, integer(minimum=1)] = 1_000_000
    """Most folders that a scan of a connector looks into. One that needs more ends there; `exclude` and
    `max-depth` of the connector leave folders out."""

    connector_tables: Annotated[int, integer(minimum=1)] = 100_000
    """Most tables that a scan of a connector finds, with places that cannot be read. It ends with more."""

    connector_report_bytes: Annotated[int, size()] = 64 * _MIB
    """Most bytes of names, locations and problems in the report of a scan of a connector. The scan ends with
    more."""

    connector_scan_time: Annotated[Duration, duration()] = Duration(3_600_000)
    """Longest time of a scan of a connector; then it ends, and the next one is due. Until it has ended, a
    request for another scan of the account is answered 503."""

    connectors: Annotated[int, integer(minimum=1)] = 1000
    """Most connectors of a catalog."""

    event_schema_bytes: Annotated[int, size()] = 256 * _KIB
    """Most bytes of columns in an event of a table, with their names, types and comments; Dagster keeps them
    with every commit. Further columns are only counted."""

    view_sql_bytes: Annotated[int, size()] = 64 * _KIB
    """Most SQL of a view, of all its dialects, that is searched for the tables that it reads: lineage in
    Dagster. Dialects after that name none."""

    view_sources: Annotated[int, integer(minimum=1)] = 200
    """Most tables that a view comes from in Dagster's lineage: the first that its SQL names."""

    open_queries: Annotated[int, integer(minimum=1)] = 10_000
    """Most open queries and scan plans of a catalog. More are answered 503. A plan that fits one answer is
    not open once it is answered."""

    open_queries_per_principal: Annotated[int, integer(minimum=1)] = 2_000
    """The same for one principal."""

    working_memory_bytes: Annotated[int, size()] = 128 * _MIB
    """Request bodies and inflated metadata documents that a process works on at once, by their size; the work
    takes several times as much memory. Up to 1 MiB of a request is not counted; one that needs more than all
    of this runs alone. What does not fit waits. Of requests with bodies of more than 1 MiB, one is worked on
    at a time. Loads that rebuild Delta tables share as much again, for decoded logs and Parquet footers: they
    may take long, and no other request waits for them."""

    working_memory_wait_ms: Annotated[int, integer(minimum=0)] = 10_000
    """Longest time that a request waits for its part of `working-memory-bytes`, or for its turn; accounts
    take turns. Then it is answered 503. So is one that others wait for while its body still comes after half
    of this time."""

    threads_without_storage: Annotated[int, integer(minimum=1, maximum=1000)] = 10
    """Threads of a worker for requests that need no object storage, beside `gateway.threads`: listings,
    existence, namespaces, and loads that the store answers. They go on while storage hangs."""

    threads_per_storage_percent: Annotated[int, integer(minimum=1, maximum=100)] = 75
    """Share of `gateway.threads` that requests to catalogs on one S3 endpoint, cloud or local disk take at a
    time: while it hangs, catalogs elsewhere go on. Several take less each, and leave threads for others.
    Further requests wait, then are answered 503."""

    waiting_loads: Annotated[int, integer(minimum=1)] = 20
    """Most loads of Delta tables that wait at a time until a new version is made. Each keeps a thread.
    Further ones are answered 503 at once."""

    threads_for_logins: Annotated[int, integer(minimum=1, maximum=1000)] = 4
    """Threads of a worker that verify bearer tokens, which may wait for the keys of the issuer."""

    threads_for_catalogs: Annotated[int, integer(minimum=1, maximum=1000)] = 16
    """Threads of a worker for requests that ask other catalogs: scans, comparisons and trials of connectors,
    and adoptions. An account has one of each at a time. Other requests go on while those catalogs hang."""

    queue_wait_ms: Annotated[int, integer(minimum=1)] = 10_000
    """Longest time that a request waits for a thread. Then it is answered 503."""

    queued_requests: Annotated[int, integer(minimum=1)] = 1000
    """Most requests of a worker that wait for a thread: of those that may need object storage, of those that
    do not, and of logins. Accounts take turns. More are answered 503 at once: those of the account with most
    waiting."""

    catalog_locations: Annotated[int, integer(minimum=1)] = 1000
    """Most allowed locations of a catalog beside its storage location. Each is compared with every location
    that a request names, and purges compare those of all catalogs."""

    namespace_property_bytes: Annotated[int, size()] = _MIB
    """Most bytes of all properties of a namespace, or of a catalog. More are answered 400."""

    head_bytes: Annotated[int, size()] = 64 * _KIB
    """Most bytes of the path and the headers of a request. Larger ones are answered 431."""

    headers: Annotated[int, integer(minimum=1)] = 100
    """Most headers of a request. More are answered 431."""

    head_timeout: Annotated[Duration, duration()] = Duration(30_000)
    """Longest time for path and headers of a request; then it is answered 408, and the connection closed."""

    body_bytes_per_second: Annotated[int, size()] = _KIB
    """Least rate at which a client sends a body or takes an answer, after `head-timeout`."""

    discarded_bytes: Annotated[int, size()] = 64 * _MIB
    """Most bytes that are read and discarded from a client that goes on sending after its request was
    refused or answered, so that it can read the answer. With more, the connection is reset. After a refusal
    it ends within 3 s in any case."""

    pipelined_requests: Annotated[int, integer(minimum=1)] = 32
    """Most requests that a connection may send before the first is answered. More end it."""

    connections: Annotated[int, integer(minimum=1)] = 2048
    """Most connections of clients to a worker. A new one takes the place of the one that is idle longest,
    else of the one whose body has been coming for longest, which is answered 503."""

    reserved_descriptors: Annotated[int, integer()] = 256
    """File descriptors of a worker (`ulimit -n`) that client connections leave free; at most half."""

    shutdown_grace: Annotated[Duration, duration()] = Duration(30_000)
    """Time that running requests have after SIGTERM. 5 s later the process ends, whatever runs."""
