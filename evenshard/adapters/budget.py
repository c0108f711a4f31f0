"""How much of the web a process holds at once: requests by number, bodies by their bytes."""

from __future__ import annotations

import asyncio
from bisect import insort
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True, kw_only=True, eq=False)
class Hold:
    """The bytes that one request holds: of a body that is being read, or waits to be consumed.

    Args:
        order: the place of the request among all; lower began earlier.
        num_bytes: what it holds now.
    """

    order: int
    num_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    hold: Hold
    num_bytes: int
    granted: asyncio.Future[None]


class Budget:
    """Places for requests, and bytes for bodies. It lives in one event loop.

    When no byte is left, no request begins, and bodies stop where they are, but for one: the oldest
    that waits goes on past the limit until it is consumed. So one body at most is beyond the limit,
    and there is always one that gets done.
    """

    def __init__(self, *, num_places: int, max_bytes: int) -> None:
        self._places = asyncio.Semaphore(num_places)
        self._max_bytes = max_bytes
        self._orders = count()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._waiting: list[_Waiting] = []
        self._beyond: Hold | None = None
        self.held_bytes = 0
        self.peak_bytes = 0

    def begin(self) -> Hold:
        """Give the hold of a new request, with nothing in it."""
        return Hold(order=next(self._orders))

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and for room, and keep the place for the length of the context."""
        await self._enter()
        try:
            yield
        finally:
            self._places.release()

    async def _enter(self) -> None:
        while True:
            await self._has_room.wait()
            await self._places.acquire()
            if self._has_room.is_set():
                return
            self._places.release()

    def take_now(self, hold: Hold, num_bytes: int) -> bool:
        """Add bytes to a hold if that can be done without waiting, and say whether it was."""
        first_in_line = hold is self._beyond or not self._waiting
        if first_in_line and self._fits(hold, num_bytes):
            self._add(hold, num_bytes)
            return True
        return False

    async def take(self, hold: Hold, num_bytes: int) -> None:
        """Add bytes to a hold, waiting until that can be done."""
        if self.take_now(hold, num_bytes):
            return
        entry = _Waiting(hold=hold, num_bytes=num_bytes, granted=asyncio.get_running_loop().create_future())
        insort(self._waiting, entry, key=lambda each: each.hold.order)
        self._grant()
        try:
            await entry.granted
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._grant()
            raise

    def give_back(self, hold: Hold) -> None:
        """Take all bytes out of a hold; doing so again does nothing."""
        self.held_bytes -= hold.num_bytes
        hold.num_bytes = 0
        if hold is self._beyond:
            self._beyond = None
        if self.held_bytes < self._max_bytes:
            self._has_room.set()
        self._grant()

    def _fits(self, hold: Hold, num_bytes: int) -> bool:
        return self.held_bytes + num_bytes <= self._max_bytes or self._beyond in (None, hold)

    def _add(self, hold: Hold, num_bytes: int) -> None:
        self.held_bytes += num_bytes
        hold.num_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        if self.held_bytes > self._max_bytes:
            self._beyond = hold
        if self.held_bytes >= self._max_bytes:
            self._has_room.clear()

    def _grant(self) -> None:
        while self._waiting:
            entry = self._waiting[0]
            if not entry.granted.done():
                if not self._fits(entry.hold, entry.num_bytes):
                    return
                self._add(entry.hold, entry.num_bytes)
                entry.granted.set_result(None)
            del self._waiting[0]  # granted now, or its request was cancelled meanwhile
