"""The service in this process: every request passes the whole application, and no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from floecat.runtime import open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from floecat_rest.app import create_app

__all__ = ["Answer", "ApplicationRunner", "InProcessService", "entry_path", "namespace_path"]

Levels = Sequence[str]


class Answer(NamedTuple):
    """Status and body of an answer that is in shape."""

    status: int
    body: Any

    @property
    def outcome(self) -> tuple[int, str]:
        """The status, and the type of the error if it is one."""
        return self.status, self.body["error"]["type"] if self.status >= 400 else ""


class ApplicationRunner:
    """Starts an ASGI application, asks it, and waits for its answers."""

    def __init__(self, application: Any) -> None:
        self._runner = asyncio.Runner()
        self._lifespan = _Lifespan()
        self._runner.run(self._lifespan.start(application))
        transport = httpx.ASGITransport(app=application, raise_app_exceptions=True)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60, headers={"x-client-version": "test"}
        )

    def request(self, method: str, url: str, **options: Any) -> httpx.Response:
        """The answer, whatever it is."""
        return self._runner.run(self._client.request(method, url, **options))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.run(self._lifespan.stop())
        self._runner.close()


class _Lifespan:
    """The start and the stop of an application (lifespan protocol of ASGI)."""

    def __init__(self) -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    async def start(self, application: Any) -> None:
        async def answer(message: Any) -> None:
            await self._answers.put(message["type"])

        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        self._running = asyncio.ensure_future(application(scope, self._sent.get, answer))
        await self._tell("lifespan.startup")

    async def stop(self) -> None:
        await self._tell("lifespan.shutdown")
        await self._running

    async def _tell(self, kind: str) -> None:
        await self._sent.put({"type": kind})
        assert await self._answers.get() == f"{kind}.complete"


class InProcessService:
    """A service over a SQLite store and local files, which outlive `reopen`."""

    def __init__(self, data_dir: Path) -> None:
        self._settings = Settings(data_dir=str(data_dir), storage=StorageSettings(fsync=False))
        prepare_store(self._settings)
        self._open()

    def reopen(self) -> None:
        """Forgets everything in memory, as a restart does."""
        self.close()
        self._open()

    def close(self) -> None:
        self._application.close()
        self._kernel.close()

    def send(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **params: Any
    ) -> Answer:
        """The answer to a request below the prefix.

        Raises:
            AssertionError: it is a failure of the service, or an error out of shape.
        """
        headers = {"idempotency-key": key} if key else {}
        url = f"/v1/floecat{path}"
        return read_answer(
            self._application.request(method, url, json=body, params=params or None, headers=headers)
        )

    def _open(self) -> None:
        self._kernel = open_kernel(self._settings)
        self._application = ApplicationRunner(create_app(self._settings, self._kernel))


def read_answer(answer: httpx.Response) -> Answer:
    """What an answer says.

    Raises:
        AssertionError: it is a failure of the service, or an error out of shape.
    """
    status = answer.status_code
    assert status < 500, answer.text
    body = answer.json() if answer.content else None
    if status >= 400 and answer.request.method != "HEAD":
        error = body["error"]
        for part in ("message", "type"):
            assert isinstance(error[part], str), body
            assert error[part], body
        assert error["code"] == status, body
    return Answer(status, body)


def namespace_path(namespace: Levels) -> str:
    """The path of a namespace."""
    return "/namespaces/" + "%1F".join(quote(level, safe="") for level in namespace)


def entry_path(kind: str, namespace: Levels, name: str) -> str:
    """The path of a table or a view; `kind` is `tables` or `views`."""
    return f"{namespace_path(namespace)}/{kind}/{quote(name, safe='')}"
