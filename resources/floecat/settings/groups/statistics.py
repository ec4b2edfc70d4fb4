"""Statistics of snapshots."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import Duration, boolean, choice, duration, integer, size

__all__ = ["StatisticsSettings"]

_MIB = 1 << 20


class StatisticsSettings(SettingsGroup, frozen=True, kw_only=True):
    """Capture of statistics: rows, nulls, bounds and distinct values of what is committed.

    The properties `floecat.statistics.enabled`, `.snapshots`, `.columns`, `.first-columns`, `.expressions`
    and `.publish` of a table, or of its catalog, take precedence.
    """

    enabled: Annotated[bool, boolean()] = True
    """Commits are captured by themselves. Off, only what is asked for is captured."""

    snapshots: Annotated[str, choice("latest", "all")] = "latest"
    """Snapshots that are captured: the `latest` of a table, or `all` that it has."""

    first_columns: Annotated[int, integer(minimum=0)] = 32
    """Number of columns captured of a table that names none, in the order of its schema. 0 is all."""

    publish: Annotated[str, choice("recent", "always", "never")] = "recent"
    """Tables that get an Iceberg statistics file with each captured snapshot, by a commit of its own: those
    with a commit in the last day (`recent`), all, or none."""

    publish_after: Annotated[Duration, duration()] = Duration(60_000)
    """Time that a table must have had no commit, and no load by a client that may commit, before a
    statistics file is published: a commit in between fails schema changes of Java and Spark. Loads count
    for less the longer nobody commits, so that tables are published that are read all the time. `PT0S`
    publishes at once."""

    workers: Annotated[int, integer(maximum=64)] = 1
    """Captures, and groups of files, that one process of the service works on at a time. 0 leaves them to the
    pipeline."""

    poll_interval_ms: Annotated[int, integer(minimum=10)] = 500
    """Time between two looks of the service for new commits and for captures."""

    lease_ms: Annotated[int, integer(minimum=1_000)] = 60_000
    """Time that a worker owns a capture without renewing. The capture of a worker that died goes on then."""

    max_attempts: Annotated[int, integer(minimum=1)] = 8
    """Attempts of a capture before it is set aside for an operator."""

    backoff_base_ms: Annotated[int, integer(minimum=1)] = 500
    """Longest wait after the first failed attempt; it doubles with each further one."""

    backoff_max_ms: Annotated[int, integer(minimum=1)] = 30_000
    """Longest wait between attempts."""

    completed_retention_hours: Annotated[int, integer(minimum=0)] = 72
    """Time that the job of a capture is kept after it succeeded or was cancelled."""

    files_per_group: Annotated[int, integer(minimum=1, maximum=1_000)] = 128
    """Data files that are captured, and whose statistics are stored, together."""

    groups_per_capture: Annotated[int, integer(minimum=1)] = 10_000
    """Most groups of files that one capture reads. Data files that are left are named as missing, and the
    next capture goes on."""

    single_group_bytes: Annotated[int, size()] = 64 * _MIB
    """A capture that has to read no more bytes, of no more files than a group, is one step of one worker."""

    in_process_bytes: Annotated[int, size()] = 8 * _MIB
    """Bytes of up to 16 data files together that are read in the process of the service, if it is known
    that they decode to little; others in one of its own, at lower priority, so that requests do not wait
    for them."""

    memory_bytes: Annotated[int, size()] = 256 * _MIB
    """Bytes that a worker may hold of a data file and its deletes at a time. A file that needs more is left
    out, and named."""

    file_processor_time: Annotated[Duration, duration(floor=Duration(1_000))] = Duration(5 * 60_000)
    """Processor time, of all threads together, that reading a data file and its deletes may take. A file that
    takes more is left out, and named."""

    large_capture_bytes: Annotated[int, size()] = 10_240 * _MIB
    """Bytes of the files to be read from which on a capture is offered to Spark first."""

    large_capture_offer: Annotated[Duration, duration()] = Duration(15 * 60_000)
    """Time that a large capture waits for Spark; then the service works on it. `PT0S` offers none."""

    sidecar_retention: Annotated[Duration, duration()] = Duration(7 * 86_400_000)
    """Time that statistics of data files are kept that no captured snapshot needed since."""
