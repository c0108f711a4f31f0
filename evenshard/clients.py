"""One web client for each way of asking, shared by all that a process does at once."""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Final, Self

from evenshard.adapters.attempt import Terms
from evenshard.adapters.fetch import Body, Fetcher, FetchOptions
from evenshard.core.errors import RunStoppedError
from evenshard.core.recipe import ImageOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class Clients:
    """Makes each client when it is first asked for, and closes all at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fetchers: dict[FetchOptions, Fetcher] = {}
        self._closed = False

    def get(self, options: FetchOptions) -> Fetcher:
        """Give the client for a way of asking; any number of threads may use it."""
        with self._lock:
            if self._closed:
                raise RunStoppedError("the run was stopped")
            if options not in self._fetchers:
                self._fetchers[options] = Fetcher(options)
            return self._fetchers[options]

    def close(self) -> None:
        """End all clients' threads and connections."""
        with self._lock:
            self._closed = True
            while self._fetchers:
                self._fetchers.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Own:
    """For callers that fetch one link at a time; open until the interpreter ends."""

    def __init__(self) -> None:
        self.clients = Clients()
        self._lock = threading.Lock()
        self._runs: list[FetchOptions] = []

    @contextmanager
    def used_by(self, options: FetchOptions) -> Iterator[None]:
        """Have single fetches ask the web as a run does, while the context lasts."""
        with self._lock:
            self._runs.append(options)
        try:
            yield
        finally:
            with self._lock:
                self._runs.remove(options)

    def options(self) -> FetchOptions:
        """Give the way of asking: the run's, or the default outside of runs, and where runs disagree.

        A callable may fetch from threads of its own, so nobody can say which run a thread belongs to; no run
        may open hosts for another.
        """
        with self._lock:
            return self._runs[0] if len(set(self._runs)) == 1 else FetchOptions()


_OWN: Final = _Own()
atexit.register(_OWN.clients.close)


def fetching_as(options: FetchOptions) -> AbstractContextManager[None]:
    """Have this process's single fetches, those of a run's callable, ask the web as the run does."""
    return _OWN.used_by(options)


def download_image_with_retry(
    retries: int, url: str | None, *, timeout: float = 10.0
) -> tuple[BytesIO | None, str | None]:
    """Fetch one link, for transforms of one's own that fetch in threads.

    Inside a run the web is asked as the run's options say, but for `retries` and `timeout`: the same hosts are
    open, and one host gets no more requests at once.

    Args:
        retries: attempts after the first, 0 to 9.
        url: the link as the table has it.
        timeout: seconds for one whole answer.

    Returns:
        The body and None, or None and the reason why there is none.
    """
    terms = Terms(max_body_bytes=ImageOptions().max_body_bytes, timeout_seconds=timeout, attempts=retries + 1)
    ((_, result),) = _OWN.clients.get(_OWN.options()).fetch([url], terms)
    if isinstance(result, Body):
        return BytesIO(result.data), None
    return None, f"{result.reason}: {result.detail}" if result.detail else str(result.reason)
