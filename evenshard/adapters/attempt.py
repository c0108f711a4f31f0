"""One attempt at one link: its redirects, its body, its time and byte limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

import httpx

from evenshard.adapters.budget import Hold
from evenshard.adapters.transport import TRANSLATED, failure_of
from evenshard.core.answer import REDIRECTS, declared_bytes, decoder_for, status_failure
from evenshard.core.link import join_link
from evenshard.core.outcome import Failure, Reason
from evenshard.core.retry import parse_retry_after

if TYPE_CHECKING:
    from evenshard.adapters.budget import Budget
    from evenshard.adapters.fetch import FetchOptions
    from evenshard.core.answer import Decoder


class Clock(Protocol):
    """Where the time comes from, so that tests need not wait for it."""

    def now(self) -> float:
        """Give the seconds since the epoch, to compare with dates that servers name."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole body.

    Args:
        data: the body, its content coding taken off.
        url: the address that gave it.
        http_status: of that answer, 200 to 299.
    """

    data: bytes
    url: str
    http_status: int


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far an attempt is: where it asks, what came, what it holds, when it must be done."""

    address: str
    http_status: int | None = None
    hold: Hold
    max_body_bytes: int
    deadline: asyncio.Timeout


class Asker:
    """Asks for links, each once. It lives in one event loop.

    Args:
        transport: what sends the requests.
        budget: what bodies take their bytes from.
        options: deadline, number of redirects, user agent.
        clock: tells the time, for servers that say until when to wait.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport, budget: Budget, *, options: FetchOptions, clock: Clock
    ) -> None:
        self._transport = transport
        self._budget = budget
        self._options = options
        self._clock = clock
        # Pictures do not compress, and a coding that was not asked for is one source of faults less.
        self._headers = {"User-Agent": options.user_agent, "Accept": "*/*", "Accept-Encoding": "identity"}

    async def ask(self, link: str, hold: Hold, *, max_body_bytes: int) -> Answer | Failure:
        """Ask for a link and take the whole answer.

        Args:
            link: an address as `normalise_link` gives it.
            hold: what the body's bytes are added to; left to the caller to give back.
            max_body_bytes: longest body that is taken, on the wire and decoded.
        """
        deadline = asyncio.timeout(self._options.timeout_seconds)
        progress = _Progress(address=link, hold=hold, max_body_bytes=max_body_bytes, deadline=deadline)
        try:
            async with deadline:
                result = await self._follow(progress)
        except TRANSLATED as error:
            result = self._too_slow(progress) if deadline.expired() else failure_of(error)
        if isinstance(result, Answer):
            return result
        last = None if progress.address == link else progress.address
        return replace(result, http_status=progress.http_status, url=last)

    def _too_slow(self, progress: _Progress) -> Failure:
        came = "a part of the body" if progress.hold.num_bytes else "no byte of a body"
        return Failure(reason=Reason.TOO_SLOW, detail=f"{came} within {self._options.timeout_seconds:g} s")

    async def _follow(self, progress: _Progress) -> Answer | Failure:
        for num_left in range(self._options.max_redirects, -1, -1):
            response = await self._send(progress.address)
            progress.http_status = response.status_code
            try:
                if response.status_code not in REDIRECTS:
                    return await self._take(response, progress)
            finally:
                await response.aclose()
            target = _redirect_target(response, progress.address)
            if isinstance(target, Failure):
                return target
            if num_left:
                progress.address = target
        return Failure(reason=Reason.TOO_MANY_REDIRECTS, detail=f"more than {self._options.max_redirects}")

    async def _send(self, address: str) -> httpx.Response:
        """Send one request. Every hop of every row passes here, and nowhere else, before a connection is made."""
        return await self._transport.handle_async_request(httpx.Request("GET", address, headers=self._headers))

    async def _take(self, response: httpx.Response, progress: _Progress) -> Answer | Failure:
        retry_after = parse_retry_after(response.headers.get("retry-after"), now=self._clock.now())
        refused = status_failure(response.status_code, retry_after_seconds=retry_after)
        result = refused or await self._read(response, progress)
        if isinstance(result, Failure):
            return result
        return Answer(data=result, url=progress.address, http_status=response.status_code)

    async def _read(self, response: httpx.Response, progress: _Progress) -> bytes | Failure:
        declared = declared_bytes(response.headers)
        if (declared or 0) > progress.max_body_bytes:
            return _too_large(f"{declared} bytes are declared", progress)
        decoder = decoder_for(response.headers.get("content-encoding"))
        if isinstance(decoder, Failure):
            return decoder
        pieces: list[bytes] = []
        num_wire_bytes = 0
        async for chunk in cast("httpx.AsyncByteStream", response.stream):
            num_wire_bytes += len(chunk)
            if num_wire_bytes > progress.max_body_bytes:
                return _too_large("more came", progress)
            for piece in decoder.pieces(chunk):
                if progress.hold.num_bytes + len(piece) > progress.max_body_bytes:
                    return _too_large("it unpacks to more", progress)
                await self._take_bytes(len(piece), progress)
                pieces.append(piece)
        return _shortfall(declared, num_wire_bytes, decoder) or _joined(pieces)

    async def _take_bytes(self, num_bytes: int, progress: _Progress) -> None:
        """Take room for bytes. A wait for it is ours, not the server's: the deadline stands still meanwhile."""
        if self._budget.take_now(progress.hold, num_bytes):
            return
        now = asyncio.get_running_loop().time
        left = cast("float", progress.deadline.when()) - now()
        progress.deadline.reschedule(None)
        await self._budget.take(progress.hold, num_bytes)
        progress.deadline.reschedule(now() + left)


def _redirect_target(response: httpx.Response, address: str) -> str | Failure:
    location = response.headers.get("location", "").strip()
    if not location:
        return Failure(reason=Reason.BAD_REDIRECT, detail=f"HTTP {response.status_code} without a Location")
    target = join_link(address, location)
    if isinstance(target, Failure):
        return Failure(reason=Reason.BAD_REDIRECT, detail=f"to {location[:200]!r}: {target.detail}")
    return target


def _shortfall(declared: int | None, num_wire_bytes: int, decoder: Decoder) -> Failure | None:
    """Say what is missing of a body whose stream has ended."""
    if declared not in (None, num_wire_bytes):
        return Failure(reason=Reason.CUT_SHORT, detail=f"{num_wire_bytes} of {declared} bytes came")
    if num_wire_bytes and not decoder.is_complete:
        return Failure(reason=Reason.CUT_SHORT, detail=f"the content coding is cut after {num_wire_bytes} bytes")
    return None


def _joined(pieces: list[bytes]) -> bytes | Failure:
    return b"".join(pieces) or Failure(reason=Reason.EMPTY_BODY)


def _too_large(seen: str, progress: _Progress) -> Failure:
    return Failure(reason=Reason.TOO_LARGE, detail=f"{seen}; the limit is {progress.max_body_bytes} bytes")
