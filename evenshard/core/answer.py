"""What an HTTP answer means: its status, its declared length, the coding of its body."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Protocol

from evenshard.core.outcome import Failure, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""Statuses that send the asker elsewhere with the same question. Source: RFC 9110, 15.4."""

MAX_PIECE_BYTES: Final = 65_536
"""No coded byte becomes more than this at once, however well it was packed."""

MAX_MEMBERS: Final = 1_000
"""Streams in one body at most. Each costs a copy of what follows it, so many tiny ones would cost seconds."""

_ZLIB_BITS, _RAW_BITS, _GZIP_BITS = 15, -15, 31  # as zlib's manual gives them for `windowBits`


def status_failure(status: int, *, retry_after_seconds: float | None) -> Failure | None:
    """Say why an answer that is no redirect has no body to take, or None where it has one.

    Args:
        status: 100 to 999.
        retry_after_seconds: how long the server asked to wait, if it did.
    """
    if status in (204, 205):
        return Failure(reason=Reason.EMPTY_BODY, detail=f"HTTP {status}", http_status=status)
    if status == 206:
        return Failure(reason=Reason.BAD_ANSWER, detail="HTTP 206: a part, which was not asked for", http_status=status)
    if 200 <= status < 300:
        return None
    reason = Reason.HTTP_STATUS
    if status == 429:
        reason = Reason.HTTP_RATE_LIMITED
    elif status == 408 or 500 <= status < 600:
        reason = Reason.HTTP_SERVER_ERROR
    detail = f"HTTP {status}"
    return Failure(reason=reason, detail=detail, http_status=status, retry_after_seconds=retry_after_seconds)


def declared_bytes(headers: Mapping[str, str]) -> int | None:
    """Give the length that a body must have, or None where the head does not say.

    Source: RFC 9112, 6.3: Transfer-Encoding overrides Content-Length.
    """
    text = headers.get("content-length", "").strip()
    if "transfer-encoding" in headers or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


class Decoder(Protocol):
    """Takes a content coding off a body, piece by piece."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what the next bytes from the wire stand for.

        Raises:
            zlib.error: they are not of the coding that the head named.
        """

    @property
    def is_complete(self) -> bool:
        """Say whether the body may end here."""


def decoder_for(content_encoding: str | None) -> Decoder | Failure:
    """Choose what decodes a body.

    Args:
        content_encoding: value of the Content-Encoding field. None was asked for, so gzip and deflate
            come from servers that do not listen, and any other is refused.
    """
    named = [name.strip().lower() for name in (content_encoding or "").split(",")]
    codings = [name for name in named if name not in ("", "identity")]
    if not codings:
        return _Plain()
    if codings in (["gzip"], ["x-gzip"], ["deflate"]):
        return _Inflating(is_gzip=codings != ["deflate"])
    return Failure(reason=Reason.BAD_ANSWER, detail=f"content coding {', '.join(codings)[:80]!r} was not asked for")


class _Plain:
    is_complete = True

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk


class _Inflating:
    """Inflates gzip, or deflate with or without its zlib wrapper: servers send both under that name."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._start = b""
        self._stream: zlib._Decompress | None = None
        self._num_streams = 0

    @property
    def is_complete(self) -> bool:
        return self._stream is not None and self._stream.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        data = self._start + (chunk.lstrip(b"\0") if self.is_complete else chunk)
        if self._stream is None and len(data) < 2:
            self._start = data  # too little to tell what it is
            return
        self._start = b""
        while stream := self._stream_for(data):
            piece = stream.decompress(data, MAX_PIECE_BYTES)
            if piece:
                yield piece
            data = stream.unused_data.lstrip(b"\0") if stream.eof else stream.unconsumed_tail
            if not data and len(piece) < MAX_PIECE_BYTES:
                return

    def _stream_for(self, data: bytes) -> zlib._Decompress | None:
        """Give the stream that is being read, or the next: a body may hold several, and zeros after each."""
        if self._stream is None or (self._stream.eof and data):
            self._num_streams += 1
            if self._num_streams > MAX_MEMBERS:
                raise zlib.error(f"more than {MAX_MEMBERS} streams in one body")
            self._stream = zlib.decompressobj(_GZIP_BITS if self._is_gzip else _deflate_bits(data))
        return None if self._stream.eof else self._stream


def _deflate_bits(start: bytes) -> int:
    """Tell the two kinds of deflate apart by the zlib header.

    Source: RFC 1950, 2.2: method 8, and the first two bytes are a multiple of 31.
    """
    has_header = start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return _ZLIB_BITS if has_header else _RAW_BITS
