"""A web server on loopback whose answers a test decides."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.serving import QuietHandler, Serving

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


class Web(Serving):
    """Serves `answers` by path without its query; counts what is asked.

    Args:
        answer: called for paths that `answers` does not hold.
    """

    def __init__(self, answer: Callable[[str], Answer] | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: Counter[str] = Counter()
        self.answer = answer or (lambda _: Answer(body=b"no such thing", status=404))
        super().__init__(self._handler())

    def _handler(self) -> type[QuietHandler]:
        web = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 - http.server calls it so
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

        return Handler
