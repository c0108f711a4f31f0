"""Picture files as bytes: is the file whole, and which of its bytes draw the picture?

`trim` walks a file's own structure and keeps what a decoder needs for the first picture in it. Comments, text,
EXIF, colour profiles, thumbnails, later frames and whatever follows the end mark do not reach the decoder. So
damaged metadata can neither fail a picture nor make a decoder warn, metadata made to be slow or huge does no
harm, and a file that is stored as it is takes no stranger's place or name along.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.avif import trim_avif
from evenshard.core.segments import (
    CODED,
    PNG_SIGNATURE,
    SOS,
    find_gif_frame,
    gif_canvas,
    gif_frame_end,
    gif_screen_end,
    jpeg_segments,
    png_chunks,
    riff_chunks,
)
from evenshard.core.tiff import trim_tiff

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Raster:
    """The drawing part of a picture file.

    Args:
        format: as Pillow names it.
        data: a whole file of that format that draws the first picture, and nothing else where that can be had.
        keepable: whether `data` may be stored as it is, if its pixels need no change.
    """

    format: str
    data: bytes
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

_PLAIN_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended and progressive, by Huffman codes
_ODD_FRAMES: Final = frozenset({0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF})  # lossless or hierarchical
_FRAMES: Final = _PLAIN_FRAMES | {0xC9, 0xCA}  # the same by arithmetic codes
_DRAWING: Final = frozenset({CODED, *_FRAMES, 0xC4, 0xCC, SOS, 0xDB, 0xDC, 0xDD})
_METADATA: Final = frozenset({*range(0xE0, 0xF0), 0xFE})
_COLOUR_MARKS: Final = (b"\xff\xe0", b"JFIF\0"), (b"\xff\xee", b"Adobe")  # they tell the decoder YCbCr from RGB

_MAX_SCANS: Final = 500
"""Source: libjpeg-turbo's limit for fuzzing."""
_MAX_SCANNED_PIXELS: Final = 2_000_000_000
"""A scan of a few bytes passes over all pixels: measured, 480 of them over 89 Mpx keep the decoder busy for 67 s, and
this many pixels for 3 s. Progressive files have some ten scans, so that the largest ones are far from it."""


