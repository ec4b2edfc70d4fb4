"""What a running web server of Dagster says of its code locations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from floecat_rest.commands.service.dagster_processes import CodeLocationError, all_loaded
from tests.services.http_server import QuietHandler, serving


def location(status: str, *problems: str) -> dict[str, Any]:
    """A location; problems go from the outermost error to its last cause."""
    messages = [{"message": problem} for problem in problems]
    error = messages[0] | {"causes": messages[1:]} if messages else {}
    return {"name": "floecat", "loadStatus": status, "locationOrLoadError": error}


@contextmanager
def web_server(workspace: dict[str, Any]) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:
            assert self.path == "/graphql"
            assert b"locationEntries" in self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"workspaceOrError": workspace}}).encode())

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        ([location("LOADED")], True),
        ([location("LOADED"), {"name": "x", "loadStatus": "LOADING", "locationOrLoadError": None}], False),
        ([], False),
    ],
)
def test_all_locations_must_be_loaded(locations: list[dict[str, Any]], expected: bool) -> None:
    with web_server({"locationEntries": locations}) as url:
        assert all_loaded(url) is expected


@pytest.mark.parametrize(
    ("workspace", "message"),
    [
        (
            {"locationEntries": [location("LOADED", "LoadError: in\nmodule_name=x\n", "NoModule: y\n")]},
            "Dagster cannot load the code location floecat: NoModule: y",
        ),
        (
            {"locationEntries": [location("LOADED"), location("LOADED", "TimeOut: z")]},
            "Dagster cannot load the code location floecat: TimeOut: z",
        ),
        (
            {"locationEntries": [location("LOADED") | {"name": "theirs"}]},
            "Dagster's workspace.yaml has no code location floecat",
        ),
        ({"message": "no file\n"}, "Dagster cannot load its workspace: no file"),
    ],
)
def test_an_error_of_definitions_is_reported(workspace: dict[str, Any], message: str) -> None:
    with web_server(workspace) as url, pytest.raises(CodeLocationError) as caught:
        all_loaded(url)
    assert caught.value.message == message


def test_a_server_that_does_not_answer_is_not_ready() -> None:
    with web_server({}) as url:
        pass
    assert all_loaded(url) is False
