"""A process that works on the scans that are due, and kills itself at a call to the store."""

from __future__ import annotations

import sys

from floecat.fileio.local import LocalFileIO
from floecat.runtime import Kernel
from floecat.settings import ConnectorSettings, Settings, StorageSettings
from tests.clocks import SetClock
from tests.services.kills import KillSwitch, kill_process, killable_store

__all__ = ["scan_settings"]


def scan_settings(data_dir: str) -> Settings:
    """Of this process, and of the test that starts it."""
    return Settings(
        data_dir=data_dir,
        storage=StorageSettings(fsync=False),
        connectors=ConnectorSettings(allowed_hosts=("127.0.0.1",)),
    )


def main(data_dir: str, now_ms: int, calls: int) -> None:
    """Works until it dies, at so many calls, or until nothing is due."""
    settings, switch = scan_settings(data_dir), KillSwitch(kill_process)
    store = killable_store(settings.store_url, switch)
    kernel = Kernel(settings, store, LocalFileIO(fsync=False), SetClock(now_ms))
    switch.arm(calls)
    for report in kernel.connectors.jobs.scan_due():
        if report.summary is not None:
            raise SystemExit(report.summary)
    switch.disarm()
    kernel.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