def _trim_jpeg(data: bytes) -> Raster:
    """Keep tables, frame header and scans, and the two marks by which a decoder tells YCbCr from RGB.

    A file without its end mark is refused, though its pixels may all be there: nothing tells it from one cut in
    its last block, or from a progressive one cut between two scans, which decoders show blurred without a word.
    What stays unseen: bytes lost from inside a scan while the end mark is there; decoders fill with grey.
    """
    parts, markers, num_pixels, num_scans = [data[:2]], set(), 0, 0
    for marker, segment in jpeg_segments(data):
        if not _draws(marker, segment):
            continue
        parts.append(segment)
        markers.add(marker)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", segment, 5)
            num_pixels = height * width
        num_scans += marker == SOS
        if num_scans > min(_MAX_SCANS, max(1, _MAX_SCANNED_PIXELS // max(1, num_pixels))):
            raise ValueError(f"{num_scans} scans, which is more than any picture of its size needs")
    parts.append(b"\xff\xd9")
    return Raster(format="JPEG", data=b"".join(parts), keepable=not _PLAIN_FRAMES.isdisjoint(markers))


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

_PNG_DRAWING: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
_PNG_GREY, _PNG_RGB, _PNG_PALETTE = 0, 2, 3


def _trim_png(data: bytes) -> Raster:
    """Keep the chunks that draw, their check sums compared. Those of others do not matter, as in libpng.

    An animated one becomes the still picture that it holds for viewers without animation.
    What stays unseen here: compressed data that rightly ends before the last row. See `has_all_rows`.
    """
    parts: list[bytes | memoryview] = [PNG_SIGNATURE]
    kinds: set[bytes] = set()
    depth = colour = 0
    for kind, chunk in png_chunks(data):
        body = chunk[8:-4]
        if kind not in _PNG_DRAWING:
            continue
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            raise ValueError(f"wrong check sum of a {kind.decode()} chunk")
        if kind == b"IHDR":
            if kinds or len(body) != 13:
                raise ValueError("a header that is none, or not the first")
            depth, colour = body[8], body[9]
        parts.append(_scale_colour_key(bytes(body), depth, colour) if kind == b"tRNS" else chunk)
        kinds.add(kind)
    if not kinds >= {b"IHDR", b"IDAT"} or (colour == _PNG_PALETTE and b"PLTE" not in kinds):
        raise ValueError("a chunk that every such PNG has is not there")
    return Raster(format="PNG", data=b"".join(parts), keepable=depth == 8)


_PNG_SAMPLES: Final = {_PNG_GREY: 1, _PNG_RGB: 3, _PNG_PALETTE: 1, 4: 2, 6: 4}
_ADAM_7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_INFLATED_BYTES: Final = 2**16


def has_all_rows(png: bytes) -> bool:
    """Say whether the compressed data of a PNG, as `trim` gives it, goes on to its last row.

    Decoders leave the rest black without a word. It takes a third of the time of decoding, and can be left out
    where the last rows are not black.
    """
    chunks = [(kind, chunk[8:-4]) for kind, chunk in png_chunks(png)]
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    missing = 0
    for left, top, dx, dy in _ADAM_7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = len(range(left, width, dx)), len(range(top, height, dy))
        missing += rows * (1 + -(-columns * depth * _PNG_SAMPLES[colour] // 8)) if columns else 0
    inflater = zlib.decompressobj()
    for kind, body in chunks:
        piece: bytes | memoryview = body if kind == b"IDAT" else b""
        while piece and missing > 0:
            missing -= len(inflater.decompress(piece, _INFLATED_BYTES))
            piece = inflater.unconsumed_tail
    return missing <= 0


def _scale_colour_key(key: bytes, depth: int, colour: int) -> bytes:
    """Bring the clear colour to 8 bits per sample, as which Pillow compares it, whatever the file's depth.

    A 16-bit one is compared by its high byte, so that its nearest neighbours are clear too.
    """
    if len(key) < {_PNG_GREY: 2, _PNG_RGB: 6}.get(colour, 0):
        raise ValueError("a tRNS chunk that is too short for its colour")
    if colour in (_PNG_GREY, _PNG_RGB) and depth in (1, 2, 4, 16):
        samples = struct.unpack(f">{len(key) // 2}H", key)
        scaled = [sample >> 8 if depth == 16 else sample % 2**depth * 255 // (2**depth - 1) for sample in samples]
        key = struct.pack(f">{len(scaled)}H", *scaled)
    body = b"tRNS" + key
    return struct.pack(">I", len(key)) + body + struct.pack(">I", zlib.crc32(body))


# --- GIF. Source: the GIF89a specification.


def _trim_gif(data: bytes) -> Raster:
    """Keep the first frame and what it needs: the palettes and the clear colour."""
    at, control = find_gif_frame(data)
    end = gif_frame_end(data, at)
    sides = gif_canvas(data, at)
    if max(sides) > 0xFFFF:
        raise ValueError("the first frame lies outside of what a GIF can hold")
    head = b"GIF89a" + struct.pack("<2H", *sides) + data[10 : gif_screen_end(data)]
    return Raster(format="GIF", data=head + control + data[at:end] + b";")


# --- WebP. Source: RFC 9649.


def _trim_webp(data: bytes) -> Raster:
    """Take a still, opaque picture out of its wrapping; leave others as they are, for libwebp to judge.

    Of moving pictures Pillow decodes the first frame.
    """
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise ValueError("it is cut: shorter than it says")
    chunks = dict(reversed(list(riff_chunks(data[:end]))))  # the first of each kind
    still = next((kind for kind in (b"VP8 ", b"VP8L") if kind in chunks), None)
    if still is None or chunks.keys() & {b"ALPH", b"ANIM", b"ANMF"}:
        return Raster(format="WEBP", data=data[:end])
    body = chunks[still]
    chunk = still + struct.pack("<I", len(body)) + body + bytes(len(body) & 1)
    whole = b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
    return Raster(format="WEBP", data=whole, keepable=True)


# --- The rest.


def _trim_tiff(data: bytes) -> Raster:
    return Raster(format="TIFF", data=trim_tiff(data))


def _trim_avif(data: bytes) -> Raster:
    return Raster(format="AVIF", data=trim_avif(data))


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
