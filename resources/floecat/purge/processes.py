"""Processes in which tables are purged, so that a purge does not hold the interpreter that answers requests.

A process purges one table at a time, at lower priority. It stays for the next one for a while, and ends with
this process, however that ends.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec

from floecat.child_process import ChildPool, ChildProcess
from floecat.errors import FloecatError, UnavailableError
from floecat.jobs.running import JobAbandonedError
from floecat.purge.live_tables import LiveTables
from floecat.purge.process_worker import Answer, Ended, PurgeOrder, PurgeSetup, Question, RefusedError
from floecat.purge.progress import PurgeProgress
from floecat.purge.table_purge import PurgeTarget, Sidecars

__all__ = ["PurgeProcesses"]

_MODULE: Final = "floecat.purge.process_worker"
_LOOKS_AFTER_S: Final = 1.0
_LIVE: Final = frozenset(
    {
        "remember",
        "document",
        "storages",
        "own_storages",
        "positions",
        "changed",
        "begin_batch",
        "end_batch",
    }
)
_PARTS: Final = {"near": 1, "sidecars": 1_000, "sidecars of": 1_000}
"""What is iterated over, and how much of it one message holds."""


class PurgeProcesses:
    """The processes. Thread-safe."""

    def __init__(self, setup: PurgeSetup, live: LiveTables, sidecars: Sequence[Sidecars], most: int) -> None:
        """Starts nothing yet: a process starts with the first table that finds no free one.

        Args:
            setup: of each process.
            live: tables that may need files of purged ones.
            sidecars: find further files of a table.
            most: tables that are purged at a time; another purge waits for its turn.
        """
        self._pool = ChildPool(_MODULE, setup)
        self._live = live
        self._sidecars = sidecars
        self._turns = threading.BoundedSemaphore(most)
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """Whether tables are purged in processes."""
        return self._is_on

    def start(self) -> None:
        """Has tables purged in processes from now on, as it pays where requests are answered meanwhile."""
        self._is_on = True

    def purge(
        self,
        target: PurgeTarget,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
        *,
        refuse_large: bool,
    ) -> None:
        """Purges an Iceberg table; see `TablePurge.purge`.

        Raises:
            UnavailableError: the process ended, or cannot be started.
            JobAbandonedError: the process ended in a batch, of which calls may be on their way to storage.
        """
        while not self._turns.acquire(timeout=_LOOKS_AFTER_S):
            before_batch()  # the purge may be cancelled while it waits
        try:
            self._purge(target, before_batch, progress, refuse_large=refuse_large)
        finally:
            self._turns.release()

    def _purge(
        self,
        target: PurgeTarget,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
        *,
        refuse_large: bool,
    ) -> None:
        packed = pickle.dumps(msgspec.structs.replace(target, renew=None))
        order = PurgeOrder(packed, progress, refuse_large, target.renew is not None)
        for is_retry in (False, True):
            services = _Services(self._live, self._sidecars, target, before_batch, progress)
            process = self._pool.take()
            try:
                ended = services.serve(process, order)
            except BaseException as error:
                process.end()
                if services.in_batch and isinstance(error, Exception):
                    raise JobAbandonedError("The purge process ended while it deleted files") from error
                if not isinstance(error, (EOFError, ConnectionError)):
                    raise
                # one that was idle may have ended before it saw the order
                if is_retry or services.was_asked:
                    raise UnavailableError("The purge process ended") from None
            else:
                self._pool.give_back(process)
                services.finish(ended)
                return

    def close(self) -> None:
        """Ends the processes that purge nothing; the others end when their table is done."""
        self._pool.close()


class _Services:
    """What a process may ask while it purges one table. Used by one thread."""

    def __init__(
        self,
        live: LiveTables,
        sidecars: Sequence[Sidecars],
        target: PurgeTarget,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
    ) -> None:
        self.was_asked = self.in_batch = False
        self._live = live
        self._sidecars = sidecars
        self._target = target
        self._before_batch = before_batch
        self._progress = progress
        self._stopped: Exception | None = None
        self._parts: list[tuple[Iterator[Any], int]] = []

    def serve(self, process: ChildProcess, order: PurgeOrder) -> Ended:
        """Answers what the process asks, until it has ended its work."""
        process.connection.send(order)
        while True:
            message = process.connection.recv()
            if isinstance(message, Ended):
                return message
            self.was_asked = True
            process.connection.send(self._answer(message))

    def finish(self, ended: Ended) -> None:
        """Raises what the purge raised."""
        self._take(ended.progress)
        if isinstance(ended.error, RefusedError) and self._stopped is not None:
            raise self._stopped
        if ended.error is not None:
            raise ended.error

    def _answer(self, question: Question) -> Answer:
        try:
            return Answer(self._call(question.name, *question.arguments))
        except FloecatError as error:
            return Answer(error=error)
        except Exception as error:  # noqa: BLE001 - it ends the work, and is raised here then
            self._stopped = error
            return Answer(error=RefusedError())

    def _call(self, name: str, *arguments: Any) -> Any:
        if name in _LIVE:
            answer = getattr(self._live, name)(*arguments)
            if name in ("begin_batch", "end_batch"):
                self.in_batch = answer is True
            return answer
        if name == "next":
            iterator, length = self._parts[arguments[0]]
            return list(islice(iterator, length))
        if name in _PARTS:
            self._parts.append((iter(self._iterable(name, *arguments)), _PARTS[name]))
            return len(self._parts) - 1
        if name == "renew":
            return None if self._target.renew is None else self._target.renew()
        self._take(*arguments)
        return self._before_batch()

    def _iterable(self, name: str, *arguments: Any) -> Any:
        if name == "near":
            return self._live.near(*arguments)
        if name == "sidecars of":
            return self._live.sidecars(*arguments)
        return chain.from_iterable(find(self._target) for find in self._sidecars)

    def _take(self, progress: PurgeProgress) -> None:
        for name in progress.__struct_fields__:
            setattr(self._progress, name, getattr(progress, name))
