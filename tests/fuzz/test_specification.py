"""Generated requests against the pinned specification: valid, odd and broken ones, for every served operation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings

from floecat.runtime import open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from floecat_rest.app import create_app
from tests.fuzz.service import ApplicationRunner, read_answer

PINNED = Path(__file__).parents[2] / "resources" / "openapi" / "rest-catalog-open-api.yaml"

# Later parts of the product serve these.
NOT_SERVED = (
    "planTableScan",
    "fetchPlanningResult",
    "cancelPlanning",
    "fetchScanTasks",
    "loadCredentials",
    "signRequest",
)
# answers in OAuth's shape, by its own contract tests
OTHER_SHAPE = ("getToken",)


def load() -> Any:
    """The specification, with the server that the tests ask."""
    document = yaml.load(PINNED.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    document["servers"] = [{"url": "http://in-process"}]
    document.pop("security", None)
    schema = schemathesis.openapi.from_dict(document)
    return schema.exclude(operation_id=[*NOT_SERVED, *OTHER_SHAPE])


schema = load()


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplicationRunner]:
    """The whole application in this process, with a namespace, a table and a view to meet."""
    configured = Settings(
        data_dir=str(tmp_path_factory.mktemp("specification")), storage=StorageSettings(fsync=False)
    )
    prepare_store(configured)
    kernel = open_kernel(configured)
    runner = ApplicationRunner(create_app(configured, kernel))
    yield runner
    runner.close()
    kernel.close()


def check(application: ApplicationRunner, case: Any) -> None:
    """Sends a case; no failure of the service and no error out of shape may come of it."""
    # half of the prefixes should be one that exists
    if "prefix" in case.path_parameters and len(str(case.path_parameters["prefix"])) % 2:
        case.path_parameters["prefix"] = "floecat"
    sent = case.as_transport_kwargs(base_url="http://in-process")
    options: dict[str, Any] = {
        name: sent[name] for name in ("method", "url", "params", "headers") if sent.get(name) is not None
    }
    for name, to in (("json", "json"), ("data", "content")):
        if sent.get(name) is not None:
            options[to] = sent[name]
    read_answer(application.request(**options))


def examples(number: int) -> Any:
    return settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@schema.parametrize()
@examples(12)
def test_every_answer_is_in_shape(case: Any, application: ApplicationRunner) -> None:
    check(application, case)
