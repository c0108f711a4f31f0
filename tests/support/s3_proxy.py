"""A proxy before an S3 server, on loopback, that does what networks and busy servers do, by a seeded schedule."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Mapping

START_SECONDS: Final = 30
DELAY_SECONDS: Final = 0.02
HEAD_BYTES: Final = 2**20
TOLD: Final = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>later</Message></Error>"


class Fault(StrEnum):
    """What is done to a request."""

    SLOW_DOWN = "slow-down"
    """503 SlowDown; the server does not get it."""
    BROKEN = "broken"
    """500 InternalError, though the server has done it."""
    CUT_UPLOAD = "cut-upload"
    """The connection breaks in the middle of what is sent, or before its answer."""
    DELAY = "delay"
    """It arrives later."""
    DROP_REPLY = "drop-reply"
    """The server has done it, and the answer never comes."""
    CUT_REPLY = "cut-reply"
    """The connection breaks in the middle of the answer."""


class Schedule:
    """Draws what is done to each request.

    Args:
        seed: the same one draws the same faults.
        rates: share of requests that each fault befalls.
        outage_within: one stretch of `outage` requests somewhere in the first so many gets one fault each time.
        outage: its length.
    """

    def __init__(self, seed: int, rates: Mapping[Fault, float], *, outage_within: int = 0, outage: int = 0) -> None:
        self._random, self._rates = random.Random(seed), dict(rates)
        self._number, start = 0, self._random.randrange(outage_within) if outage_within else 0
        self._outage, self._lasting = range(start, start + outage), self._random.choice(list(rates))
        self.drawn: Counter[Fault] = Counter()

    def __call__(self, _head: bytes) -> Fault | None:
        """Draw for the next request."""
        self._number += 1
        fault = self._lasting if self._number - 1 in self._outage else self._drawn()
        if fault is not None:
            self.drawn[fault] += 1
        return fault

    def _drawn(self) -> Fault | None:
        point = self._random.random()
        for fault, rate in self._rates.items():
            point -= rate
            if point < 0:
                return fault
        return None


class Script:
    """Does certain faults to the next requests that match, one after another.

    Args:
        start: what their heads begin with, such as `PUT`.
        within: what else stands in them.
        faults: what is done.
    """

    def __init__(self, start: bytes, within: bytes, *faults: Fault) -> None:
        self._start, self._within, self.left = start, within, list(faults)

    def __call__(self, head: bytes) -> Fault | None:
        """Say what is done to a request."""
        is_meant = head.startswith(self._start) and self._within in head
        return self.left.pop(0) if self.left and is_meant else None


class S3Proxy:
    """Passes requests on, or not; each connection is for one.

    Args:
        upstream: address of the server.
        faults: says of a request's head what is done to it.
        strip: fields that the server does not get to see, in lower case.
        alter: makes of each body what the server gets.
    """

    def __init__(
        self,
        upstream: str,
        faults: Callable[[bytes], Fault | None] = lambda _: None,
        *,
        strip: tuple[bytes, ...] = (),
        alter: Callable[[bytes], bytes] = lambda body: body,
    ) -> None:
        parts = urlsplit(upstream)
        self._host, self._port, self.faults, self._strip = parts.hostname, parts.port, faults, strip
        self._alter = alter
        self._loop, self._started = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.endpoint_url = ""
        self.heads: list[bytes] = []

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=HEAD_BYTES)
        self.endpoint_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        fault = self.faults(head)
        if fault is Fault.DELAY:
            await asyncio.sleep(DELAY_SECONDS)
        if field_of(head, b"expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        num_bytes = int(field_of(head, b"content-length") or 0)
        if fault is Fault.CUT_UPLOAD:
            await self._cut(head, await reader.readexactly(num_bytes // 2), writer)
            return
        body = await reader.readexactly(num_bytes)
        if fault is Fault.SLOW_DOWN:
            writer.write(_error(b"SlowDown", 503))
            return
        reply = await self._passed_on(head, self._alter(body))
        if fault is Fault.DROP_REPLY:
            writer.transport.abort()
        elif fault is Fault.CUT_REPLY:
            writer.write(reply[: len(reply) // 2])
        elif fault is Fault.BROKEN:
            writer.write(_error(b"InternalError", 500))
        else:
            writer.write(reply)

    async def _cut(self, head: bytes, half: bytes, writer: StreamWriter) -> None:
        """Let the server have half of it, and break both connections."""
        _, to_server = await asyncio.open_connection(self._host, self._port)
        to_server.write(self._changed(head) + half)
        with suppress(OSError):
            await to_server.drain()
        to_server.transport.abort()
        writer.transport.abort()

    async def _passed_on(self, head: bytes, body: bytes) -> bytes:
        from_server, to_server = await asyncio.open_connection(self._host, self._port)
        try:
            to_server.write(self._changed(head) + body)
            await to_server.drain()
            return await from_server.read(-1)
        finally:
            to_server.close()

    def _changed(self, head: bytes) -> bytes:
        """Have the server close the connection after its answer; but for `strip`, no changed field is signed."""
        without = (b"expect", b"connection", *self._strip)
        first, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        kept = [field for field in fields if field.partition(b":")[0].lower() not in without]
        return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def field_of(head: bytes, name: bytes) -> bytes:
    """Read a field of a head; its name is given in lower case."""
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return b""


def _error(code: bytes, status: int) -> bytes:
    body = TOLD % code
    first = b"HTTP/1.1 %d Later\r\nContent-Type: application/xml\r\nConnection: close\r\n" % status
    return first + b"Content-Length: %d\r\n\r\n" % len(body) + body
