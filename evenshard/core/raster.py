"""Picture files as bytes: is the file whole, and which of its bytes draw the picture?

`trim` walks a file's own structure and keeps what a decoder needs for the first picture in it. Comments, text,
EXIF, colour profiles, thumbnails, later frames and whatever follows the end mark do not reach the decoder. So
damaged metadata can neither fail a picture nor make a decoder warn, metadata made to be slow or huge does no
harm, and a file that is stored as it is takes no stranger's place or name along.

The one thing read of the metadata is the EXIF orientation. XMP and text forms of it are not read.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.tiff import read_orientation, trim_tiff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Raster:
    """The drawing part of a picture file.

    Args:
        format: as Pillow names it.
        data: a whole file of that format that draws the first picture, and nothing else where that can be had.
        orientation: EXIF's, 1 to 8; 1 is upright.
        keepable: whether `data` may be stored as it is, if its pixels need no change.
    """

    format: str
    data: bytes
    orientation: int = 1
    keepable: bool = False


def trim(format_name: str, data: bytes) -> Raster:
    """Keep what draws the first picture of a file.

    Args:
        format_name: what `sniff` says.
        data: the whole file.

    Raises:
        ValueError: the file is cut or damaged, or its message says "unsupported" and why.
    """
    try:
        return _TRIMMERS[format_name](data)
    except (IndexError, struct.error):
        raise ValueError("it is cut: its structure leads past its end") from None


# --- JPEG. Source: ITU-T T.81, annex B.

_MARKER: Final = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
"""A marker that ends what stands before it: no stuffed 0xFF, fill byte or restart mark."""

_EOI, _SOS, _APP1 = 0xD9, 0xDA, 0xE1
_PLAIN_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended and progressive, by Huffman codes
_ODD_FRAMES: Final = frozenset({0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF})  # lossless or hierarchical
_DRAWING: Final = frozenset({*_PLAIN_FRAMES, 0xC4, 0xC9, 0xCA, 0xCC, _SOS, 0xDB, 0xDC, 0xDD})
_METADATA: Final = frozenset({*range(0xE0, 0xF0), 0xFE})
_COLOUR_MARKS: Final = (b"\xff\xe0", b"JFIF\0"), (b"\xff\xee", b"Adobe")  # they tell the decoder YCbCr from RGB

_MAX_SCANS: Final = 500
"""A small file of very many empty scans keeps a decoder busy for hours. Source: libjpeg-turbo's limit for fuzzing."""


