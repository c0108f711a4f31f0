"""What headers say of a picture that is not decoded: size, turn, memory."""

from __future__ import annotations

import struct

import pytest

from evenshard.core.header import Header, read_header
from evenshard.core.raster import trim
from tests.support.picture_files import directory, png_chunk, segment, webp_file


def frame(marker: int, width: int, height: int, *samplings: int) -> bytes:
    """Write a JPEG's frame header: one sampling, as 0x22 for 2 x 2, for each component."""
    components = b"".join(bytes([index, sampling, 0]) for index, sampling in enumerate(samplings))
    return segment(marker, struct.pack(">BHHB", 8, height, width, len(samplings)) + components)


def scan(num_components: int) -> bytes:
    """Write the header of a JPEG's scan."""
    return segment(0xDA, bytes([num_components]) + bytes(2 * num_components + 3))


def png(width: int, height: int, depth: int, colour: int, *chunks: bytes) -> bytes:
    """Write a PNG's header, and what follows."""
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks)


def gif(screen: tuple[int, int], left: int, width: int) -> bytes:
    """Write a GIF whose first frame is one row high."""
    return b"GIF89a" + struct.pack("<2H", *screen) + b"\0\0\0," + struct.pack("<4H", left, 0, width, 1) + b"\0"


def bmp(width: int, height: int, bits: int, compression: int = 0) -> bytes:
    """Write a BMP's header."""
    return b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, width, height, 1, bits, compression)


