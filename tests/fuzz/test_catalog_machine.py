"""The catalog against the reference model, step by step."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.machine import CatalogMachine


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        (8, 30),
        pytest.param(400, 60, marks=[pytest.mark.scale, pytest.mark.timeout(3600)]),
    ],
)
def test_the_catalog_does_what_the_model_does(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        CatalogMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
