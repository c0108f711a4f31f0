"""A web server on loopback that misbehaves on order, one behaviour per path, down to the bytes on the wire."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import socket
import ssl
import struct
import threading
import time
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

from tests.support.pictures import jpeg

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PICTURE: Final = jpeg()
"""What a good answer holds."""

PAGE: Final = b"<!doctype html><title>Please agree</title><p>We value your privacy.</p>"

LARGE_BYTES: Final = 1_000_000
DRIP_SECONDS: Final = 0.05
MOMENT: Final = 1_800_000_000.0
"""Seconds since the epoch, where the server's dates start from."""


@dataclass(kw_only=True)
class Exchange:
    """One request and what is sent for it.

    Args:
        web: the server.
        target: path and query, as they came.
        hit: how often this target was asked for, this time included.
        reader, writer: the connection.
    """

    web: MisbehavingWeb
    target: str
    hit: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes and wait until the other side takes more."""
        self.writer.write(data)
        await self.writer.drain()
        self.web.num_sent_bytes[self.target] += len(data)

    async def say_nothing(self) -> None:
        """Wait until the other side goes away."""
        await self.reader.read()

    async def reset(self) -> None:
        """End the connection the rude way."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def answer(status: int = 200, body: bytes = b"", **fields: str) -> bytes:
    """Write a whole answer after which the connection closes; a field with an empty value is left out."""
    given = {"content_length": str(len(body)), "connection": "close", **fields}
    lines = [f"HTTP/1.1 {status} x", *(f"{k.replace('_', '-')}: {v}" for k, v in given.items() if v)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n", **fields: Any) -> bytes:  # noqa: ANN401 - texts
    """Write an answer in chunks."""
    head = answer(content_length="", transfer_encoding="chunked", **fields)
    return head + b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + end


def redirect(to: str, status: int = 302) -> bytes:
    """Write an answer that sends the asker on."""
    return answer(status, location=to)


def packed(data: bytes, window_bits: int) -> bytes:
    """Compress with or without a wrapper."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    return packer.compress(data) + packer.flush()


async def _drip(exchange: Exchange, data: bytes) -> None:
    for index in range(len(data)):
        await exchange.send(data[index : index + 1])
        await asyncio.sleep(DRIP_SECONDS)


async def _silent(exchange: Exchange) -> None:
    await exchange.say_nothing()


async def _drip_head(exchange: Exchange) -> None:
    await _drip(exchange, answer(body=PICTURE))


async def _drip_body(exchange: Exchange) -> None:
    await exchange.send(answer(content_length=str(len(PICTURE))))
    await _drip(exchange, PICTURE)


async def _stalled(exchange: Exchange) -> None:
    await exchange.send(answer(content_length=str(len(PICTURE))) + PICTURE[:100])
    await exchange.say_nothing()


async def _endless(exchange: Exchange) -> None:
    await exchange.send(answer(content_length=""))
    while True:
        await exchange.send(bytes(65_536))


async def _endless_chunks(exchange: Exchange) -> None:
    await exchange.send(chunked(end=b""))
    while True:
        await exchange.send(b"10000\r\n" + bytes(65_536) + b"\r\n")


async def _declared(exchange: Exchange) -> None:
    await exchange.send(answer(content_length=str(10 * 1024**3)))
    while True:
        await exchange.send(bytes(65_536))


async def _in_two(exchange: Exchange) -> None:
    """Send a fixed answer's head and body apart, so that they are parsed apart."""
    head, end, body = FIXED[exchange.target.rpartition("/")[2]].partition(b"\r\n\r\n")
    await exchange.send(head + end)
    await asyncio.sleep(DRIP_SECONDS)
    await exchange.send(body)


async def _reset_in_body(exchange: Exchange) -> None:
    await exchange.send(answer(content_length=str(len(PICTURE))) + PICTURE[:100])
    await asyncio.sleep(DRIP_SECONDS)  # a reset overtakes what is still on its way
    await exchange.reset()


async def _reset_at_once(exchange: Exchange) -> None:
    await exchange.reset()


async def _busy_twice(exchange: Exchange) -> None:
    await exchange.send(answer(503) if exchange.hit <= 2 else answer(body=PICTURE))


async def _limited_until_soon(exchange: Exchange) -> None:
    soon = email.utils.formatdate(time.time() + 2.5, usegmt=True)
    await exchange.send(answer(429, retry_after=soon) if exchange.hit == 1 else answer(body=PICTURE))


async def _limited_twice(exchange: Exchange) -> None:
    await exchange.send(answer(429, retry_after="1") if exchange.hit <= 2 else answer(body=PICTURE))


def _limited_once(*, retry_after: str) -> Callable[[Exchange], Awaitable[None]]:
    async def limit(exchange: Exchange) -> None:
        await exchange.send(answer(429, retry_after=retry_after) if exchange.hit == 1 else answer(body=PICTURE))

    return limit


async def _chain(exchange: Exchange) -> None:
    num_left = int(exchange.target.rpartition("/")[2])
    await exchange.send(redirect(f"/chain/{num_left - 1}" if num_left > 1 else "/ok"))


async def _kept(exchange: Exchange) -> None:
    await exchange.send(answer(body=PICTURE, connection="keep-alive"))


async def _large(exchange: Exchange) -> None:
    await exchange.send(answer(body=bytes(LARGE_BYTES)))


async def _to(exchange: Exchange) -> None:
    await exchange.send(redirect(unquote(exchange.target.partition("?")[2])))


async def _after_a_moment(exchange: Exchange) -> None:
    await asyncio.sleep(0.002)  # long enough for others to come meanwhile
    await exchange.send(answer(body=PICTURE))


async def _slowly(exchange: Exchange) -> None:
    await asyncio.sleep(DRIP_SECONDS)
    await exchange.send(answer(body=PICTURE))


async def _echo(exchange: Exchange) -> None:
    await exchange.send(answer(body=exchange.target.encode()))


_GZIP: Final = gzip.compress(PICTURE, mtime=0)
_DAY: Final = "86400"
_SOON: Final = email.utils.formatdate(MOMENT + 7, usegmt=True)

FIXED: Final[dict[str, bytes]] = {
    "ok": answer(body=PICTURE),
    "chunked": chunked(PICTURE[:1000], PICTURE[1000:]),
    "until-close": answer(content_length="") + PICTURE,
    "text-type": answer(body=PICTURE, content_type="text/html"),
    "long-field": answer(body=PICTURE, content_security_policy="x" * 16_000),
    "many-fields": answer(body=PICTURE, **dict[str, Any]({f"x_{n}": "y" for n in range(100)})),
    "cookie": answer(body=PICTURE, set_cookie="tracked=yes; Path=/"),
    "201": answer(201, body=PICTURE),
    "gzip": answer(body=_GZIP, content_encoding="gzip"),
    "x-gzip": answer(body=_GZIP, content_encoding="X-GZip"),
    "gzip-chunked": chunked(_GZIP[:7], _GZIP[7:], content_encoding="gzip"),
    "deflate": answer(body=packed(PICTURE, 15), content_encoding="deflate"),
    "deflate-raw": answer(body=packed(PICTURE, -15), content_encoding="deflate"),
    "identity": answer(body=PICTURE, content_encoding="identity"),
    "gzip-cut": answer(body=_GZIP[: len(_GZIP) // 2], content_encoding="gzip"),
    "gzip-false": answer(body=PICTURE, content_encoding="gzip"),
    "gzip-empty": answer(body=gzip.compress(b""), content_encoding="gzip"),
    "bomb": answer(body=packed(bytes(16 << 20), 31), content_encoding="gzip"),
    "brotli": answer(body=PICTURE, content_encoding="br"),
    "noai": answer(body=PICTURE, x_robots_tag="noai"),
    "noindex-later": answer(body=PICTURE, x_robots_tag="otherbot: all\r\nX-Robots-Tag: nofollow, noindex"),
    "noai-for-others": answer(body=PICTURE, x_robots_tag="otherbot: noai"),
    "noai-404": answer(404, x_robots_tag="noai"),
    "zero": answer(),
    "zero-chunked": chunked(),
    "204": answer(204, content_length=""),
    "204-lies": answer(204, content_length="9"),
    "206": answer(206, body=PICTURE, content_range="bytes 0-2/3"),
    "300": answer(300),
    "304": answer(304, content_length=""),
    "400": answer(400),
    "403": answer(403, body=PICTURE),
    "404": answer(404, body=b"gone"),
    "408": answer(408),
    "410": answer(410),
    "429": answer(429),
    "500": answer(500, body=PICTURE),
    "503": answer(503),
    "599": answer(599),
    "999": answer(999),
    "429-day": answer(429, retry_after=_DAY),
    "503-day": answer(503, retry_after=_DAY),
    "short": answer(content_length=str(len(PICTURE))) + PICTURE[:-1],
    "short-nothing": answer(content_length=str(len(PICTURE))),
    "chunked-cut": chunked(PICTURE, end=b""),
    "chunked-cut-inside": chunked(end=b"ff\r\nabc"),
    "chunked-bad-size": chunked(PICTURE, end=b"zz\r\n"),
    "chunked-bad-end": chunked(end=b"2\r\nabXX"),
    "no-answer": b"",
    "half-a-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "garbage": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "endless-field": answer(body=PICTURE, x="y" * 200_000),
    "bad-length": answer(content_length="many") + PICTURE,
    "two-lengths": answer(content_length="5\r\nContent-Length: 6") + b"abcdef",
    "to-absolute": redirect("{base}/ok"),
    "to-relative": redirect("deep/../ok"),
    "to-query": redirect("/echo?a=%2C|b c"),
    "to-self": redirect("/to-self"),
    "loop-a": redirect("/loop-b"),
    "loop-b": redirect("/loop-a"),
    "to-404": redirect("/404"),
    "to-page": redirect("/page"),
    "page": answer(body=PAGE),
    "json": answer(body=b'{"error": "not found"}', content_type="image/png"),
    "svg": answer(body=b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'),
    "gif-header": answer(body=b"GIF89a", content_type="image/gif"),
    "jpeg-as-text": answer(body=PICTURE, content_type="text/plain"),
    "jpeg-tail": answer(body=PICTURE + b"\0tail" * 800),
    "to-short": redirect("/short"),
    "to-nowhere": answer(302),
    "to-blank": redirect(" "),
    "to-file": redirect("file:///etc/passwd"),
    "to-ftp": redirect("ftp://127.0.0.1/x"),
    "to-data": redirect("data:image/gif;base64,R0lGODlhAQABAAAAACw="),
    "to-broken": redirect("http://[::1"),
    "to-refused": redirect("http://127.0.0.1:1/x"),
    **{f"to-ok-{status}": redirect("/ok", status) for status in (301, 302, 303, 307, 308)},
}
"""Answers that are the same every time; `{base}` becomes the server's address."""

BEHAVIOURS: Final[dict[str, Callable[[Exchange], Awaitable[None]]]] = {
    "silent": _silent,
    "drip-head": _drip_head,
    "drip-body": _drip_body,
    "stalled": _stalled,
    "endless": _endless,
    "endless-chunks": _endless_chunks,
    "declared": _declared,
    "in-two": _in_two,
    "reset-in-body": _reset_in_body,
    "reset-at-once": _reset_at_once,
    "503-twice": _busy_twice,
    "429-twice": _limited_twice,
    "429-until": _limited_until_soon,
    "429-seconds": _limited_once(retry_after="2"),
    "429-nonsense": _limited_once(retry_after="soon"),
    "429-date": _limited_once(retry_after=_SOON),
    "chain": _chain,
    "kept": _kept,
    "large": _large,
    "echo": _echo,
    "to": _to,
    "after-a-moment": _after_a_moment,
    "slowly": _slowly,
}
"""Answers that depend on time, or on what was asked."""


@dataclass(kw_only=True)
class MisbehavingWeb:
    """The server, in a thread of its own.

    Args:
        context: TLS settings, or None for plain HTTP.
        host: loopback address that it listens at.
        hits: how often each target was asked for.
        seen: targets with their header fields, names in lower case, in order.
        num_sent_bytes: what went out for each target.
        mutated: answers beside the fixed ones, by target.
        num_connections: that were made.
        num_open, peak_open: requests that are being answered now, and at most.
    """

    context: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    port: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    num_sent_bytes: Counter[str] = field(default_factory=Counter)
    mutated: dict[str, bytes] = field(default_factory=dict)
    num_connections: int = 0
    num_open: int = 0
    peak_open: int = 0

    def __enter__(self) -> Self:
        """Start, and return when connections are taken."""
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(ready)))
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, whatever is going on."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def base(self) -> str:
        """Give the address, without a slash at the end."""
        return f"{'https' if self.context else 'http'}://{self.host}:{self.port}"

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._talk, self.host, 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            while not writer.is_closing():
                await self._take(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = await reader.readexactly(1)
        if start == b"\x16":  # a TLS greeting on the plain port
            writer.write(answer(400))
            writer.close()
            return
        first, *rest = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        target = first.split(" ")[1]
        self.hits[target] += 1
        self.seen.append((target, fields))
        await self._answer(Exchange(web=self, target=target, hit=self.hits[target], reader=reader, writer=writer))

    async def _answer(self, exchange: Exchange) -> None:
        name = exchange.target.partition("?")[0].strip("/").partition("/")[0]
        self.num_open += 1
        self.peak_open = max(self.peak_open, self.num_open)
        try:
            if exchange.target in self.mutated:
                await exchange.send(self.mutated[exchange.target])
            elif name in BEHAVIOURS:
                await BEHAVIOURS[name](exchange)
            else:
                await exchange.send(FIXED[name].replace(b"{base}", self.base.encode()))
        finally:
            self.num_open -= 1
        if name != "kept":
            exchange.writer.close()
