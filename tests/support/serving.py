"""What the tests' web servers on loopback have in common: how they begin, end, and take broken connections."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # its own five are fewer than a client's connections at once, and the rest are dropped


class QuietHandler(BaseHTTPRequestHandler):
    """Answers on kept connections, prints nothing, and takes it that a client goes away."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Answer until the client has enough."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Serving:
    """A server that runs while it is entered.

    Args:
        handler: what answers.
    """

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
