"""Keys of manifest entries: what entries are found by when files are removed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro_columns import varint
from floecat.iceberg.entry_bytes import Entries
from floecat.iceberg.string_columns import Bools
from floecat.iceberg.string_hashes import string_hashes

__all__ = ["EntryKeys"]


class EntryKeys:
    """Some keys, to be looked for in any number of manifests.

    The key of a data file is its path; that of a delete file is the path of the data file that it applies to,
    or its own if those are several.
    """

    def __init__(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Takes Arrow strings without nulls."""
        self._keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        self._hashes = string_hashes(self._keys)
        self._sorted = np.unique(self._hashes)

    def candidates(self, hashes: npt.NDArray[np.uint64]) -> Bools:
        """Which entries may have one of the keys; see `confirm`.

        Args:
            hashes: `string_hashes` of the keys of the entries.
        """
        if not len(self._sorted):
            return np.zeros(len(hashes), np.bool_)
        places = np.searchsorted(self._sorted, hashes)
        found: Bools = self._sorted[np.minimum(places, len(self._sorted) - 1)] == hashes
        return found

    def confirm(self, entries: Entries, hashes: npt.NDArray[np.uint64], candidates: Bools) -> Bools:
        """Which of the candidates have a key, rather than only the hash of one.

        Args:
            entries: the entries.
            hashes: hashes of their keys.
            candidates: what `candidates` says of these.
        """
        confirmed = candidates.copy()
        keys = self._encoded(hashes[candidates])
        starts = entries.starts
        for row in np.flatnonzero(candidates).tolist():
            entry = entries.data[starts[row] : starts[row] + entries.sizes[row]].tobytes()
            confirmed[row] = any(key in entry for key in keys[int(hashes[row])])
        return confirmed

    def _encoded(self, hashes: npt.NDArray[np.uint64]) -> dict[int, list[bytes]]:
        """The keys that have these hashes, by hash, each as Avro writes it."""
        wanted = np.isin(self._hashes, hashes)
        found: dict[int, list[bytes]] = {}
        keys = self._keys.filter(pa.array(wanted)).to_pylist()
        for key_hash, key in zip(self._hashes[wanted].tolist(), keys, strict=True):
            encoded = key.encode()
            found.setdefault(key_hash, []).append(varint(len(encoded)) + encoded)
        return found
