"""What a running service and its Dagster say of each other."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["ask", "assert_pipeline_works", "processes_of"]

DEFINITIONS = """{
  workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } }
  assetNodes { assetKey { path } }
  instance { info }
  repositoriesOrError { ... on RepositoryConnection { nodes { sensors { name sensorState { status } } } } }
}"""
RELOAD = """mutation { reloadRepositoryLocation(repositoryLocationName: "tables") {
  __typename ... on PythonError { message } } }"""
ASSETS = "{ assetNodes { assetKey { path } } }"
EVENTS = """{ assetOrError(assetKey: {path: ["catalog", "tables"]}) {
  ... on Asset { assetMaterializations(limit: 1) { description } } } }"""
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


def ask(url: str, body: object = None) -> Any:
    """The JSON answer to a GET, or to a POST of a body."""
    request = urllib.request.Request(url, headers={"Content-Type": "application/json"})
    request.data = None if body is None else msgspec.json.encode(body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return msgspec.json.decode(answer.read())


def assert_pipeline_works(rest: str, dagster: str) -> None:
    """Assets and sensors are there, the instance has our settings, and a commit becomes an event."""
    found = ask(f"{dagster}/graphql", {"query": DEFINITIONS})["data"]
    assert found["workspaceOrError"]["locationEntries"] == [
        {"name": name, "loadStatus": "LOADED"} for name in ("floecat", "tables")
    ]
    assert ["catalog", "tables"] in [node["assetKey"]["path"] for node in found["assetNodes"]]
    sensors = {
        sensor["name"]: sensor["sensorState"]["status"]
        for repository in found["repositoriesOrError"]["nodes"]
        for sensor in repository["sensors"]
    }
    assert sensors["commit_sensor"] == "RUNNING"
    assert "max_concurrent_runs: 4" in found["instance"]["info"]
    ask(f"{rest}/v1/namespaces", {"namespace": ["ns"]})
    ask(f"{rest}/v1/namespaces/ns/tables", {"name": "orders", "schema": SCHEMA})
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        asset = ask(f"{dagster}/graphql", {"query": EVENTS})["data"]["assetOrError"]
        if asset.get("assetMaterializations"):
            assert asset["assetMaterializations"][0]["description"].startswith("create")
            assert_search_finds(dagster, ["floecat", "ns", "orders"])
            return
        time.sleep(0.5)
    raise AssertionError("the commit was not reported")


def assert_search_finds(dagster: str, key: list[str]) -> None:
    """Search knows what is defined. A sensor has it loaded again when names rest; this does at once."""
    answer = ask(f"{dagster}/graphql", {"query": RELOAD})["data"]["reloadRepositoryLocation"]
    assert answer["__typename"] == "WorkspaceLocationEntry", answer
    nodes = ask(f"{dagster}/graphql", {"query": ASSETS})["data"]["assetNodes"]
    assert key in [node["assetKey"]["path"] for node in nodes]


def processes_of(data_dir: Path) -> list[str]:
    """Command lines of the processes that work in this data folder."""
    marker = f"FLOECAT_DATA_DIR={data_dir}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in environ.read_bytes().split(b"\0"):
                found.append(environ.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
