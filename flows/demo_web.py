"""The demo's web: a server on loopback that answers as it is told, faults included."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flows.demo_pages import Page


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # its own five are fewer than a client's connections at once, and the rest are dropped


@contextmanager
def served(pages: dict[str, Page]) -> Iterator[str]:
    """Serve pages on loopback for the block; gives the server's address."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = pages[self.path]
            asked[self.path] += 1
            time.sleep(page.seconds)
            busy = asked[self.path] <= page.busy
            status, body = (503, b"busy") if busy else (page.status, page.body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # a client that waited no longer
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
