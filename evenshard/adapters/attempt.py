"""One attempt at one link: its redirects, its body, its time and byte limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, cast

import httpx

from evenshard.adapters.transport import TRANSLATED, failure_of
from evenshard.core.answer import REDIRECTS, declared_bytes, decoder_for, status_failure
from evenshard.core.errors import OptionError
from evenshard.core.link import join_link
from evenshard.core.opt_out import FIELD, find_opt_out
from evenshard.core.outcome import Failure, Reason
from evenshard.core.retry import parse_retry_after

if TYPE_CHECKING:
    from evenshard.adapters.budget import Budget, Hold
    from evenshard.adapters.fetch import FetchOptions
    from evenshard.core.answer import Decoder
    from evenshard.core.recipe import Recipe


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Which answers are taken.

    Args:
        max_body_bytes: longest body, on the wire and decoded.
        respect_opt_outs: whether answers that ask not to be used are left.
        timeout_seconds, attempts: in place of those of the fetcher's options.
    """

    max_body_bytes: int
    respect_opt_outs: bool = True
    timeout_seconds: float | None = None
    attempts: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_range("timeout_seconds", 1 if self.timeout_seconds is None else self.timeout_seconds, 0.05, 3_600)
        check_range("attempts", 1 if self.attempts is None else self.attempts, 1, 10)

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """Read them from a recipe, which they belong to: they decide what is stored."""
        return cls(max_body_bytes=recipe.image.max_body_bytes, respect_opt_outs=recipe.respect_opt_outs)


class Asker:
    """Asks for links. It lives in one event loop.

    Args:
        transport: what sends the requests.
        budget: what bodies take their bytes from.
        options: deadline, number of redirects, how the asker names itself.
        clock: tells the time, for servers that say until when to wait.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport, budget: Budget, *, options: FetchOptions, clock: Clock
    ) -> None:
        self.transport = transport
        self.budget = budget
        self.options = options
        self.clock = clock
        # Pictures do not compress, and a coding that was not asked for is one source of faults less.
        self.headers = {"User-Agent": options.agent, "Accept": "*/*", "Accept-Encoding": "identity"}

    def begin(self, link: str, hold: Hold, terms: Terms) -> Attempt:
        """Begin an attempt at a link.

        Args:
            link: an address as `normalise_link` gives it.
            hold: what the body's bytes are added to; left to the caller to give back.
            terms: which answers are taken.
        """
        return Attempt(self, link, hold, terms)


class Attempt:
    """One attempt at one link, hop by hop: each redirect is a hop of its own, to another host perhaps.

    The deadline is for all hops together; what passes between them is not counted.
    """

    def __init__(self, asker: Asker, link: str, hold: Hold, terms: Terms) -> None:
        self._asker, self._link, self._hold, self._terms = asker, link, hold, terms
        self._seconds = asker.options.timeout_seconds if terms.timeout_seconds is None else terms.timeout_seconds
        self._seconds_left = self._seconds
        self._redirects_left = asker.options.max_redirects
        self._http_status: int | None = None
        self._deadline = asyncio.timeout(None)
        self.address = link

    async def hop(self) -> Answer | Failure | None:
        """Ask the current address; None where it led to another one, which is the current one now."""
        loop = asyncio.get_running_loop()
        self._deadline = asyncio.timeout(self._seconds_left)
        try:
            async with self._deadline:
                result = await self._ask()
                self._seconds_left = cast("float", self._deadline.when()) - loop.time()
        except TRANSLATED as error:
            result = self._too_slow() if self._deadline.expired() else failure_of(error)
        if not isinstance(result, Failure):
            return result
        return replace(result, http_status=self._http_status, url=None if self.address == self._link else self.address)

    def _too_slow(self) -> Failure:
        came = "a part of the body" if self._hold.num_bytes else "no byte of a body"
        return Failure(reason=Reason.TOO_SLOW, detail=f"{came} within {self._seconds:g} s")

    async def _ask(self) -> Answer | Failure | None:
        response = await self._asker.transport.handle_async_request(
            httpx.Request("GET", self.address, headers=self._asker.headers)
        )
        self._http_status = response.status_code
        try:
            if response.status_code not in REDIRECTS:
                return await self._take(response)
        finally:
            await response.aclose()
        return self._follow(response)

    def _follow(self, response: httpx.Response) -> Failure | None:
        target = _redirect_target(response, self.address)
        if isinstance(target, Failure):
            return target
        if not self._redirects_left:
            return Failure(reason=Reason.TOO_MANY_REDIRECTS, detail=f"more than {self._asker.options.max_redirects}")
        self._redirects_left -= 1
        self.address = target
        return None

    async def _take(self, response: httpx.Response) -> Answer | Failure:
        retry_after = parse_retry_after(response.headers.get("retry-after"), now=self._asker.clock.now())
        refused = status_failure(response.status_code, retry_after_seconds=retry_after)
        result = refused or self._opted_out(response) or await self._read(response)
        if isinstance(result, Failure):
            return result
        return Answer(data=result, url=self.address, http_status=response.status_code)

    def _opted_out(self, response: httpx.Response) -> Failure | None:
        if not self._terms.respect_opt_outs:
            return None
        directive = find_opt_out(response.headers.get_list(FIELD))
        return None if directive is None else Failure(reason=Reason.OPTED_OUT, detail=f"X-Robots-Tag: {directive}")

    async def _read(self, response: httpx.Response) -> bytes | Failure:
        declared, limit = declared_bytes(response.headers), self._terms.max_body_bytes
        if (declared or 0) > limit:
            return _too_large(f"{declared} bytes are declared", limit)
        decoder = decoder_for(response.headers.get("content-encoding"))
        if isinstance(decoder, Failure):
            return decoder
        pieces: list[bytes] = []
        num_wire_bytes = 0
        async for chunk in cast("httpx.AsyncByteStream", response.stream):
            num_wire_bytes += len(chunk)
            if num_wire_bytes > limit:
                return _too_large("more came", limit)
            for piece in decoder.pieces(chunk):
                if self._hold.num_bytes + len(piece) > limit:
                    return _too_large("it unpacks to more", limit)
                await self._take_bytes(len(piece))
                pieces.append(piece)
        return _shortfall(declared, num_wire_bytes, decoder) or _joined(pieces)

    async def _take_bytes(self, num_bytes: int) -> None:
        """Take room for bytes. A wait for it is ours, not the server's: the deadline stands still meanwhile."""
        budget = self._asker.budget
        if budget.take_now(self._hold, num_bytes):
            return
        now = asyncio.get_running_loop().time
        left = cast("float", self._deadline.when()) - now()
        self._deadline.reschedule(None)
        await budget.take(self._hold, num_bytes)
        self._deadline.reschedule(now() + left)


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Refuse an option's value that is out of range, by name."""
    if not low <= value <= high:
        raise OptionError(option, f"{value} is out of range; it must be from {low} to {high}")


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


def _too_large(seen: str, limit: int) -> Failure:
    return Failure(reason=Reason.TOO_LARGE, detail=f"{seen}; the limit is {limit} bytes")
