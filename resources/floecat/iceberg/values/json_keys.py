"""Keys that an object has twice in large JSON.

The parser of the standard library makes all values of a document without letting other threads run: 10 MiB of
`[]` take seconds. Here numpy finds the keys, which lets others run, and no value is made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.bounds import process_bounds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["has_repeated_keys"]

_BLOCK_BYTES: Final = 256 << 10
_KEYS_AT_ONCE: Final = 10_000
_QUOTE, _COLON, _COMMA, _OPEN, _CLOSE, _BACKSLASH = b'":,{}\\'
_MARKS: Final = (_COLON, _COMMA, _OPEN, _CLOSE)


def has_repeated_keys(data: bytes, *, block_bytes: int = _BLOCK_BYTES) -> bool:
    """Whether an object in valid JSON has a key twice.

    Args:
        data: the JSON.
        block_bytes: what is looked through at once; more if a string is longer.

    Raises:
        IllegalArgumentError: a string is longer, or an object has more keys, than `floecat.limits` allows.
    """
    import numpy as np

    longest = max(process_bounds.limits.json_text_bytes, block_bytes)
    objects: list[set[bytes]] = []
    start, size = 0, block_bytes
    while start < len(data):
        block = data[start : start + size]
        # what is escaped ends no string; each block begins outside of strings
        plain = block.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in block else block
        array = np.frombuffer(plain, np.uint8)
        quotes = np.flatnonzero(array == _QUOTE)
        marks = np.flatnonzero(np.isin(array, _MARKS))
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
        end = len(block)
        if start + end < len(data):
            # a key and its colon stay together
            ends = marks[array[marks] != _COLON]
            if not len(ends):
                size *= 2
                if size > longest:
                    raise IllegalArgumentError(
                        f"holds a text of more than {longest} bytes (floecat.limits.json-text-bytes)"
                    )
                continue
            end = int(ends[-1]) + 1
            marks = marks[marks < end]
        if _repeats(_Keys(block, array, quotes, marks), objects):
            return True
        start, size = start + end, block_bytes
    return False


class _Keys:
    """The keys of a block.

    Attributes:
        starts: positions of their first bytes.
        ends: positions after their last bytes.
        braces: how many braces are before each.
        depths: nesting after each brace of the block, counted from its start.
        opening: places of opening braces among all.
    """

    def __init__(
        self,
        block: bytes,
        array: npt.NDArray[np.uint8],
        quotes: npt.NDArray[np.int64],
        marks: npt.NDArray[np.int64],
    ) -> None:
        import numpy as np

        kinds = array[marks]
        colons = marks[kinds == _COLON]
        found = np.searchsorted(quotes, colons)
        self.starts, self.ends = quotes[found - 2] + 1, quotes[found - 1]
        is_brace = (kinds == _OPEN) | (kinds == _CLOSE)
        is_open = kinds[is_brace] == _OPEN
        self.braces = np.searchsorted(marks[is_brace], colons)
        self.depths = np.cumsum(np.where(is_open, 1, -1))
        self.opening = np.flatnonzero(is_open)
        self._block = block
        self._array = array

    def suspects(self, owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Objects with an escaped key, or with two keys of one length and the same ends.

        Args:
            owner: the object of each key.
        """
        import numpy as np

        lengths = self.ends - self.starts
        escapes = np.flatnonzero(np.frombuffer(self._block, np.uint8) == _BACKSLASH)
        head, tail = np.zeros((2, len(lengths)), np.uint64)
        for place in range(8):
            within = lengths > place
            shift = np.uint64(8 * place)
            head[within] |= self._array[self.starts[within] + place].astype(np.uint64) << shift
            tail[within] |= self._array[self.ends[within] - place - 1].astype(np.uint64) << shift
        order = np.lexsort((tail, head, lengths, owner))
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for part in (owner, lengths, head, tail):
            same &= part[order][1:] == part[order][:-1]
        has_escape = np.searchsorted(escapes, self.ends) > np.searchsorted(escapes, self.starts)
        return np.unique(np.concatenate([owner[order][1:][same], owner[has_escape]]))

    def text(self, start: int, end: int) -> bytes:
        """A key, unescaped."""
        key = self._block[start:end]
        if b"\\" in key:
            return str(json.loads(b'"%b"' % key)).encode("utf-8", "surrogatepass")
        return key


def _repeats(keys: _Keys, objects: list[set[bytes]]) -> bool:
    """Adds keys to the objects that are open, outermost first, and makes these those after the block."""
    import numpy as np

    opened, count = len(objects), len(keys.depths) + 1
    depths = np.concatenate([[0], keys.depths]) + opened
    # objects by nesting, then by place: those that are open come before all of the block
    places = np.concatenate(
        [np.arange(1, opened + 1) * count, depths[keys.opening + 1] * count + keys.opening + 1]
    )
    order = np.argsort(places)
    places = places[order]

    def owners(depth: Any, braces: Any) -> Any:
        return order[np.searchsorted(places, depth * count + braces, side="right") - 1]

    owner = owners(depths[keys.braces], keys.braces) if len(keys.starts) else keys.starts
    ended = int(depths[-1])
    still_open = owners(np.arange(1, ended + 1), count - 1).tolist() if ended else []
    # most objects are in one block, and need no look at each key
    looked_at = np.isin(owner, [*range(opened), *still_open, *keys.suspects(owner).tolist()])
    by_owner = np.flatnonzero(looked_at)[np.argsort(owner[looked_at], kind="stable")]
    found: dict[int, set[bytes]] = dict(enumerate(objects))
    most = process_bounds.limits.object_keys
    for first in range(0, len(by_owner), _KEYS_AT_ONCE):
        some = by_owner[first : first + _KEYS_AT_ONCE]
        for number, start, end in zip(
            owner[some].tolist(), keys.starts[some].tolist(), keys.ends[some].tolist(), strict=True
        ):
            own, key = found.setdefault(number, set()), keys.text(start, end)
            if key in own:
                return True
            own.add(key)
            if len(own) > most:
                raise IllegalArgumentError(
                    f"an object has more than {most} keys (floecat.limits.object-keys)"
                )
    objects[:] = [found.setdefault(number, set()) for number in still_open]
    return False
