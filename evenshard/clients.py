"""One web client for each way of asking, shared by all that a process does at once."""

from __future__ import annotations

import atexit
import threading
from io import BytesIO
from typing import Final, Self

from evenshard.adapters.fetch import Body, Fetcher, FetchOptions
from evenshard.core.errors import RunStoppedError
from evenshard.core.recipe import ImageOptions


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


_OWN: Final = Clients()
"""For callers that fetch one link at a time; open until the interpreter ends."""
atexit.register(_OWN.close)


def download_image_with_retry(
    retries: int, url: str | None, *, timeout: float = 10.0
) -> tuple[BytesIO | None, str | None]:
    """Fetch one link, for transforms of one's own that fetch in threads.

    Args:
        retries: attempts after the first, 0 to 9.
        url: the link as the table has it.
        timeout: seconds for one whole answer.

    Returns:
        The body and None, or None and the reason why there is none.
    """
    fetcher = _OWN.get(FetchOptions(timeout_seconds=timeout, attempts=retries + 1))
    ((_, result),) = fetcher.fetch([url], max_body_bytes=ImageOptions().max_body_bytes)
    if isinstance(result, Body):
        return BytesIO(result.data), None
    return None, f"{result.reason}: {result.detail}" if result.detail else str(result.reason)
