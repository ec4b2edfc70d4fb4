"""Limits on what is read from a file that other software wrote."""

from __future__ import annotations

import msgspec

__all__ = ["DEFAULT_BOUNDS", "Bounds"]

_MIB = 1024 * 1024


class Bounds(msgspec.Struct, frozen=True):
    """How much of a file a reader takes in. A file beyond a limit is refused with an error that names it.

    Attributes:
        max_file_bytes: size of the file.
        max_block_bytes: size of one block of it after decompression.
        max_inflated_bytes: size of all blocks after decompression.
        max_inflation: times a block may grow by decompression. Deflate cannot exceed 1,032; only a block
            made to exhaust memory exceeds this in other codecs. Blocks of up to 1 MiB are exempt.
        max_entries: records of the file.
        max_schema_nodes: types in the schema of the file, references resolved.
        max_depth: nesting of the schema.
    """

    max_file_bytes: int = 512 * _MIB
    max_block_bytes: int = 256 * _MIB
    max_inflated_bytes: int = 16 * 1024 * _MIB
    max_inflation: int = 1100
    max_entries: int = 50_000_000
    max_schema_nodes: int = 20_000
    max_depth: int = 32


DEFAULT_BOUNDS = Bounds()
