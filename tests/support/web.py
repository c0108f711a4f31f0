"""A web server on loopback whose answers a test decides."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one path answers.

    Args:
        body: what is sent.
        status: what is said of it in the end.
        busy: how many times 503 comes first.
        seconds: how long the answer takes to begin.
        kind: content type; None sends none.
    """

    body: bytes = b""
    status: int = 200
    busy: int = 0
    seconds: float = 0.0
    kind: str | None = "image/jpeg"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # its own five are fewer than a client's connections at once, and the rest are dropped


class Web:
    """Serves `answers` by path without its query; counts what is asked.

    Args:
        answer: called for paths that `answers` does not hold.
    """

    def __init__(self, answer: Callable[[str], Answer] | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: Counter[str] = Counter()
        self.answer = answer or (lambda _: Answer(body=b"no such thing", status=404))
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                web.asked[self.path] += 1  # before an answer that a test may hold back
                answer = web.answers.get(path) or web.answer(path)
                time.sleep(answer.seconds)
                busy = web.asked[self.path] <= answer.busy
                body = b"busy" if busy else answer.body
                self.send_response(503 if busy else answer.status)
                self.send_header("Content-Length", str(len(body)))
                if answer.kind:
                    self.send_header("Content-Type", answer.kind)
                self.end_headers()
                self.wfile.write(body)

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
