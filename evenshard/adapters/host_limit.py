"""How many requests one host gets at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class HostLimit:
    """Lends out places by host, first come, first served. It lives in one event loop.

    Args:
        num_per_host: requests that one host gets at once, 1 or more.
    """

    def __init__(self, num_per_host: int) -> None:
        self._num_per_host = num_per_host
        self._places: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    def is_full(self, host: str) -> bool:
        """Say whether a request to this host would have to wait."""
        places = self._places.get(host)
        return places is not None and places.locked()

    @asynccontextmanager
    async def place(self, host: str) -> AsyncIterator[None]:
        """Wait for a place at a host, and keep it for the length of the context."""
        places = self._places.setdefault(host, asyncio.Semaphore(self._num_per_host))
        self._users[host] = self._users.get(host, 0) + 1
        try:
            async with places:
                yield
        finally:
            self._users[host] -= 1
            if not self._users[host]:
                del self._places[host], self._users[host]
