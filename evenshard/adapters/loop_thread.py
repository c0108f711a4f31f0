"""One event loop in one thread, for code that blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

_T = TypeVar("_T")


class LoopThread:
    """A daemon thread that runs an event loop until it is closed.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._farewell: asyncio.Future[Callable[[], Awaitable[None]]] = self._loop.create_future()
        self._is_closed = False
        self._door = threading.RLock()  # re-entered where garbage collection, inside it, ends a call
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Say whether the caller runs in this very thread, and so must not wait for it."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Have the loop run something, and wait for what it gives."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def tell(self, callback: Callable[..., object], *args: object) -> bool:
        """Have the loop call something soon, in the order of telling.

        Returns:
            Whether it will: not after `close`, nor in a forked process, which inherits no thread.
        """
        with self._door:
            if self._is_closed or not self._thread.is_alive():
                return False
            self._loop.call_soon_threadsafe(callback, *args)
            return True

    def close(self, farewell: Callable[[], Awaitable[None]]) -> None:
        """End the loop and the thread. Again, or from inside the loop, it does not wait.

        Args:
            farewell: what the loop does last.
        """
        with self._door:
            self.tell(self._farewell.set_result, farewell)
            self._is_closed = True
        if not self.is_current and self._thread.is_alive():
            self._thread.join()

    def _live(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        farewell = await self._farewell
        await farewell()
        for _ in range(5):  # transports take some turns of the loop to close what they were told to
            await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()
