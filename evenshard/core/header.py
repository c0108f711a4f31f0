"""What a picture file's header says, before anything is decoded: its size, how it lies, and what decoding takes.

A picture can so be left out, or refused, without its pixels; and one whose pixels are lost still has a size. The
memory is an estimate from above for the first picture in the file. It was measured for each format and mode
(`tests/benchmarks/picture_memory.py`).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.avif import read_avif
from evenshard.core.segments import (
    SOS,
    find_gif_frame,
    gif_canvas,
    jpeg_segments,
    png_chunks,
    riff_chunks,
    until_damage,
)
from evenshard.core.tiff import read_orientation, read_tiff

if TYPE_CHECKING:
    from collections.abc import Callable

RGB_BYTES: Final = 4
"""Pillow keeps a pixel of three or four bands in four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What is known of a picture before it is decoded.

    Args:
        width, height: in pixels, as it lies in its file.
        orientation: EXIF's, 1 to 8; 1 is upright.
        pixel_bytes: memory of one decoded pixel.
        is_final: whether decoded pixels are RGB and opaque already, so that no second copy is made.
        buffer_bytes: memory that the decoder takes beside, whatever the scale.
        scales: whether it can be decoded at a half, a quarter or an eighth of its size.
    """

    width: int
    height: int
    orientation: int = 1
    pixel_bytes: int = RGB_BYTES
    is_final: bool = True
    buffer_bytes: int = 0
    scales: bool = False

    @property
    def upright(self) -> tuple[int, int]:
        """Its size, in pixels, once turned."""
        return (self.width, self.height) if self.orientation < 5 else (self.height, self.width)

    def decoding_bytes(self, wanted: tuple[int, int]) -> int:
        """Estimate the memory that it takes at most until it is plain RGB.

        Args:
            wanted: the size that it is scaled to then, in pixels.
        """
        factor = min(self.width // wanted[0], self.height // wanted[1]) if self.scales else 1
        scale = next((each for each in (8, 4, 2) if factor >= each), 1)
        num_pixels = -(-self.width // scale) * -(-self.height // scale)
        copied = 0 if self.is_final else RGB_BYTES * num_pixels
        return self.pixel_bytes * num_pixels + max(self.buffer_bytes, copied)


def read_header(format_name: str, data: bytes) -> Header:
    """Read the header of a file, which may be cut or damaged behind it.

    Args:
        format_name: what `sniff` says.
        data: the whole file, or what came of it.

    Raises:
        ValueError: there is no whole header, or the message says "unsupported" and why.
    """
    try:
        header = _READERS[format_name](data)
    except (IndexError, struct.error):
        raise ValueError("it is cut: its structure leads past its end") from None
    if header.width < 1 or header.height < 1:
        raise ValueError(f"{header.width} x {header.height} pixels are no picture")
    return header


# --- JPEG

_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2, 0xC3, *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)})
_PROGRESSIVE: Final = frozenset({0xC2, 0xCA})
_APP1: Final = 0xE1


def _read_jpeg(data: bytes) -> Header:
    """Where a scan has not all components, the decoder holds the coefficients of all: two bytes each."""
    frame, orientation, is_buffered = b"", 1, False
    for marker, segment in jpeg_segments(data):
        if marker in _FRAMES and not frame:
            frame, is_buffered = segment, marker in _PROGRESSIVE
        elif marker == _APP1 and segment[4:10] == b"Exif\0\0" and orientation == 1:
            orientation = read_orientation(segment[10:])
        elif marker == SOS:
            is_buffered = is_buffered or segment[4] < frame[9]
            break
    height, width, num_components = struct.unpack_from(">HHB", frame, 5)
    return Header(
        width=width,
        height=height,
        orientation=orientation,
        pixel_bytes=1 if num_components == 1 else RGB_BYTES,
        is_final=num_components == 3,
        buffer_bytes=_coefficient_bytes(frame) if is_buffered else 0,
        scales=True,
    )


def _coefficient_bytes(frame: bytes) -> int:
    height, width, num_components = struct.unpack_from(">HHB", frame, 5)
    samplings = [divmod(frame[11 + 3 * index], 16) for index in range(num_components)]
    most_x, most_y = (max(1, *sides) for sides in zip(*samplings, (1, 1), strict=True))
    blocks = -(-width // (8 * most_x)) * -(-height // (8 * most_y))
    return sum(128 * blocks * x * y for x, y in samplings)


# --- PNG

_PNG_PIXEL_BYTES: Final = {0: 1, 2: RGB_BYTES, 3: 1, 4: RGB_BYTES, 6: RGB_BYTES}
_PNG_SAMPLES: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _read_png(data: bytes) -> Header:
    """Two whole rows are held beside, which counts where a picture is a single row."""
    kinds: set[bytes] = set()
    head, orientation = b"", 1
    for kind, chunk in until_damage(png_chunks(data)):
        if kind == b"IHDR" and not kinds:
            head = bytes(chunk[8:-4])
            _check_sum(chunk)
        elif kind == b"eXIf":
            orientation = read_orientation(bytes(chunk[8:-4]))
        kinds.add(kind)
    width, height, depth, colour = struct.unpack_from(">IIBB", head)
    if colour not in _PNG_SAMPLES:
        raise ValueError(f"{colour} is no colour type of a PNG")
    return Header(
        width=width,
        height=height,
        orientation=orientation,
        pixel_bytes=2 if (depth, colour) == (16, 0) else _PNG_PIXEL_BYTES[colour],
        is_final=colour == 2 and b"tRNS" not in kinds,
        buffer_bytes=2 * (width * depth * _PNG_SAMPLES[colour] // 8 + 9),
    )


def _check_sum(chunk: memoryview) -> None:
    if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
        raise ValueError("wrong check sum of a IHDR chunk")


# --- The rest


def _read_gif(data: bytes) -> Header:
    at, _ = find_gif_frame(data)
    width, height = gif_canvas(data, at)
    return Header(width=width, height=height, pixel_bytes=1, is_final=False)


_CANVASES: Final = 8
"""Bytes per pixel of libwebp's two canvases for moving pictures, by which Pillow decodes still ones, too."""


