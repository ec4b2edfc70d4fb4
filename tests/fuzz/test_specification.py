"""Generated requests against the pinned specification, valid and broken, for every served operation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from floecat.runtime import open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from floecat_rest.app import create_app
from tests.fuzz.service import ApplicationRunner, read_answer

PINNED = Path(__file__).parents[2] / "floecat_rest" / "openapi" / "rest-catalog-open-api.yaml"

# answers in OAuth's shape, by its own contract tests
OTHER_SHAPE = ("getToken",)


def load() -> Any:
    """The specification, with the server that the tests ask."""
    document = yaml.load(PINNED.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    document["servers"] = [{"url": "http://localhost"}]
    document.pop("security", None)
    schema = schemathesis.openapi.from_dict(document)
    return schema.exclude(operation_id=[*OTHER_SHAPE])


OPERATIONS = [result.ok() for result in load().get_all_operations()]
# any text is a name: what consists of a path only has no broken requests
CASES = [
    pytest.param(operation, mode, id=f"{operation.definition.raw['operationId']}-{mode.value}")
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or any((*operation.body, *operation.query, *operation.headers))
]


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
    sent = case.as_transport_kwargs(base_url="http://localhost")
    options: dict[str, Any] = {
        name: sent[name] for name in ("method", "url", "params") if sent.get(name) is not None
    }
    # a header may hold any byte (RFC 9110 section 5.5), which httpx takes only as bytes
    options["headers"] = [
        (name, value.encode("latin-1")) for name, value in (sent.get("headers") or {}).items()
    ]
    for name, to in (("json", "json"), ("data", "content")):
        if sent.get(name) is not None:
            options[to] = sent[name]
    read_answer(application.request(**options))


@pytest.mark.parametrize(("operation", "mode"), CASES)
@pytest.mark.parametrize(
    "number", [6, pytest.param(500, marks=[pytest.mark.scale, pytest.mark.timeout(1800)])]
)
def test_every_answer_is_in_shape(
    application: ApplicationRunner, operation: Any, mode: GenerationMode, number: int
) -> None:
    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        check(application, case)

    send()
