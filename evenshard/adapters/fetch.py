"""Links in, whole bodies or reasons out: the web as blocking code sees it.

`Fetcher` owns one thread with one event loop, one transport and one TLS context. Each call of `fetch`
runs there as a group of tasks; its results cross over one by one, as they are done.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_numbers
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Self

import httpx

from evenshard.adapters.attempt import Answer, Asker, Terms, check_range
from evenshard.adapters.budget import Budget, Hold
from evenshard.adapters.host_limit import HostLimit
from evenshard.adapters.loop_thread import LoopThread
from evenshard.adapters.resolver import Guard
from evenshard.adapters.transport import AiohttpTransport, describe
from evenshard.core.address import OpenHosts
from evenshard.core.errors import OptionError
from evenshard.core.link import host_of, normalise_link
from evenshard.core.outcome import Failure, Reason
from evenshard.core.retry import final_failure, should_retry, wait_seconds

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

    from evenshard.adapters.attempt import Clock

AGENT: Final = f"evenshard/{version('evenshard')}"

MAX_ASIDE: Final = 4_096
"""Rows of one call that wait for a place at their host while the rows behind them go on."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How the web is asked. None of it changes what is stored of a body that came.

    Args:
        concurrency: requests in flight per process, 1 to 1,024.
        timeout_seconds: for one attempt from the look-up of the name to the last byte, over all
            redirects, 0.05 to 3,600.
        attempts: how often a row is asked for at most, 1 to 10.
        max_redirects: how many are followed in one attempt, 0 to 20.
        per_host: requests that one host gets at once from this process, 1 to 1,024.
        max_held_bytes: bodies that are being read or wait to be consumed, together, 1 to 2^40; one
            body may pass it.
        contact: page or address by which the owner of a server reaches who asks, at most 256 printable
            ASCII characters; part of the user agent.
        open_hosts: hosts that may be asked though their address is not public.
    """

    concurrency: int = 32
    timeout_seconds: float = 10.0
    attempts: int = 3
    max_redirects: int = 5
    per_host: int = 16
    max_held_bytes: int = 64_000_000
    contact: str = ""
    open_hosts: OpenHosts = field(default_factory=OpenHosts)

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_range("concurrency", self.concurrency, 1, 1_024)
        check_range("timeout_seconds", self.timeout_seconds, 0.05, 3_600)
        check_range("attempts", self.attempts, 1, 10)
        check_range("max_redirects", self.max_redirects, 0, 20)
        check_range("per_host", self.per_host, 1, 1_024)
        check_range("max_held_bytes", self.max_held_bytes, 1, 2**40)
        if not (len(self.contact) <= 256 and self.contact.isascii() and (self.contact + " ").isprintable()):
            raise OptionError("contact", f"{self.contact[:300]!r} is not at most 256 printable ASCII characters")

    @property
    def agent(self) -> str:
        """How the asker names itself."""
        return f"{AGENT} (+{self.contact})" if self.contact else AGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a link gave.

    Args:
        data: the whole body, its content coding taken off.
        url: last address that was asked.
        http_status: its status, 200 to 299.
        num_attempts: how often the row was asked for, this time included.
    """

    data: bytes
    url: str
    http_status: int
    num_attempts: int


