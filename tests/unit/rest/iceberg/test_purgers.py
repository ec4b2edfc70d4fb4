"""A drop with purge whose purger works before the answer, and fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from floecat.settings import PurgeSettings
from floecat_rest.app import create_app
from tests.unit.purge.kernels import PurgeBench
from tests.unit.purge.test_purgers import OWN
from tests.unit.rest.conftest import BASE_URL, CLIENT_HEADERS

TABLE = "/v1/floecat/namespaces/ns/tables/t"


def dropped(bench: PurgeBench) -> tuple[int, dict[str, Any] | None]:
    bench.new_table("t")
    app = create_app(bench.settings, bench.kernel)
    with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
        client.headers.update(CLIENT_HEADERS)
        answer = client.delete(TABLE, params={"purgeRequested": "true"})
        assert client.head(TABLE).status_code == 404
    return answer.status_code, answer.json()["error"] if answer.content else None


def test_its_failure_is_a_server_error_and_the_table_is_gone(tmp_path: Path) -> None:
    bench = PurgeBench(tmp_path, PurgeSettings(purger=OWN, properties={"failures": "1"}))
    status, error = dropped(bench)
    job = bench.job()
    assert status == 500
    assert error == {
        "message": "Table ns.t is dropped, and the purge of its files failed: internal error: RuntimeError. "
        f"Job {job.id} tries again",
        "type": "ServiceFailureException",
        "code": 500,
    }
    assert (job.state, job.attempts, job.request_id is not None) == ("waiting", 1, True)


def test_a_purge_in_the_request_ends_before_the_answer(tmp_path: Path) -> None:
    bench = PurgeBench(tmp_path, PurgeSettings(purger="synchronous"))
    assert dropped(bench) == (204, None)
    assert bench.job().state == "succeeded"
