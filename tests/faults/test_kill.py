"""The service is killed in the middle of commits, transactions, creates and drops, and started again."""

from __future__ import annotations

import random
import time

import pytest

from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.history import Workload


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=[pytest.mark.scale, pytest.mark.timeout(1200)])])
def test_a_killed_service_loses_and_doubles_nothing(deployment: Deployment, kills: int) -> None:
    chance = random.Random(kills)
    server = deployment.start()
    # sixteen writers, so that transactions share commits on SQLite
    with Workload([server.base_url], rounds=2) as workload:
        for _ in range(kills):
            workload.wait_for(15)
            time.sleep(chance.uniform(0, 0.2))
            server.kill()
            check_consistency(deployment.store_url)
            server.start()
        workload.wait_for(15)
    workload.check()
    assert check_consistency(deployment.store_url) > 15 * kills
