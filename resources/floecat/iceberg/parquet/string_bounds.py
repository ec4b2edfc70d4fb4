"""Upper bounds of strings of which only the beginning is known.

Iceberg orders strings by the bytes of their UTF-8 form, unsigned, which is the order of their code points.
The successor of a prefix is the least short string above everything that starts with the prefix: its last
character is the next one. Where there is no next character the one before is taken, and so on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["successor", "successors"]

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_DELETE = 0x7F


def successor(prefix: str) -> str | None:
    """A string that no string with this prefix is above.

    Returns:
        None if there is none: the prefix is empty, or of nothing but U+10FFFF.
    """
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters: UTF-8 has no form for them.
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def successors(prefixes: pa.StringArray) -> pa.StringArray:
    """The successor of each prefix; null where there is none, and for null."""
    offsets = np.frombuffer(prefixes.buffers()[1] or bytes(4), dtype=np.int32)
    offsets = offsets[prefixes.offset : prefixes.offset + len(prefixes) + 1]
    data = np.frombuffer(prefixes.buffers()[2] or b"", dtype=np.uint8).copy()
    is_filled = prefixes.is_valid().to_numpy(zero_copy_only=False) & (np.diff(offsets) > 0)
    last = offsets[1:][is_filled] - 1
    # Nearly all end in ASCII, where the next character is the next byte.
    is_ascii = data[last] < _DELETE
    data[last[is_ascii]] += 1
    is_raised = np.zeros(len(prefixes), dtype=bool)
    is_raised[np.flatnonzero(is_filled)[is_ascii]] = True

    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    raised = pa.StringArray.from_buffers(len(prefixes), buffers[1], buffers[2])
    others = np.flatnonzero(is_filled & ~is_raised)
    found = pc.if_else(pa.array(is_raised), raised, pa.scalar(None, pa.string()))
    if not len(others):
        return found
    values = [successor(prefix) for prefix in prefixes.take(pa.array(others)).to_pylist()]
    is_other = np.zeros(len(prefixes), dtype=bool)
    is_other[others] = True
    return pc.replace_with_mask(found, pa.array(is_other), pa.array(values, pa.string()))
