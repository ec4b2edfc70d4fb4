"""The long form of `test_specification`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.service import ApplicationRunner
from tests.fuzz.test_specification import application, check, examples, schema

__all__ = ["application"]

# on the module: the tests that schemathesis makes do not take marks from a function
pytestmark = [pytest.mark.scale, pytest.mark.timeout(3600)]


@schema.parametrize()
@examples(500)
def test_every_answer_is_in_shape(case: Any, application: ApplicationRunner) -> None:
    check(application, case)
