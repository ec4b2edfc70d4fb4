"""Children that stand and fall together."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from floecat_rest.commands.service.log_files import ServiceLog
from floecat_rest.commands.service.processes import ChildEndedError, Processes, Service, StopRequestedError

FOREVER = "import time; time.sleep(600)"


def service(folder: Path, name: str, code: str, ready_url: str | None = None) -> Service:
    log = ServiceLog(folder / "log" / f"{name}.log", max_bytes=1 << 20, kept=1)
    return Service(name, [sys.executable, "-c", code], log, ready_url)


def start_and_wait(*services: Service, ready_within_s: float | None = None) -> None:
    with Processes(os.environ) as processes:
        for each in services:
            processes.start(each)
            if ready_within_s is not None:
                processes.wait_ready(each, ready_within_s)
        processes.wait()


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_end_of_one_is_told_with_its_cause_first_and_ends_the_others(tmp_path: Path) -> None:
    good = service(tmp_path, "good", FOREVER)
    bad = service(tmp_path, "bad", "print('error: out of cheese'); print('bye'); raise SystemExit(3)")
    with pytest.raises(ChildEndedError) as caught:
        start_and_wait(good, bad)
    assert caught.value.message.splitlines() == [
        "bad ended: out of cheese (exit code 3)",
        f"The end of {tmp_path}/log/bad.log:",
        "error: out of cheese",
        "bye",
    ]
    assert good.exit_code() == -signal.SIGTERM


def test_a_signal_is_the_cause_whatever_the_log_says(tmp_path: Path) -> None:
    killed = service(tmp_path, "bad", "import os; print('error: none', flush=True); os.kill(os.getpid(), 9)")
    with pytest.raises(ChildEndedError, match=r"^bad ended \(signal 9, SIGKILL, as the system sends it"):
        start_and_wait(killed)


def test_a_service_without_a_log_writes_where_we_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChildEndedError, match=r"bad ended \(signal 9, SIGKILL, as the system sends it"):
        start_and_wait(
            Service("bad", [sys.executable, "-c", "import os; print('hi', flush=1); os.kill(os.getpid(), 9)"])
        )
    assert capfd.readouterr().out == "hi\n"


def test_a_service_has_its_own_time_to_end(tmp_path: Path) -> None:
    """One that never ends by itself holds the others up no longer than it may take."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); "
    log = ServiceLog(tmp_path / "deaf.log", max_bytes=1 << 20, kept=1)
    stubborn = Service("deaf", [sys.executable, "-c", deaf + FOREVER], log, stop_s=0.5)
    with Processes(os.environ) as processes:
        processes.start(stubborn)
        wait_for(tmp_path / "deaf.log")
        begun = time.monotonic()
    assert stubborn.exit_code() == -signal.SIGKILL
    assert time.monotonic() - begun < 35


def test_only_the_end_of_a_long_log_is_shown(tmp_path: Path) -> None:
    talker = service(tmp_path, "talker", "[print('line', n) for n in range(1000)]")
    with pytest.raises(ChildEndedError) as caught:
        start_and_wait(talker)
    shown = caught.value.message.splitlines()[2:]
    assert shown == [f"line {n}" for n in range(980, 1000)]


def test_what_a_service_leaves_behind_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    parent = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {stubborn!r}])\n"
        "time.sleep(0.5)\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(f'{{child.pid}}\\n')\n"
        "time.sleep(600)\n"
    )
    with Processes(os.environ) as processes:
        processes.start(service(tmp_path, "parent", parent))
        pid = int(wait_for(pid_file))
        assert is_running(pid)
    assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_all(tmp_path: Path, number: signal.Signals) -> None:
    child = service(tmp_path, "child", "print('on', flush=True); " + FOREVER)
    before = signal.getsignal(number)

    def send_when_it_runs() -> None:
        wait_for(tmp_path / "log" / "child.log")
        os.kill(os.getpid(), number)

    sender = Thread(target=send_when_it_runs)
    sender.start()
    with pytest.raises(StopRequestedError):
        start_and_wait(child)
    sender.join()
    assert child.exit_code() == -signal.SIGTERM
    assert signal.getsignal(number) == before


def test_nothing_is_started_after_a_signal(tmp_path: Path) -> None:
    late = service(tmp_path, "late", FOREVER)
    with Processes(os.environ) as processes:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(StopRequestedError):
            processes.start(late)
    assert late.exit_code() is None


def test_run_waits_for_the_end(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with Processes(os.environ) as processes:
        processes.run(service(tmp_path, "job", f"open({str(done)!r}, 'w').close()"), 30)
        assert done.exists()
        processes.check()


@pytest.mark.parametrize(
    ("code", "message"), [("raise SystemExit(4)", r"exit code 4"), (FOREVER, "did not finish within 1 s")]
)
def test_run_tells_a_failure(tmp_path: Path, code: str, message: str) -> None:
    job = service(tmp_path, "job", code)
    with Processes(os.environ) as processes, pytest.raises(ChildEndedError, match=message):
        processes.run(job, 1 if code == FOREVER else 30)
    assert job.exit_code() is not None


def test_service_that_never_answers(tmp_path: Path) -> None:
    deaf = service(tmp_path, "deaf", FOREVER, "http://127.0.0.1:9/")
    with pytest.raises(ChildEndedError, match="deaf did not answer within 0 s"):
        start_and_wait(deaf, ready_within_s=0.3)
    assert deaf.exit_code() == -signal.SIGTERM


def test_service_that_ends_before_it_answers(tmp_path: Path) -> None:
    short = service(tmp_path, "short", "print('no')", "http://127.0.0.1:9/")
    with pytest.raises(ChildEndedError, match=r"short ended \(exit code 0\)\n"):
        start_and_wait(short, ready_within_s=30)
