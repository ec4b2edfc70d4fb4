"""Delta tables that read as Iceberg tables."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import Duration, boolean, choice, duration, integer, text

__all__ = ["DeltaCompatSettings"]


class DeltaCompatSettings(SettingsGroup, frozen=True, kw_only=True):
    """Delta tables that read as Iceberg tables."""

    enabled: Annotated[bool, boolean()] = True
    """Delta tables can be registered and loaded. Off, loading one is answered 406."""

    read_only: Annotated[bool, boolean()] = True
    """Delta tables take no commits here. Only `true` is served: only Delta writes its log."""

    refresh_after: Annotated[Duration, duration()] = Duration(5_000)
    """A process looks for newer versions of a table, and for missing artifacts, at most this often. `PT0S`
    looks with every load."""

    location: Annotated[str | None, text()] = None
    """Root of manifests and deletes that are made for Iceberg readers, each table in a folder of its own, as
    `s3://bucket/compat`. Nothing else may write there. Default: the folder `metadata` of each table."""

    position_delete_format: Annotated[str, choice("parquet", "avro")] = "parquet"
    """Format of position deletes (format version 2). Not every engine reads Avro ones."""

    format_version: Annotated[int, integer(minimum=2, maximum=3)] = 2
    """Iceberg format version of tables that need no higher one. 3 copies deletion vectors as they are."""

    missing_statistics: Annotated[str, choice("read", "leave-out")] = "read"
    """Way to treat files whose row count is not in the log: `read` their Parquet footers, or `leave-out` the
    count, which some engines do not take."""

    unnumbered_collections: Annotated[str, choice("copy", "refuse")] = "copy"
    """Way to treat data files of tables with column mapping that have field ids for columns and none for what
    is in lists and maps (no `icebergCompatV2`), where readers of Iceberg find nothing then: `copy` them with
    another footer, or `refuse` the table."""

    max_files_in_request: Annotated[int, integer(minimum=0)] = 50_000
    """Versions for which more files than this have to be opened (for deletion vectors, footers or field ids)
    are left to the pipeline. On Spark it builds those, too."""

    max_versions_in_request: Annotated[int, integer(minimum=1)] = 100
    """A load brings in at most so many versions before the newest; the pipeline brings in the others."""

    wait: Annotated[Duration, duration()] = Duration(20_000)
    """Longest time that a load waits for a new version to be made, by this process or by the pipeline, before
    it is answered 503 with `Retry-After`."""
