from __future__ import annotations

import pytest

from floecat.iceberg.values.large_bytes import count_byte, find_bytes, is_blank

MIB = 1 << 20


class Watched(bytes):
    """Bytes that note how much of them is searched at once."""

    most = 0

    def _note(self, start: int, end: int) -> None:
        self.most = max(self.most, min(end, len(self)) - start)

    def find(self, wanted: bytes, start: int = 0, end: int = 1 << 62) -> int:  # type: ignore[override]
        self._note(start, end)
        return super().find(wanted, start, end)

    def count(self, wanted: bytes, start: int = 0, end: int = 1 << 62) -> int:  # type: ignore[override]
        self._note(start, end)
        return super().count(wanted, start, end)


@pytest.mark.parametrize("place", [0, 1, MIB - 3, MIB - 2, MIB - 1, MIB, MIB + 1, 3 * MIB - 3])
def test_what_crosses_blocks_is_found(place: int) -> None:
    data = Watched(b"." * place + b"key" + b"." * (3 * MIB - 3 - place))
    assert find_bytes(data, b"key") == place
    assert find_bytes(data, b"key", place) == place
    assert find_bytes(data, b"key", place + 1) == -1
    assert count_byte(data, b"k") == count_byte(data, b"k", place + 1) == 1
    assert count_byte(data, b"k", place) == 0
    # others run after at most a block
    assert 0 < data.most <= MIB + 2


def test_nothing_and_what_is_not_there() -> None:
    assert find_bytes(b"", b"a") == find_bytes(b"b", b"a") == find_bytes(b"a", b"a", 1) == -1
    assert count_byte(b"", b"a") == 0


def test_blanks() -> None:
    assert is_blank(b"")
    assert is_blank(b" \r\n" * MIB)
    assert not is_blank(b" " * 2 * MIB + b"a")
