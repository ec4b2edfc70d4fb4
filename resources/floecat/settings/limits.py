"""Bounds on what one request, file or tenant may take. A refusal names its bound."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import Group
from floecat.settings.kinds import integer, size

__all__ = ["LimitSettings"]

_KIB = 1 << 10
_MIB = 1 << 20


class LimitSettings(Group, frozen=True, kw_only=True):
    """Bounds on what one request, file or tenant may take."""

    location_bytes: Annotated[int, size()] = 8 * _KIB
    """Longest storage location or path. Longer ones are answered 400."""

    percent_decoding_levels: Annotated[int, integer(minimum=1, maximum=64)] = 4
    """How often a location may be percent-encoded over itself. More levels are answered 400."""

    data_file_footer_bytes: Annotated[int, size()] = 8 * _MIB
    """Largest Parquet footer of a data file that a load of a Delta table reads. With larger ones, loads are
    answered 503, and the pipeline or `floecat table refresh` builds the table."""

    deleted_rows: Annotated[int, integer(minimum=1)] = 100_000_000
    """Most rows that a load of a Delta table writes into position deletes, of all versions that it adds. With
    more, see `data-file-footer-bytes`."""

    deletion_vector_bytes: Annotated[int, size()] = 128 * _MIB
    """Most bytes of deletion vectors that a load of a Delta table reads, of all versions that it adds. With
    more, see `data-file-footer-bytes`."""

    copied_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Largest data file that a load of a Delta table copies (see `unnumbered-collections`). With larger ones,
    see `data-file-footer-bytes`."""

    inflated_file_bytes: Annotated[int, size()] = 512 * _MIB
    """Most bytes that a compressed metadata file, manifest or manifest list may inflate to."""

    metrics_report_bytes: Annotated[int, size()] = _MIB
    """Largest metrics report, as reports are kept in the store. Larger ones are answered 413."""

    working_memory_bytes: Annotated[int, size()] = 128 * _MIB
    """Request bodies and inflated metadata documents that a process works on at once, by their size; the work
    takes several times as much memory. Up to 1 MiB of a request is not counted; one that needs more than all
    of this runs alone. What does not fit waits."""

    working_memory_wait_ms: Annotated[int, integer(minimum=0)] = 10_000
    """How long a request waits for its part of `working-memory-bytes`. Then it is answered 503."""
