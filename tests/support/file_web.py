"""A web server on loopback that gives one file in many ways, good and bad, one way per path."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.serving import QuietHandler, Serving

if TYPE_CHECKING:
    from collections.abc import Callable

ETAG = '"v1"'
DATE = "Mon, 05 Jan 2026 10:00:00 GMT"


@dataclass(kw_only=True)
class Reply:
    """What is sent for one request.

    Args:
        status: of the answer.
        body: what is sent of it.
        fields: its header.
        cut: bytes after which the connection breaks; None sends all.
    """

    status: int = 200
    body: bytes = b""
    fields: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: its method, path with query, and header fields, names in lower case."""

    method: str
    target: str
    fields: dict[str, str]


def plain(data: bytes, _: Asked) -> Reply:
    """Give all, whatever was asked for."""
    return Reply(body=data, fields={"ETag": ETAG})


def ranged(data: bytes, asked: Asked, *, etag: str = ETAG, date: str = "") -> Reply:
    """Give the range that was asked for, as RFC 9110 has it."""
    fields = {"ETag": etag, "Last-Modified": date}
    if asked.fields.get("if-match", etag) != etag or asked.fields.get("if-unmodified-since", date) != date:
        return Reply(status=412, fields=fields)
    first, sign, last = asked.fields.get("range", "").removeprefix("bytes=").partition("-")
    if not sign:
        return Reply(body=data, fields=fields)
    start = int(first) if first else max(0, len(data) - int(last))
    stop = min(int(last) + 1, len(data)) if first and last else len(data)
    if start >= len(data):
        return Reply(status=416, body=b"no such range", fields={**fields, "Content-Range": f"bytes */{len(data)}"})
    return Reply(
        status=206, body=data[start:stop], fields={**fields, "Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
    )


def packed(data: bytes, _: Asked) -> Reply:
    """Give all, packed, though that was not asked for."""
    return Reply(body=gzip.compress(data, mtime=0), fields={"ETag": 'W/"v1"', "Content-Encoding": "gzip"})


class FileWeb(Serving):
    """Serves `data`: at `/<way>/...` in the way of that name.

    Args:
        data: the file.
        ways: what answers a request, by the first part of its path.
    """

    def __init__(self, data: bytes, ways: dict[str, Callable[[bytes, Asked], Reply]]) -> None:
        self.data, self.ways = data, ways
        self.asked: list[Asked] = []
        self.num_sent_bytes: Counter[str] = Counter()
        super().__init__(self._handler())

    def times(self, way: str) -> int:
        """Count the requests for a way."""
        return sum(asked.target.split("/")[1] == way for asked in self.asked)

    def _handler(self) -> type[QuietHandler]:
        web = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 - http.server calls it so
                fields = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(method=self.command, target=self.path, fields=fields)
                web.asked.append(asked)
                reply = web.ways[self.path.split("/")[1]](web.data, asked)
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.fields}.items():
                    if value:
                        self.send_header(name, value)
                self.end_headers()
                sent = reply.body if reply.cut is None else reply.body[: reply.cut]
                self.wfile.write(sent)
                web.num_sent_bytes[self.path] += len(sent)
                self.close_connection = self.close_connection or reply.cut is not None

            def do_HEAD(self) -> None:  # noqa: N802 - http.server calls it so
                web.asked.append(Asked(method=self.command, target=self.path, fields={}))
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler
