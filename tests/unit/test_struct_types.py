"""Classes are worked out once, by one thread: else threads that decode them first crash the process."""

from __future__ import annotations

import subprocess
import sys
import threading

import msgspec

from floecat.struct_types import prepare_struct_types

EVALUATED: list[str] = []


def noted() -> type:
    EVALUATED.append(threading.current_thread().name)
    return int


def test_nothing_is_worked_out_when_classes_are_decoded() -> None:
    EVALUATED.clear()
    inner = msgspec.defstruct("Inner", [("number", "noted()")], module=__name__)
    outer = msgspec.defstruct("Outer", [("inner", inner)])
    prepare_struct_types()
    prepare_struct_types()
    assert EVALUATED == ["MainThread"]
    threads = [
        threading.Thread(
            target=msgspec.json.decode, args=(b'{"inner":{"number":1}}',), kwargs={"type": outer}
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert EVALUATED == ["MainThread"]


def test_classes_that_cannot_be_decoded_stop_nobody() -> None:
    class Odd(msgspec.Struct):
        what: NotThere  # type: ignore[name-defined]  # noqa: F821

    prepare_struct_types()
    assert Odd(what=1).what == 1


AT_START = """
from msgspec import _utils
from pathlib import Path
from floecat.runtime import open_kernel, prepare_store
from floecat.settings import load_settings
from floecat_rest.app import create_app
from litestar.testing import TestClient

work_out, decoded = _utils._get_class_mro_and_typevar_mappings, []
settings = load_settings(environ={}, overrides={"floecat.data-dir": str(Path.cwd())})
prepare_store(settings)
with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
    _utils._get_class_mro_and_typevar_mappings = lambda kind: decoded.append(kind) or work_out(kind)
    assert client.get("/v1/config").status_code == 200
    body = {"namespace": ["ns"]}
    assert client.post("/v1/floecat/namespaces", json=body).status_code == 200
    schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": False}]}
    made = client.post("/v1/floecat/namespaces/ns/tables", json={"name": "t", "schema": schema})
    assert made.status_code == 200, made.text
    update = {"action": "set-properties", "updates": {"a": "b"}}
    path = "/v1/floecat/namespaces/ns/tables/t"
    assert client.post(path, json={"requirements": [], "updates": [update]}).status_code == 200
    assert client.get(path).status_code == 200
print(sorted(str(kind) for kind in decoded))
"""


def test_a_service_has_all_classes_ready_when_it_answers(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_START],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout.splitlines()[-1:], done.returncode) == (["[]"], 0), done.stderr