class _WallClock:
    """The time as it is."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One link of a call, at one attempt."""

    position: int
    link: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What crosses from the loop's thread to the caller's."""

    position: int
    result: Body | Failure
    hold: Hold | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """One running `fetch`. The loop's thread puts results, the caller's takes them; None is the end."""

    links: Sequence[str | None]
    terms: Terms
    results: SimpleQueue[_Done | None] = field(default_factory=SimpleQueue)
    ended: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    task: asyncio.Task[None] | None = None  # the loop's thread alone uses this and the next two
    holds: set[Hold] = field(default_factory=set)
    num_aside: int = 0
    given: Hold | None = None  # the caller's thread alone uses this

    def come_back(self, _: asyncio.Task[None]) -> None:
        """Count a row that waited aside as done."""
        self.num_aside -= 1


class Fetcher:
    """Fetches links. One per process: its limits are for all that the process asks for and holds at once.

    Several threads may fetch at the same time. One thread may not take from two calls in turn: bodies
    of the call that it leaves aside can take up all room. A call that is left early must be closed, as
    a `for` loop does by itself and `contextlib.closing` for an iterator with a name.

    Args:
        options: how the web is asked.
        clock: where the time comes from.
        random: where the jitter of the waits comes from.
    """

    def __init__(
        self, options: FetchOptions, *, clock: Clock | None = None, random: random_numbers.Random | None = None
    ) -> None:
        self._options = options
        self._clock = clock or _WallClock()
        self._random = random or random_numbers.Random()  # noqa: S311  # it spreads waits, and hides nothing
        self._budget = Budget(num_places=options.concurrency, max_bytes=options.max_held_bytes)
        self._hosts = HostLimit(options.per_host)
        self._calls: set[_Call] = set()
        self._thread = LoopThread("evenshard-fetch")
        self._transport = self._thread.run(_transport(options))
        self._asker = Asker(self._transport, self._budget, options=options, clock=self._clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs, close the connections, end the thread. Again, it does nothing."""
        self._thread.close(self._farewell)

    def fetch(self, links: Sequence[str | None], terms: Terms) -> Generator[tuple[int, Body | Failure]]:
        """Fetch links, and yield what each gave as soon as it did.

        Nothing begins before the first result is asked for. A body counts as held until the next
        result is asked for. When the iterator is closed, requests that still run are cancelled.

        Args:
            links: as the table has them; None and blank cells are failures.
            terms: which answers are taken.

        Returns:
            (position in `links`, result) in the order of finishing, every position exactly once.

        Raises:
            RuntimeError: the fetcher is closed, or becomes so before the last result.
        """
        call = _Call(links=links, terms=terms)
        if not self._thread.tell(self._start, call):
            raise RuntimeError("this fetcher is closed, or was made before the process was forked")
        try:
            for _ in range(len(links)):
                yield _taken(call)
                if call.given is not None:
                    self._thread.tell(self._release, call, call.given)
        finally:
            if self._thread.tell(self._abandon, call) and not self._thread.is_current:
                call.ended.wait()

    # From here on, everything runs in the loop's thread.

    async def _farewell(self) -> None:
        tasks = [call.task for call in self._calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.aclose()

    def _start(self, call: _Call) -> None:
        self._calls.add(call)
        call.task = asyncio.get_running_loop().create_task(self._run(call))
        call.task.add_done_callback(partial(self._end, call))

    def _end(self, call: _Call, task: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        call.error = None if task.cancelled() else task.exception()
        call.ended.set()
        call.results.put(None)

    def _abandon(self, call: _Call) -> None:
        if call.task is not None:
            call.task.cancel()
            call.task.add_done_callback(lambda _: self._drop(call))  # a body may still come in before it is done

    def _drop(self, call: _Call) -> None:
        for hold in list(call.holds):
            self._release(call, hold)

    def _release(self, call: _Call, hold: Hold) -> None:
        call.holds.discard(hold)
        self._budget.give_back(hold)

    async def _run(self, call: _Call) -> None:
        rows = enumerate(call.links)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._options.concurrency, len(call.links))):
                tasks.create_task(self._work(call, rows, tasks))

    async def _work(self, call: _Call, rows: Iterator[tuple[int, str | None]], tasks: asyncio.TaskGroup) -> None:
        for position, text in rows:
            link = normalise_link(text)
            if isinstance(link, Failure):
                call.results.put(_Done(position=position, result=link))
            else:
                await self._try_or_set_aside(call, _Row(position=position, link=link), tasks)

    async def _try_or_set_aside(self, call: _Call, row: _Row, tasks: asyncio.TaskGroup) -> None:
        """Try a row; where its host has no place, let it wait aside, and those behind it go on."""
        if not self._hosts.is_full(host_of(row.link)) or call.num_aside >= MAX_ASIDE:
            await self._try(call, row, tasks)
            return
        call.num_aside += 1
        tasks.create_task(self._try(call, row, tasks)).add_done_callback(call.come_back)

    async def _try(self, call: _Call, row: _Row, tasks: asyncio.TaskGroup) -> None:
        hold = self._budget.begin()
        try:
            answer = await self._ask(call, row, hold)
            if isinstance(answer, Failure):
                self._settle_failure(call, row, answer, tasks)
            else:
                self._settle_body(call, row, answer, hold)
        finally:
            if hold not in call.holds:
                self._budget.give_back(hold)

    async def _ask(self, call: _Call, row: _Row, hold: Hold) -> Answer | Failure:
        attempt = self._asker.begin(row.link, hold, call.terms)
        try:
            while True:  # each hop takes places anew: it may lead to another host
                async with self._hosts.place(host_of(attempt.address)), self._budget.place():
                    result = await attempt.hop()
                if result is not None:
                    return result
        except Exception as error:  # noqa: BLE001  # the row boundary: whatever comes, only its row may fail
            _LOG.exception("the row at position %d failed in an unforeseen way", row.position)
            return Failure(reason=Reason.BAD_ANSWER, detail=describe(error))

    def _settle_body(self, call: _Call, row: _Row, answer: Answer, hold: Hold) -> None:
        body = Body(data=answer.data, url=answer.url, http_status=answer.http_status, num_attempts=row.attempt)
        call.holds.add(hold)
        call.results.put(_Done(position=row.position, result=body, hold=hold))

    def _settle_failure(self, call: _Call, row: _Row, failure: Failure, tasks: asyncio.TaskGroup) -> None:
        attempts = self._options.attempts if call.terms.attempts is None else call.terms.attempts
        if should_retry(failure, attempt=row.attempt, attempts=attempts):
            seconds = wait_seconds(failure, attempt=row.attempt, jitter=self._random.random())
            tasks.create_task(self._try_again(call, replace(row, attempt=row.attempt + 1), seconds, tasks))
        else:
            call.results.put(_Done(position=row.position, result=final_failure(failure)))

    async def _try_again(self, call: _Call, row: _Row, seconds: float, tasks: asyncio.TaskGroup) -> None:
        await self._clock.sleep(seconds)
        await self._try(call, row, tasks)


def _taken(call: _Call) -> tuple[int, Body | Failure]:
    done = call.results.get()
    if done is None:
        raise RuntimeError("the fetcher ended before every row had its result") from call.error
    call.given = done.hold
    return done.position, done.result


async def _transport(options: FetchOptions) -> httpx.AsyncBaseTransport:
    """Make what sends the requests; to be run in its event loop, once."""
    context = httpx.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    guard = Guard(options.open_hosts)
    return AiohttpTransport(context, max_connections=options.concurrency, guard=guard)
