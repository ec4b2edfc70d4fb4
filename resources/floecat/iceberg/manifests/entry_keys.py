"""Keys of manifest entries: what entries are found by when files are removed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.columns import varint
from floecat.iceberg.avro.string_columns import Bools
from floecat.iceberg.avro.string_hashes import string_hashes
from floecat.iceberg.manifests.entry_bytes import Entries

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

    def chosen(self, rows: npt.NDArray[np.int64]) -> EntryKeys:
        """Some of the keys, by their place, without computing anything anew."""
        some = copy(self)
        some._keys = self._keys.take(pa.array(rows))
        some._hashes = self._hashes[rows]
        some._sorted = np.unique(some._hashes)
        return some

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
        confirmed = np.zeros(len(candidates), np.bool_)
        confirmed[[row for row, _, _ in self.find(entries, hashes, candidates)]] = True
        return confirmed

    def find(
        self, entries: Entries, hashes: npt.NDArray[np.uint64], candidates: Bools
    ) -> Iterator[tuple[int, str, bytes]]:
        """The candidates that have a key: row, key and bytes of each; arguments as of `confirm`."""
        keys = self._encoded(hashes[candidates])
        starts = entries.starts
        for row in np.flatnonzero(candidates).tolist():
            entry = entries.data[starts[row] : starts[row] + entries.sizes[row]].tobytes()
            for key, encoded in keys[int(hashes[row])]:
                if encoded in entry:
                    yield row, key, entry
                    break

    def _encoded(self, hashes: npt.NDArray[np.uint64]) -> dict[int, list[tuple[str, bytes]]]:
        """The keys that have these hashes, by hash, each also as Avro writes it."""
        wanted = np.isin(self._hashes, hashes)
        found: dict[int, list[tuple[str, bytes]]] = {}
        keys = self._keys.filter(pa.array(wanted)).to_pylist()
        for key_hash, key in zip(self._hashes[wanted].tolist(), keys, strict=True):
            encoded = key.encode()
            found.setdefault(key_hash, []).append((key, varint(len(encoded)) + encoded))
        return found