def tiff(*entries: tuple[int, int], order: str = "<") -> bytes:
    """Write a TIFF's directory, whose values are long."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    return head + b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in entries)


JPEG_START, EXIF = b"\xff\xd8", segment(0xE1, b"Exif\0\0" + directory(274, 3, 6))
SCAN = segment(0xDA, bytes(10)) + b"data\xff\0data"
VP8 = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<2H", 0x4000 | 60, 0x8000 | 40)
VP8L = b"\x2f" + struct.pack("<I", 59 | 39 << 14)
WHOLE = 60 * 40 * 12
VP8X = bytes(4) + (59).to_bytes(3, "little") + (39).to_bytes(3, "little")
TURNED = directory(274, 3, 6)
PROGRESSIVE = frame(0xC2, 100, 80, 0x11, 0x11, 0x11)

HEADERS: dict[str, tuple[str, bytes, tuple[int, int], int, int]] = {
    # JPEG: 4 bytes a pixel of colour, 1 of grey; and coefficients of 2 bytes where scans have not all components
    "jpeg": ("JPEG", JPEG_START + frame(0xC0, 60, 40, 0x22, 0x11, 0x11) + scan(3), (60, 40), 1, 60 * 40 * 4),
    "jpeg-turned": ("JPEG", JPEG_START + EXIF + frame(0xC0, 60, 40, 17, 17, 17) + scan(3), (40, 60), 6, 60 * 40 * 4),
    "jpeg-grey": ("JPEG", JPEG_START + frame(0xC1, 60, 40, 0x11) + scan(1), (60, 40), 1, 60 * 40 * (1 + 4)),
    "jpeg-cmyk": ("JPEG", JPEG_START + frame(0xC0, 60, 40, 17, 17, 17, 17) + scan(4), (60, 40), 1, 60 * 40 * (4 + 4)),
    "jpeg-progressive": ("JPEG", JPEG_START + PROGRESSIVE + scan(3), (100, 80), 1, 32_000 + 13 * 10 * 3 * 128),
    "jpeg-progressive-halved": (
        "JPEG",
        JPEG_START + frame(0xCA, 96, 80, 0x22, 0x11, 0x11) + scan(3),
        (96, 80),
        1,
        96 * 80 * 4 + 6 * 5 * 6 * 128,
    ),
    "jpeg-scans-of-one-component": (
        "JPEG",
        JPEG_START + frame(0xC0, 96, 80, 0x11, 0x11, 0x11) + scan(1),
        (96, 80),
        1,
        96 * 80 * 4 + 12 * 10 * 3 * 128,
    ),
    "jpeg-cut-in-its-scan": ("JPEG", JPEG_START + PROGRESSIVE + SCAN, (100, 80), 1, 32_000 + 13 * 10 * 3 * 128),
    # PNG: two rows beside
    "png-rgb": ("PNG", png(60, 40, 8, 2, png_chunk(b"IDAT", b"")), (60, 40), 1, 60 * 40 * 4 + 2 * (180 + 9)),
    "png-rgb-16": ("PNG", png(60, 40, 16, 2), (60, 40), 1, 60 * 40 * 4 + 2 * (360 + 9)),
    "png-key": ("PNG", png(60, 40, 8, 2, png_chunk(b"tRNS", bytes(6))), (60, 40), 1, 60 * 40 * 8),
    "png-rgba": ("PNG", png(60, 40, 8, 6), (60, 40), 1, 60 * 40 * 8),
    "png-grey-alpha": ("PNG", png(60, 40, 8, 4), (60, 40), 1, 60 * 40 * 8),
    "png-palette": ("PNG", png(60, 40, 2, 3), (60, 40), 1, 60 * 40 * 5),
    "png-grey-16": ("PNG", png(60, 40, 16, 0), (60, 40), 1, 60 * 40 * 6),
    "png-one-row": ("PNG", png(60_000, 1, 16, 6), (60_000, 1), 1, 60_000 * (4 + 16) + 18),
    "png-turned-behind-its-pixels": (
        "PNG",
        png(60, 40, 8, 0, png_chunk(b"IDAT", b"?"), png_chunk(b"eXIf", TURNED)),
        (40, 60),
        6,
        60 * 40 * 5,
    ),
    "png-cut-in-its-pixels": ("PNG", png(60, 40, 8, 0, png_chunk(b"IDAT", b"????")[:-6]), (60, 40), 1, 60 * 40 * 5),
    # GIF
    "gif": ("GIF", gif((60, 40), 0, 60), (60, 40), 1, 60 * 40 * 5),
    "gif-frame-out-of-screen": ("GIF", gif((60, 40), 30, 50), (80, 40), 1, 80 * 40 * 5),
    # WebP: the decoder's canvases
    "webp": ("WEBP", webp_file((b"VP8 ", VP8)), (60, 40), 1, WHOLE),
    "webp-lossless": ("WEBP", webp_file((b"VP8L", VP8L)), (60, 40), 1, WHOLE),
    "webp-alpha": ("WEBP", webp_file((b"VP8X", VP8X), (b"ALPH", b""), (b"VP8 ", bytes(10))), (60, 40), 1, WHOLE),
    "webp-moving": (
        "WEBP",
        webp_file((b"VP8X", VP8X), (b"ANIM", b""), (b"ANMF", bytes(20))),
        (60, 40),
        1,
        60 * 40 * 12,
    ),
    "webp-turned": ("WEBP", webp_file((b"VP8X", VP8X), (b"VP8 ", VP8), (b"EXIF", TURNED)), (40, 60), 6, WHOLE),
    "webp-canvas-of-another-size": ("WEBP", webp_file((b"VP8X", bytes(10)), (b"VP8 ", VP8)), (60, 40), 1, WHOLE),
    "webp-cut": ("WEBP", webp_file((b"VP8 ", VP8 + bytes(90)))[:-80], (60, 40), 1, WHOLE),
    # BMP
    "bmp": ("BMP", bmp(60, 40, 24), (60, 40), 1, 60 * 40 * 4),
    "bmp-top-down": ("BMP", bmp(60, -40, 24), (60, 40), 1, 60 * 40 * 4),
    "bmp-alpha": ("BMP", bmp(60, 40, 32), (60, 40), 1, 60 * 40 * 8),
    "bmp-palette": ("BMP", bmp(60, 40, 4), (60, 40), 1, 60 * 40 * 5),
    "bmp-old": ("BMP", b"BM" + bytes(12) + struct.pack("<I4H", 12, 60, 40, 1, 24), (60, 40), 1, 60 * 40 * 4),
    # TIFF: the whole strip or tile, however large
    "tiff": ("TIFF", tiff((256, 60), (257, 40), (258, 8), (262, 2), (277, 3), (278, 4)), (60, 40), 1, 44 * 60 * 4),
    "tiff-big-endian": ("TIFF", tiff((256, 60), (257, 40), (258, 8), (278, 1), order=">"), (60, 40), 1, 60 * 40 * 5),
    "tiff-turned": ("TIFF", tiff((256, 60), (257, 40), (258, 8), (274, 6), (278, 1)), (40, 60), 6, 60 * 40 * 5),
    "tiff-16": ("TIFF", tiff((256, 60), (257, 40), (258, 16), (278, 1)), (60, 40), 1, 60 * 40 * 6),
    "tiff-tile": ("TIFF", tiff((256, 9), (257, 9), (258, 8), (322, 999), (323, 999)), (9, 9), 1, 81 + 999 * 999 * 4),
    "tiff-rows-per-strip-beyond": ("TIFF", tiff((256, 9), (257, 9), (278, 2**32 - 1)), (9, 9), 1, 81 * 5),
    "tiff-two-widths": ("TIFF", tiff((256, 60), (256, 9), (257, 40), (278, 1)), (60, 40), 1, 60 * 40 * 5),
}
"""Format, first bytes, upright size, orientation, and the memory that decoding the whole may take."""


@pytest.mark.parametrize(("name", "data", "size", "orientation", "num_bytes"), HEADERS.values(), ids=HEADERS.keys())
def test_header_says_size_turn_and_memory(
    name: str, data: bytes, size: tuple[int, int], orientation: int, num_bytes: int
) -> None:
    """Whatever stands behind the header: pixels, half of them, or none."""
    header = read_header(name, data)
    assert (size, orientation, num_bytes) == (header.upright, header.orientation, header.decoding_bytes((1_000, 1_000)))


CUT: dict[str, tuple[str, bytes, str]] = {
    "jpeg-no-frame": ("JPEG", JPEG_START + SCAN, "it is cut: its structure leads past its end"),
    "jpeg-cut-in-its-frame": ("JPEG", JPEG_START + PROGRESSIVE[:9], "it is cut: no end mark"),
    "jpeg-no-rows": ("JPEG", JPEG_START + frame(0xC0, 60, 0, 0x11) + scan(1), "60 x 0 pixels are no picture"),
    "png-cut": ("PNG", png(60, 40, 8, 2)[:20], "it is cut: its last chunk is not whole"),
    "png-damaged": ("PNG", png(60, 40, 8, 2).replace(b"\0\0\0\x3c", b"\0\0\0\x3d"), "wrong check sum of a IHDR chunk"),
    "png-no-such-colour": ("PNG", png(60, 40, 8, 5), "5 is no colour type of a PNG"),
    "png-header-not-first": ("PNG", png(9, 9, 8, 0).replace(b"IHDR", b"IHDr"), "it is cut: its structure leads"),
    "gif-no-frame": ("GIF", b"GIF89a" + bytes(7) + b";", "there is no picture in this GIF"),
    "gif-cut": ("GIF", gif((60, 40), 0, 60)[:20], "it is cut: its structure leads past its end"),
    "webp-no-picture": ("WEBP", webp_file((b"EXIF", TURNED)), "it is cut: its structure leads past its end"),
    "webp-cut": ("WEBP", webp_file((b"VP8 ", VP8))[:-2], "it is cut: its structure leads past its end"),
    "bmp-cut": ("BMP", bmp(60, 40, 24)[:24], "it is cut: its structure leads past its end"),
    "bmp-negative-width": ("BMP", bmp(-60, 40, 24), "-60 x 40 pixels are no picture"),
    "tiff-no-size": ("TIFF", tiff((256, 60)), "it is cut, or its directory says no size"),
    "avif-nothing": (
        "AVIF",
        b"\0\0\0\x10ftypavif\0\0\0\0",
        "unsupported kind of AVIF: there is no still picture in it",
    ),
}


@pytest.mark.parametrize(("name", "data", "message"), CUT.values(), ids=CUT.keys())
def test_header_that_is_not_whole_is_said_so(name: str, data: bytes, message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(ValueError, match=f"^{message}"):
        read_header(name, data)


SCALED: dict[str, tuple[tuple[int, int], int]] = {
    "whole": ((1000, 800), 1000 * 800),
    "nearly-half": ((501, 100), 1000 * 800),
    "half": ((500, 100), 500 * 400),
    "eighth": ((1, 1), 125 * 100),
}


@pytest.mark.parametrize(("wanted", "num_pixels"), SCALED.values(), ids=SCALED.keys())
def test_memory_of_a_jpeg_that_is_decoded_small(wanted: tuple[int, int], num_pixels: int) -> None:
    """Pixels count at the scale that is decoded, coefficients always."""
    header = Header(width=1000, height=800, scales=True, buffer_bytes=7_000_000)
    assert 4 * num_pixels + 7_000_000 == header.decoding_bytes(wanted)


PARTS: dict[str, tuple[str, bytes]] = {
    "jpeg": ("JPEG", JPEG_START + segment(0xFE, b"") * 100_001),
    "png": ("PNG", png(9, 9, 8, 2, png_chunk(b"tEXt", b"") * 100_001, png_chunk(b"IEND", b""))),
    "gif": ("GIF", b"GIF89a" + bytes(7) + b"!\xfe\0" * 100_001),
    "gif-junk": ("GIF", b"GIF89a" + bytes(7) + bytes(100_001)),
}


@pytest.mark.parametrize(("name", "data"), PARTS.values(), ids=PARTS.keys())
def test_reading_ends_when_parts_have_no_end(name: str, data: bytes) -> None:
    """A body of nothing but empty parts is given up, not walked to its end."""
    with pytest.raises(ValueError, match="more than 100000 parts"):
        trim(name, data)
