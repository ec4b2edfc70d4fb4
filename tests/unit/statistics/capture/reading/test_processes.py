from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pytest

from floecat.errors import FileMissingError, UnavailableError
from floecat.statistics.capture.reading.processes import CaptureProcesses, FileEndedProcessError
from floecat.statistics.files.sources import UnreadableFileError, reading


def whereabouts(_check: Callable[[int], None]) -> tuple[int, int]:
    """The process, and its priority."""
    return os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)


def failing(error: Exception, _check: Callable[[int], None]) -> None:
    raise error


def endless(check: Callable[[int], None]) -> None:
    check(os.getpid())
    while True:
        time.sleep(60)


def allocating(_check: Callable[[int], None]) -> None:
    with reading("file:///f"):
        pa.allocate_buffer(1 << 33)


def spinning(check: Callable[[int], None]) -> None:
    check(3)
    while True:
        pass


def spinning_in_turns(check: Callable[[int], None]) -> str:
    """Takes more processor time than a file may, for several of them."""
    for done in range(4):
        check(done)
        ends_s = time.process_time() + 0.6
        while time.process_time() < ends_s:
            pass
    return "done"


def ending(signal_number: signal.Signals, check: Callable[[int], None]) -> None:
    check(2)
    os.kill(os.getpid(), signal_number)


def go_on(_done: int) -> None:
    pass


@pytest.fixture
def processes() -> Iterator[CaptureProcesses]:
    opened = CaptureProcesses(1 << 20, 1_000)
    yield opened
    opened.close()


def test_work_that_is_not_small_runs_elsewhere_at_lower_priority(processes: CaptureProcesses) -> None:
    own = whereabouts(go_on)
    assert processes.run(whereabouts, go_on, is_small=True) == own
    pid, priority = processes.run(whereabouts, go_on, is_small=False)
    assert pid != own[0]
    assert priority == min(own[1] + 10, 19)
    assert processes.run(whereabouts, go_on, is_small=False)[0] == pid


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileMissingError("file:///f is gone"), "file:///f is gone"),
        (UnreadableFileError("file:///f", "it is damaged"), "Cannot read file:///f: it is damaged"),
    ],
)
def test_errors_of_the_catalog_are_raised_here(
    processes: CaptureProcesses, error: Exception, message: str
) -> None:
    with pytest.raises(type(error), match=f"^{message}$"):
        processes.run(partial(failing, error), go_on, is_small=False)


def test_memory_of_a_process_is_bounded(processes: CaptureProcesses) -> None:
    with pytest.raises(
        UnreadableFileError, match=r"file:///f: .* memory .*floecat\.statistics\.memory-bytes"
    ):
        processes.run(allocating, go_on, is_small=False)


def test_other_errors_are_named_without_their_text(processes: CaptureProcesses) -> None:
    with pytest.raises(UnavailableError, match=r"^internal error: ZeroDivisionError$"):
        processes.run(partial(failing, ZeroDivisionError("secret")), go_on, is_small=False)


@pytest.mark.parametrize("calls", [1, 2])
def test_work_that_may_not_go_on_is_stopped_at_a_step_and_ended_between_steps(
    processes: CaptureProcesses, calls: int
) -> None:
    pids = []

    def stop(done: int) -> None:
        if done:
            pids.append(done)
            if len(pids) == calls:
                raise TimeoutError

    with pytest.raises(TimeoutError):
        processes.run(endless, stop, is_small=False)
    assert (processes.run(whereabouts, go_on, is_small=False)[0] == pids[0]) is (calls == 1)


def test_processor_time_of_a_file_is_bounded(processes: CaptureProcesses) -> None:
    assert processes.run(spinning_in_turns, go_on, is_small=False) == "done"
    with pytest.raises(FileEndedProcessError) as raised:
        processes.run(spinning, go_on, is_small=False)
    assert raised.value.done == 3
    assert "(floecat.statistics.file-processor-time)" in raised.value.reason


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_work_that_ends_its_process_says_where(processes: CaptureProcesses, number: signal.Signals) -> None:
    with pytest.raises(FileEndedProcessError) as raised:
        processes.run(partial(ending, number), go_on, is_small=False)
    assert raised.value.done == 2
    assert number.name in raised.value.reason


def test_a_process_that_is_killed_fails_its_work_only(processes: CaptureProcesses) -> None:
    def kill(done: int) -> None:
        if done:
            os.kill(done, signal.SIGKILL)

    with pytest.raises(UnavailableError, match="ended") as raised:
        processes.run(endless, kill, is_small=False)
    assert pickle.loads(pickle.dumps(raised.value)).message == "The capture process ended"
    assert processes.run(whereabouts, go_on, is_small=False)[0] != os.getpid()
