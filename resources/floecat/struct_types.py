"""Struct classes, prepared for decoding before several threads decode them.

msgspec works out what a class looks like when the class is first decoded. A second thread that decodes it at
the same time, or a class that contains it, finds half of that and crashes the process (msgspec 0.22). So
whoever imports modules after threads have started calls `prepare_struct_types` before it uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from weakref import WeakSet

import msgspec

__all__ = ["prepare_struct_types"]

_lock = Lock()
_prepared: WeakSet[type] = WeakSet()


def prepare_struct_types() -> None:
    """Prepares all classes that are new since the last call. Thread-safe; cheap if there are none."""
    with _lock:
        for kind in _subclasses(msgspec.Struct):
            if kind not in _prepared:
                _prepare(kind)
                _prepared.add(kind)


def _prepare(kind: type) -> None:
    try:
        msgspec.json.Decoder(kind)
    except Exception:  # noqa: BLE001 - a class that cannot be decoded is never decoded
        return


def _subclasses(kind: type) -> Iterator[type]:
    children: list[type] = kind.__subclasses__()
    for each in children:
        yield each
        yield from _subclasses(each)
