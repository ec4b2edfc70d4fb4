"""Which tables can be read (Delta protocol, "Table Features", "Requirements for Readers")."""

from __future__ import annotations

from typing import Final

from floecat.delta.protocol.actions import Metadata, Protocol
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError

__all__ = ["READER_FEATURES", "check_readable"]

READER_FEATURES: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Features that readers must know and that are known. What a column cannot be is for the translation to say.

Not among them: shredded variants, for engines would take the files as they are, and not all can read such.
"""

_LAST_READER_VERSION: Final = 3

_OUTSIDE_THE_LOG: Final = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Newest versions are known to another catalog only; whether named for readers or for writers."""


def check_readable(protocol: Protocol, metadata: Metadata) -> None:
    """Refuses tables that could not be read exactly.

    Args:
        protocol: the protocol in force.
        metadata: the metadata in force.

    Raises:
        UnsupportedDeltaTableError: the table needs a reader version or features that are not known, which the
            message names, or its files are not in Parquet.
        InvalidDeltaTableError: the table has no schema (yet), or a reader version that does not exist.
    """
    version = protocol.min_reader_version
    if version < 1:
        raise InvalidDeltaTableError(f"There is no Delta reader version {version}")
    unknown = set(protocol.reader_features) - READER_FEATURES
    unknown |= _OUTSIDE_THE_LOG.intersection(protocol.writer_features)
    reasons = []
    if version > _LAST_READER_VERSION:
        reasons.append(f"Delta reader version {version}")
    if unknown:
        reasons.append("table features that are not supported: " + ", ".join(sorted(unknown)))
    if reasons:
        raise UnsupportedDeltaTableError(f"Reading the table needs {' and '.join(reasons)}")
    if not metadata.schema_string:
        raise InvalidDeltaTableError("The metadata of the table has no schema")
    if metadata.format_provider.lower() != "parquet":
        raise UnsupportedDeltaTableError(
            f"Files of the table are in the format {metadata.format_provider!r}, not in Parquet"
        )