def _read_webp(data: bytes) -> Header:
    chunks: dict[bytes, bytes] = {}
    for kind, body in until_damage(riff_chunks(data)):
        chunks.setdefault(kind, body)
    still = next((kind for kind in (b"VP8 ", b"VP8L") if kind in chunks), None)
    if still is None or chunks.keys() & {b"ALPH", b"ANIM", b"ANMF"}:
        flags = chunks.get(b"VP8X", b"")
        width, height = (int.from_bytes(flags[at : at + 3], "little") + 1 for at in (4, 7))
        struct.unpack_from("<I6B", flags)
    elif still == b"VP8 ":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<2H", chunks[still], 6))
    else:
        (bits,) = struct.unpack_from("<I", chunks[still], 1)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return Header(
        width=width,
        height=height,
        orientation=read_orientation(chunks.get(b"EXIF", b"")),
        is_final=False,
        buffer_bytes=_CANVASES * width * height,
    )


def _read_avif(data: bytes) -> Header:
    """Beside the decoder's frames, the pixels are held twice on their way."""
    picture = read_avif(data)
    return Header(
        width=picture.width,
        height=picture.height,
        orientation=picture.orientation,
        is_final=False,
        buffer_bytes=picture.frame_bytes + RGB_BYTES * picture.width * picture.height,
    )


_OLD_HEADER_BYTES: Final = 12
_RUN_LENGTHS: Final = (1, 2)
_MAX_RUN_PIXELS: Final = 4_000_000
"""Pillow unpacks run lengths in Python, one by one: measured, 6 s for 15 million pixels, and all other threads wait."""


def _read_bmp(data: bytes) -> Header:
    (header_bytes,) = struct.unpack_from("<I", data, 14)
    if header_bytes == _OLD_HEADER_BYTES:
        width, height, _, bits = struct.unpack_from("<4H", data, 18)
        compression = 0
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    is_packed, num_pixels = compression in _RUN_LENGTHS, abs(width * height)
    if is_packed and num_pixels > _MAX_RUN_PIXELS:
        raise ValueError(
            f"unsupported kind of BMP: {num_pixels} pixels as run lengths; at most {_MAX_RUN_PIXELS} are read"
        )
    return Header(
        width=width,
        height=abs(height),
        pixel_bytes=1 if bits <= 8 else RGB_BYTES,
        is_final=bits in (16, 24),
        buffer_bytes=3 * num_pixels if is_packed else 0,
    )


def _read_tiff(data: bytes) -> Header:
    picture = read_tiff(data)
    return Header(
        width=picture.width,
        height=picture.height,
        orientation=read_orientation(data),
        pixel_bytes=picture.pixel_bytes,
        is_final=picture.is_final,
        buffer_bytes=picture.part_bytes,
    )


_READERS: Final[dict[str, Callable[[bytes], Header]]] = {
    "JPEG": _read_jpeg,
    "PNG": _read_png,
    "GIF": _read_gif,
    "WEBP": _read_webp,
    "AVIF": _read_avif,
    "BMP": _read_bmp,
    "TIFF": _read_tiff,
}