def _trim_jpeg(data: bytes) -> Raster:
    """Keep tables, frame header and scans, and the two marks by which a decoder tells YCbCr from RGB.

    A file without its end mark is refused, though its pixels may all be there: nothing tells it from one cut in
    its last block, or from a progressive one cut between two scans, which decoders show blurred without a word.
    What stays unseen: bytes lost from inside a scan while the end mark is there; decoders fill with grey.
    """
    parts, markers, orientation, num_scans = [data[:2]], set(), 1, 0
    for marker, segment, scan in _jpeg_segments(data):
        if _draws(marker, segment):
            parts += segment, scan
            markers.add(marker)
        elif marker == _APP1 and segment[4:10] == b"Exif\0\0" and orientation == 1:
            orientation = read_orientation(segment[10:])
        num_scans += marker == _SOS
        if num_scans > _MAX_SCANS:
            raise ValueError(f"more than {_MAX_SCANS} scans")
    parts.append(b"\xff\xd9")
    keepable = not _PLAIN_FRAMES.isdisjoint(markers)
    return Raster(format="JPEG", data=b"".join(parts), orientation=orientation, keepable=keepable)


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Go through the segments before the end mark: marker, the segment, and the coded data behind a scan's header.

    Raises:
        ValueError: there is no end mark.
    """
    found = _MARKER.search(data, 2)
    while found is not None:
        start, marker = found.start(), data[found.end() - 1]
        if marker == _EOI:
            return
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        found = _MARKER.search(data, end)
        scan_end = found.start() if found else len(data)
        yield marker, data[start:end], data[end:scan_end] if marker == _SOS else b""
    raise ValueError("it is cut: no end mark")


def _draws(marker: int, segment: bytes) -> bool:
    """Say whether the decoder needs a segment.

    Raises:
        ValueError: it belongs to no JPEG that is read, or to none at all.
    """
    if marker in _DRAWING:
        return True
    if marker in _METADATA:
        return any(segment.startswith(mark) and segment[4:].startswith(name) for mark, name in _COLOUR_MARKS)
    if marker in _ODD_FRAMES:
        raise ValueError(f"unsupported kind of JPEG: lossless or hierarchical (marker {marker:02X})")
    raise ValueError(f"marker {marker:02X} where none may stand")


# --- PNG. Source: the PNG specification, third edition, chapters 5 and 11.

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PNG_DRAWING: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
_PNG_GREY, _PNG_RGB, _PNG_PALETTE = 0, 2, 3


def _trim_png(data: bytes) -> Raster:
    """Keep the chunks that draw, their check sums compared. Those of others do not matter, as in libpng.

    An animated one becomes the still picture that it holds for viewers without animation.
    What stays unseen: compressed data that rightly ends before the last row (it stays black).
    """
    parts: list[bytes | memoryview] = [_PNG_SIGNATURE]
    kinds, orientation, depth, colour = set(), 1, 0, 0
    for kind, chunk in _png_chunks(data):
        body = chunk[8:-4]
        if kind == b"eXIf":
            orientation = read_orientation(bytes(body))
        if kind not in _PNG_DRAWING:
            continue
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            raise ValueError(f"wrong check sum of a {kind.decode()} chunk")
        if kind == b"IHDR":
            depth, colour = body[8], body[9]
        parts.append(_scale_colour_key(bytes(body), depth, colour) if kind == b"tRNS" else chunk)
        kinds.add(kind)
    if not kinds >= {b"IHDR", b"IDAT"} or (colour == _PNG_PALETTE and b"PLTE" not in kinds):
        raise ValueError("a chunk that every such PNG has is not there")
    return Raster(format="PNG", data=b"".join(parts), orientation=orientation, keepable=depth == 8)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    if not data.startswith(_PNG_SIGNATURE):
        raise ValueError("the PNG signature is damaged")
    view, at, kind = memoryview(data), len(_PNG_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        chunk = view[at : at + 12 + length]
        if len(chunk) < 12 + length:
            raise ValueError("it is cut: its last chunk is not whole")
        yield kind, chunk
        at += len(chunk)


def _scale_colour_key(key: bytes, depth: int, colour: int) -> bytes:
    """Bring the clear colour to 8 bits per sample, as which Pillow compares it, whatever the file's depth.

    A 16-bit one is compared by its high byte, so that its nearest neighbours are clear too.
    """
    if colour in (_PNG_GREY, _PNG_RGB) and depth in (1, 2, 4, 16):
        samples = struct.unpack(f">{len(key) // 2}H", key)
        scaled = [sample >> 8 if depth == 16 else sample % 2**depth * 255 // (2**depth - 1) for sample in samples]
        key = struct.pack(f">{len(scaled)}H", *scaled)
    body = b"tRNS" + key
    return struct.pack(">I", len(key)) + body + struct.pack(">I", zlib.crc32(body))


# --- GIF. Source: the GIF89a specification.

_GIF_EXTENSION, _GIF_FRAME, _GIF_END = b"!", b",", b";"
_GIF_CONTROL: Final = b"!\xf9"


def _trim_gif(data: bytes) -> Raster:
    """Keep the first frame and what it needs: the palettes and the clear colour."""
    screen_end = 13 + _palette_bytes(data[10])
    at, control = _find_gif_frame(data, screen_end)
    left, top, width, height = struct.unpack_from("<4H", data, at + 1)
    end = _after_sub_blocks(data, at + 11 + _palette_bytes(data[at + 9]))
    # A frame that stands out of the screen widens it, as decoders do.
    screen_width, screen_height = struct.unpack_from("<2H", data, 6)
    sides = max(screen_width, left + width), max(screen_height, top + height)
    if max(sides) > 0xFFFF:
        raise ValueError("the first frame lies outside of what a GIF can hold")
    head = b"GIF89a" + struct.pack("<2H", *sides) + data[10:screen_end]
    return Raster(format="GIF", data=head + control + data[at:end] + _GIF_END)


def _find_gif_frame(data: bytes, at: int) -> tuple[int, bytes]:
    """Find the first frame, and write the control block that says what colour of it is clear, if one is."""
    control = b""
    while (block := data[at : at + 1]) != _GIF_FRAME:
        if block in (b"", _GIF_END):
            raise ValueError("there is no picture in this GIF")
        if data[at : at + 2] == _GIF_CONTROL:
            control = b"!\xf9\x04\x01\0\0%c\0" % data[at + 6] if data[at + 3] & 1 else b""
        # What is neither frame nor extension is junk, passed over as decoders do.
        at = _after_sub_blocks(data, at + 2) if block == _GIF_EXTENSION else at + 1
    return at, control


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_sub_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


# --- WebP. Source: RFC 9649.


def _trim_webp(data: bytes) -> Raster:
    """Take a still, opaque picture out of its wrapping; leave others as they are, for libwebp to judge.

    Of moving pictures Pillow decodes the first frame.
    """
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise ValueError("it is cut: shorter than it says")
    chunks = dict(reversed(list(_riff_chunks(data[:end]))))  # the first of each kind
    orientation = read_orientation(chunks.get(b"EXIF", b""))
    still = next((kind for kind in (b"VP8 ", b"VP8L") if kind in chunks), None)
    if still is None or chunks.keys() & {b"ALPH", b"ANIM", b"ANMF"}:
        return Raster(format="WEBP", data=data[:end], orientation=orientation)
    body = chunks[still]
    chunk = still + struct.pack("<I", len(body)) + body + bytes(len(body) & 1)
    whole = b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
    return Raster(format="WEBP", data=whole, orientation=orientation, keepable=True)


def _riff_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        if at + 8 + length > len(data):
            raise ValueError("it is cut: its last chunk is not whole")
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length + (length & 1)


# --- The rest.


def _trim_tiff(data: bytes) -> Raster:
    return Raster(format="TIFF", data=trim_tiff(data), orientation=read_orientation(data))


_AVIF_EXIF: Final = re.compile(rb"(infe(?:\x02.{7}|\x03.{9}))Exif", re.DOTALL)
"""The entry of an EXIF item in a list of items. Source: ISO/IEC 14496-12, 8.11.6."""


def _trim_avif(data: bytes) -> Raster:
    """Rename EXIF items, so that nobody reads them: in AVIF the turn is a property of the picture (irot, imir)."""
    return Raster(format="AVIF", data=_AVIF_EXIF.sub(rb"\1skip", data))


def _trim_bmp(data: bytes) -> Raster:
    """Leave it: a BMP has no metadata."""
    return Raster(format="BMP", data=data)


_TRIMMERS: Final[dict[str, Callable[[bytes], Raster]]] = {
    "JPEG": _trim_jpeg,
    "PNG": _trim_png,
    "GIF": _trim_gif,
    "WEBP": _trim_webp,
    "TIFF": _trim_tiff,
    "AVIF": _trim_avif,
    "BMP": _trim_bmp,
}
