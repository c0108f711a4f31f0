"""The parts that picture files are cut into: JPEG's segments, PNG's chunks, GIF's blocks, RIFF's chunks.

Nothing here looks into a part, but to find its end.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Part = TypeVar("_Part")

MAX_PARTS: Final = 100_000
"""More parts than that have no use but to keep a reader busy for seconds."""


def at_most(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Go through parts, unless there are far too many.

    Raises:
        ValueError: there are.
    """
    for index, part in enumerate(parts):
        if index == MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} parts")
        yield part


def until_damage(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Go through the parts that are there, until something is wrong behind the first of them."""
    is_first = True
    try:
        for part in parts:
            yield part
            is_first = False
    except (ValueError, struct.error):
        if is_first:
            raise


# --- JPEG. Source: ITU-T T.81, annex B.

SOS, CODED = 0xDA, 0
"""The marker of a scan's header; and what stands for the coded data behind it, which has none."""

_MARKER: Final = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
"""A marker that ends what stands before it: no stuffed 0xFF, fill byte or restart mark."""

_EOI: Final = 0xD9


def jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Go through the segments before the end mark, and the coded data between them: marker, and the whole segment.

    Raises:
        ValueError: there is no end mark.
    """
    return at_most(_jpeg_segments(data))


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    found = _MARKER.search(data, 2)
    while found is not None:
        start, marker = found.start(), data[found.end() - 1]
        if marker == _EOI:
            return
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        yield marker, data[start:end]
        found = _MARKER.search(data, end)
        if marker == SOS:
            yield CODED, data[end : found.start() if found else len(data)]
    raise ValueError("it is cut: no end mark")


# --- PNG. Source: the PNG specification, third edition, chapter 5.

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Go through the chunks up to the last one, IEND: kind, and the whole chunk.

    Raises:
        ValueError, struct.error: the signature or a chunk is not whole.
    """
    return at_most(_png_chunks(data))


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    if not data.startswith(PNG_SIGNATURE):
        raise ValueError("the PNG signature is damaged")
    view, at, kind = memoryview(data), len(PNG_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        chunk = view[at : at + 12 + length]
        if len(chunk) < 12 + length:
            raise ValueError("it is cut: its last chunk is not whole")
        yield kind, chunk
        at += len(chunk)


# --- GIF. Source: the GIF89a specification.

_GIF_EXTENSION, _GIF_FRAME, _GIF_END = b"!", b",", b";"
_GIF_CONTROL: Final = b"!\xf9"


def find_gif_frame(data: bytes) -> tuple[int, bytes]:
    """Find the first frame, and write the control block that says what colour of it is clear, if one is.

    Raises:
        ValueError, IndexError: there is none.
    """
    control = b""
    for at in at_most(_gif_blocks(data)):
        if data[at : at + 1] == _GIF_FRAME:
            return at, control
        if data[at : at + 2] == _GIF_CONTROL:
            control = b"!\xf9\x04\x01\0\0%c\0" % data[at + 6] if data[at + 3] & 1 else b""
    raise ValueError("there is no picture in this GIF")


def _gif_blocks(data: bytes) -> Iterator[int]:
    """Go through the blocks behind the screen.

    What is neither frame nor extension is junk, passed over as decoders do.
    """
    at = gif_screen_end(data)
    while (block := data[at : at + 1]) not in (b"", _GIF_END):
        yield at
        at = _after_sub_blocks(data, at + 2) if block == _GIF_EXTENSION else at + 1


def gif_screen_end(data: bytes) -> int:
    """Find where the screen's description and palette end."""
    return 13 + _palette_bytes(data[10])


def gif_frame_end(data: bytes, at: int) -> int:
    """Find where the frame that begins at `at` ends."""
    return _after_sub_blocks(data, at + 11 + _palette_bytes(data[at + 9]))


def gif_canvas(data: bytes, at: int) -> tuple[int, int]:
    """Work out the size, in pixels, that screen and frame need: a frame that stands out widens it, as decoders do."""
    screen_width, screen_height = struct.unpack_from("<2H", data, 6)
    left, top, width, height = struct.unpack_from("<4H", data, at + 1)
    return max(screen_width, left + width), max(screen_height, top + height)


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_sub_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


# --- WebP. Source: RFC 9649.


def riff_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Go through the chunks of a RIFF file: kind and body, as much of it as is there.

    Raises:
        ValueError: the last one was not whole.
    """
    return at_most(_riff_chunks(data))


def _riff_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length + (length & 1)
    if at > len(data) + 1:
        raise ValueError("it is cut: its last chunk is not whole")
