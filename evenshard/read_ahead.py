"""Items read before they are needed, by threads that wait for a store."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

PER_THREAD: Final = 2
"""Items asked for at once: one that a thread reads, and one that it has read, or reads next."""


class ReadAhead(Generic[_Item, _Result]):
    """Gives items in order, with what was read of each; an error comes in its item's turn.

    Args:
        read: reads one.
        items: what is to be read.
        num_threads: who read at once; with 0, each item is read when it is asked for.
    """

    def __init__(self, read: Callable[[_Item], _Result], items: Iterable[_Item], *, num_threads: int) -> None:
        self._read = read
        self._items = iter(items)
        self._max_waiting = PER_THREAD * num_threads
        self._waiting: deque[tuple[_Item, Future[_Result]]] = deque()
        self._pool = ThreadPoolExecutor(num_threads, "evenshard-read-ahead") if num_threads else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[_Item, _Result]:
        if self._pool is None:
            item = next(self._items)
            return item, self._read(item)
        for item in self._items:
            self._waiting.append((item, self._pool.submit(self._read, item)))
            if len(self._waiting) > self._max_waiting:
                break
        if not self._waiting:
            raise StopIteration
        item, future = self._waiting.popleft()
        return item, future.result()

    def close(self) -> None:
        """End the threads once they have read what they are at; nobody waits for that."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
