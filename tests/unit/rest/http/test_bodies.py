"""Bodies are admitted to the memory of the process before they are read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from floecat.errors import BadRequestError, PayloadTooLargeError, UnavailableError
from floecat.settings import GatewaySettings, Settings
from floecat.settings.limits import LimitSettings
from floecat.working_memory import take_memory
from floecat_rest.http.bodies import Bodies
from floecat_rest.process.admission import AdmittedRequest
from floecat_rest.process.services import Services

MIB = 1 << 20


def _headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]


class Service:
    """Handlers behind the admission, of which one is in work until it may answer."""

    def __init__(self, *, wait_ms: int = 0, patience_s: float | None = None) -> None:
        settings = Settings(
            limits=LimitSettings(working_memory_bytes=4 * MIB, working_memory_wait_ms=wait_ms),
            gateway=GatewaySettings(max_request_body_bytes=8 * MIB),
        )
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.read: list[int] = []
        self.services = Services(settings)
        self.bodies = Bodies(self.services, patience_s=patience_s)

    async def work(self, receive: Any, **headers: str) -> None:
        with AdmittedRequest(self.services) as admitted:
            self.read.append(len(await self.bodies.read(admitted, _headers(headers), receive)))
            await self.may_answer.wait()
            admitted.release()
            await self.may_end.wait()

    async def post(self, *chunks: bytes, **headers: str) -> None:
        left = list(chunks)

        async def receive() -> dict[str, Any]:
            body = left.pop(0) if left else b""
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        await self.work(receive, **headers)


async def _others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_does_not_fit_is_refused_until_the_one_before_is_answered(announced: bool) -> None:
    async def scenario() -> None:
        service = Service()
        body = bytes(3 * MIB)
        headers = {"content_length": str(len(body))} if announced else {}
        service.may_answer.clear()
        service.may_end.clear()
        first = asyncio.create_task(service.post(body, **headers))
        await _others_run()
        with pytest.raises(UnavailableError, match="working-memory-bytes"):
            await service.post(body, **headers)
        service.may_answer.set()
        await _others_run()
        assert not first.done()  # its client is slow, which holds up nobody
        service.may_end.set()
        await service.post(body, **headers)
        await first
        assert service.read == [len(body)] * 2

    asyncio.run(scenario())


def test_nothing_of_a_refused_body_is_read() -> None:
    async def scenario() -> None:
        service = Service()
        service.may_answer.clear()
        first = asyncio.create_task(service.post(bytes(4 * MIB), content_length=str(4 * MIB)))
        await _others_run()

        async def receive() -> Any:
            raise AssertionError("it was read")

        with pytest.raises(UnavailableError):
            await service.work(receive, content_length=str(2 * MIB))
        service.may_answer.set()
        await first

    asyncio.run(scenario())


def test_one_that_waits_is_read_when_there_is_room() -> None:
    async def scenario() -> None:
        service = Service(wait_ms=20_000)
        body = bytes(3 * MIB)
        service.may_answer.clear()
        both = [asyncio.create_task(service.post(body, content_length=str(len(body)))) for _ in range(2)]
        await _others_run()
        assert len(service.read) == 1
        service.may_answer.set()
        await asyncio.gather(*both)
        assert len(service.read) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("dribbles", [True, False])
@pytest.mark.parametrize("announced", [True, False])
def test_a_slow_body_gives_way_to_one_that_waits(announced: bool, dribbles: bool) -> None:
    async def scenario() -> None:
        service = Service(wait_ms=60_000, patience_s=0.01)
        stalls = asyncio.Event()
        parts = [bytes(3 * MIB)]

        async def receive() -> dict[str, Any]:
            if not parts:
                stalls.set()
                await asyncio.sleep(0.01 if dribbles else 3600)
            return {"type": "http.request", "body": parts.pop() if parts else b"x", "more_body": True}

        headers = {"content_length": str(4 * MIB)} if announced else {}
        slow = asyncio.create_task(service.work(receive, **headers))
        await stalls.wait()
        await service.post(bytes(2 * MIB), content_length=str(2 * MIB))
        with pytest.raises(UnavailableError, match="working-memory-wait-ms"):
            await slow

    asyncio.run(scenario())


def test_the_request_of_a_client_that_goes_away_in_its_body_is_stopped() -> None:
    async def scenario() -> None:
        service = Service(wait_ms=60_000)
        reads, left = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            reads.set()
            await left.wait()
            return {"type": "http.disconnect"}

        request = asyncio.create_task(service.work(receive))
        await reads.wait()
        # as the server does it when a connection is lost
        left.set()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(scenario())


@pytest.mark.parametrize("length", [str(9 * MIB), "-1", "many", ""])
def test_what_is_refused_by_its_length_is_not_read_and_takes_nothing(length: str) -> None:
    async def scenario() -> None:
        service = Service()

        async def receive() -> Any:
            raise AssertionError("it was read")

        with AdmittedRequest(service.services) as admitted:
            with pytest.raises(BadRequestError, match=r"max-request-body-bytes|Invalid content-length"):
                await service.bodies.read(admitted, [(b"content-length", length.encode())], receive)
            await service.post(bytes(4 * MIB), content_length=str(4 * MIB))

    asyncio.run(scenario())


def test_a_body_of_unknown_length_is_refused_where_it_becomes_too_large() -> None:
    async def scenario() -> None:
        service = Service()
        with pytest.raises(PayloadTooLargeError):
            await service.post(*[bytes(3 * MIB)] * 3)
        await service.post(bytes(4 * MIB))
        assert service.read == [4 * MIB]

    asyncio.run(scenario())


def test_what_handlers_inflate_counts_for_their_request() -> None:
    async def scenario() -> None:
        settings = Settings(limits=LimitSettings(working_memory_bytes=4 * MIB, working_memory_wait_ms=0))
        services = Services(settings)

        with AdmittedRequest(services):
            await asyncio.to_thread(take_memory, 4 * MIB)
            with services.working_memory.work(), pytest.raises(UnavailableError):
                take_memory(2 * MIB)
        with services.working_memory.work():
            take_memory(4 * MIB)

    asyncio.run(scenario())
