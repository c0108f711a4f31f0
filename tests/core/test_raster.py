"""What of a picture file is kept for the decoder."""

from __future__ import annotations

import struct

import pytest

from evenshard.core.raster import Raster, trim
from evenshard.core.tiff import read_orientation
from tests.support.picture_files import directory, segment
from tests.support.picture_files import png_chunk as chunk

JFIF, ADOBE = segment(0xE0, b"JFIF\0\1\2"), segment(0xEE, b"Adobe\0\x64\0\0\0\0\1")
TABLES, FRAME = segment(0xDB, bytes(65)), segment(0xC0, bytes(15))
SCAN = segment(0xDA, bytes(10)) + b"data\xff\0data\xff\xd0data\xff\xd7data"
EXIF = segment(0xE1, b"Exif\0\0" + directory(274, 3, 6))
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
PNG_START = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
PNG_DATA, PNG_END = chunk(b"IDAT", b"data"), chunk(b"IEND", b"")
GIF_START = b"GIF89a\1\0\1\0\x80\0\0" + bytes(6)
GIF_FRAME = b",\0\0\0\0\1\0\1\0\0\2\2\x4c\1\0"
GIF_CLEAR = b"!\xf9\4\1\0\0\7\0"
WEBP = b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0" + bytes(10)

TRIMMED: dict[str, tuple[bytes, Raster]] = {
    "jpeg-metadata": (
        JPEG_START + JFIF + EXIF + segment(0xE2, b"ICC_PROFILE\0") + segment(0xFE, b"by me") + ADOBE + TABLES + FRAME
        + SCAN + JPEG_END + b"tail" + JPEG_END,
        Raster(
            format="JPEG",
            data=JPEG_START + JFIF + ADOBE + TABLES + FRAME + SCAN + JPEG_END,
            keepable=True,
        ),
    ),
    "jpeg-scans-with-segments-between-and-fill-bytes": (
        JPEG_START + FRAME + SCAN + b"\xff\xff" + TABLES + EXIF + SCAN + b"\xff" + JPEG_END,
        Raster(
            format="JPEG",
            data=JPEG_START + FRAME + SCAN + b"\xff\xff" + TABLES + SCAN + b"\xff" + JPEG_END,
            keepable=True,
        ),
    ),
    "jpeg-end-mark-inside-of-metadata": (
        JPEG_START + segment(0xE1, b"thumbnail" + JPEG_END) + FRAME + SCAN + JPEG_END,
        Raster(format="JPEG", data=JPEG_START + FRAME + SCAN + JPEG_END, keepable=True),
    ),
    "jpeg-by-arithmetic-codes": (
        JPEG_START + segment(0xC9, bytes(15)) + SCAN + JPEG_END,
        Raster(format="JPEG", data=JPEG_START + segment(0xC9, bytes(15)) + SCAN + JPEG_END),
    ),
    "png-metadata": (
        PNG_START + chunk(b"tEXt", b"a\0b") + chunk(b"acTL", bytes(8)) + PNG_DATA + chunk(b"fdAT", bytes(9))
        + chunk(b"eXIf", directory(274, 3, 8, ">")) + PNG_END + b"tail",
        Raster(format="PNG", data=PNG_START + PNG_DATA + PNG_END, keepable=True),
    ),
    "gif-comments-and-frames": (
        GIF_START + b"!\xfe\3abc\0" + b"\0\0" + GIF_CLEAR + GIF_FRAME + GIF_FRAME + b";tail",
        Raster(format="GIF", data=GIF_START + GIF_CLEAR + GIF_FRAME + b";"),
    ),
    "gif-frame-out-of-screen": (
        GIF_START.replace(b"\1\0\1\0", b"\0\0\0\0", 1) + GIF_FRAME,
        Raster(format="GIF", data=GIF_START + GIF_FRAME + b";"),
    ),
    "webp-metadata": (
        b"RIFF\x4a\0\0\0WEBP" + b"VP8X\x0a\0\0\0" + bytes(10) + WEBP[12:]
        + b"EXIF\x1a\0\0\0" + directory(274, 3, 3) + b"tail",
        Raster(format="WEBP", data=WEBP, keepable=True),
    ),
}  # fmt: skip


def test_tiff_keeps_the_first_of_two_tags() -> None:
    """Pillow would believe the last of two widths, and libtiff the first, which is far larger."""
    size = struct.pack("<HHIHHI", 256, 3, 1, 60_000, 0, 0)[:12] + struct.pack("<HHIHH", 256, 3, 1, 6, 0)
    data = b"II*\0\x08\0\0\0\x02\0" + size + bytes(4)
    assert data[:8] + b"\1\0" + size[:12] + bytes(4) + data[26:] == trim("TIFF", data).data


@pytest.mark.parametrize(("data", "wanted"), TRIMMED.values(), ids=TRIMMED.keys())
def test_trim_keeps_what_draws_and_nothing_else(data: bytes, wanted: Raster) -> None:
    """Metadata, later frames and tails are left out; once is enough."""
    assert wanted == trim(wanted.format, data)
    assert wanted.data == trim(wanted.format, wanted.data).data


ORIENTATIONS: dict[str, tuple[bytes, int]] = {
    "little-endian": (directory(274, 3, 6), 6),
    "big-endian": (directory(274, 3, 6, ">"), 6),
    "behind-a-label": (b"Exif\0\0" + directory(274, 3, 6), 6),
    "as-a-long": (directory(274, 4, 5), 5),
    "directory-without-an-end": (directory(274, 3, 6)[:-4], 6),
    "none": (directory(271, 3, 6), 1),
    "as-text": (directory(274, 2, 6), 1),
    "zero": (directory(274, 3, 0), 1),
    "nine": (directory(274, 3, 9), 1),
    "entry-cut": (directory(274, 3, 6)[:-6], 1),
    "head-only": (b"II*\0", 1),
    "no-byte": (b"", 1),
    "junk": (b"\xff" * 40, 1),
}


@pytest.mark.parametrize(("exif", "wanted"), ORIENTATIONS.values(), ids=ORIENTATIONS.keys())
def test_orientation_is_read_or_upright(exif: bytes, wanted: int) -> None:
    """What is damaged, missing or without a meaning counts as upright."""
    assert wanted == read_orientation(exif)
