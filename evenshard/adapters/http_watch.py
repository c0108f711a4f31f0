"""A deadline for a whole answer: httpx limits each wait for bytes, and a server that drips them passes all of those."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECTED: Final = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class Watch:
    """Shuts the connection of a request when its time is up, from a thread of its own.

    Args:
        seconds: until then.
    """

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = self._started(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def extend(self, seconds: float) -> None:
        """Begin anew, with so much time."""
        self._timer.cancel()
        self._timer = self._started(seconds)

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of a connection that is made. Source: the `trace` extension of httpx."""
        if event in _CONNECTED:
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                if self.expired:
                    self._shut()

    def _started(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._end)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self) -> None:
        with self._lock:
            self.expired = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)
