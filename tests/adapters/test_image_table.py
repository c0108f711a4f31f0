"""One table of pictures: every mode, format and defect, and what becomes of each, to the level.

A whole picture has two halves of one colour each; what is stored shows them, on the stated ground where they are
clear. A defect fails with its one reason and detail.
"""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageChops

from evenshard.adapters import flatten
from evenshard.adapters.image import Picture, make_picture
from evenshard.core.outcome import Failure, Reason
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.picture_files import (
    ADAM_7,
    bmp_file,
    gif_control,
    gif_file,
    gif_frame,
    jpeg_file,
    png_chunk,
    png_file,
    png_halves,
    png_key,
    png_pixels,
    segment,
    tiff_file,
    webp_file,
)
from tests.support.pictures import (
    BLUE,
    GREY,
    RED,
    SIZE,
    clear_right,
    halves,
    moving,
    opened,
    palette_halves,
    saved,
    scene,
    ycck_jpeg,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pictures import Rgb

WHITE, BLACK, GROUND = (255, 255, 255), (0, 0, 0), (10, 120, 230)
EXACT = ImageOptions(resize=Resize.NONE, encode=Encode.PNG, background=GROUND)
"""Nothing changes but the mode, and what is stored can be compared level by level."""

HALF_ON_GROUND = (50, 105, 160)
"""(90, 90, 90) at alpha 128 of 255 on `GROUND`, within one level."""
GREY_200, GREY_193, GREY_170, GREY_128, GREY_117 = ((level,) * 3 for level in (200, 193, 170, 128, 117))
GREY_85, GREY_81, GREY_78, GREY_51 = ((level,) * 3 for level in (85, 81, 78, 51))
DEEP_GREY, DEEP_VIOLET = (20_000,) * 3, (30_000, 0, 65_535)
"""16-bit samples, whose high bytes are (78, 78, 78) and (117, 0, 255)."""
VIOLET = (117, 0, 255)
INKS = ((0, 255, 255, 55), (255, 255, 0, 55))
"""Red and blue as CMYK, within a few levels."""
INK_RED, INK_BLUE = (200, 0, 0), (0, 0, 200)
YCC_HALVES = ((81, 49), (99, 213), (213, 114))
"""`RED` and `BLUE` as YCbCr, level by level."""
SPREAD, SMALL = (64, 32), (32, 16)

# --- Helpers for single formats


def png(depth: int, colour: int, left: tuple[int, ...], right: tuple[int, ...], *chunks: bytes, **given: bool) -> bytes:
    """Write a PNG of any depth and colour type."""
    return png_halves(SIZE, depth, colour, (left, right), *chunks, **given)


PALETTE = png_chunk(b"PLTE", bytes([*RED, *BLUE]))
CLEAR_SECOND = png_chunk(b"tRNS", b"\xff\0")


def rows(left: bytes, right: bytes, align: int = 1) -> bytes:
    """Write the rows of a picture of two halves, each given as the bytes of 8 pixels."""
    row = left * (SIZE[0] // 16) + right * (SIZE[0] // 16)
    return row.ljust(-(-len(row) // align) * align, b"\0") * SIZE[1]


def bgr(*colours: Rgb, padding: int = 1) -> bytes:
    """Write a BMP's palette."""
    return b"".join(bytes(colour[::-1]) + bytes(padding) for colour in colours)


def word(red: int, green: int, blue: int) -> bytes:
    """Write a pixel of 16 bits: 5 of red, 6 of green, 5 of blue."""
    return struct.pack("<H", red << 11 | green << 5 | blue)


def runs_of_8(width: int = 32) -> bytes:
    """Write the rows of a BMP of 8 bits as run lengths, once plainly and once with what else there is."""
    plain = bytes([width, 0, width, 1, 0, 0])
    mixed = b"\0\3\0\0\0\0" + bytes([width - 3, 0]) + b"\0\4\1\1\1\1" + bytes([width - 4, 1]) + b"\0\0"
    return (plain + mixed) * (SIZE[1] // 2) + b"\0\1"


def runs_of_4() -> bytes:
    """Write the rows of a BMP of 4 bits as run lengths."""
    return b"\x20\0\0\4\x11\x11\x1c\x11\0\0" * SIZE[1] + b"\0\1"


MASKS_565, MASKS_ALPHA = (0xF800, 0x7E0, 0x1F), (0xFF0000, 0xFF00, 0xFF, 0xFF000000)


def tiff(image: Image.Image, **settings: object) -> bytes:
    """Write a TIFF."""
    return saved(image, "TIFF", **settings)


def premultiplied(data: bytes) -> bytes:
    """Say of a TIFF that its colours are already multiplied by alpha."""
    return data.replace(struct.pack("<HHIHH", 338, 3, 1, 2, 0), struct.pack("<HHIHH", 338, 3, 1, 1, 0))


RGB_TAGS: dict[int, Any] = {256: SIZE[0], 257: SIZE[1], 258: [8, 8, 8], 259: 1, 262: 2, 277: 3}
GREY_TAGS: dict[int, Any] = {256: SIZE[0], 257: SIZE[1], 258: 8, 259: 1, 262: 1, 277: 1}


def strips(tags: dict[int, Any], data: bytes, order: str = "<", **more: Any) -> bytes:  # noqa: ANN401
    """Write a TIFF of two strips."""
    tags = {**tags, 278: SIZE[1] // 2, **{int(tag[1:]): value for tag, value in more.items()}}
    parts = [data[: len(data) // 2], data[len(data) // 2 :]]
    parts = [zlib.compress(part) for part in parts] if tags[259] == 8 else parts
    return tiff_file(tags, parts, tiled=False, order=order)


def tiles(**more: Any) -> bytes:  # noqa: ANN401
    """Write a TIFF of tiles of 16 x 16 pixels."""
    tags = {**RGB_TAGS, 322: 16, 323: 16, **{int(tag[1:]): value for tag, value in more.items()}}
    parts = [bytes(colour) * 256 for _ in range(2) for colour in (RED, RED, BLUE, BLUE)]
    return tiff_file(tags, [zlib.compress(part) for part in parts] if tags[259] == 8 else parts, tiled=True)


def planes(**more: Any) -> bytes:  # noqa: ANN401
    """Write a TIFF whose three bands are strips of their own."""
    parts = [rows(bytes([a]) * 8, bytes([b]) * 8) for a, b in zip(RED, BLUE, strict=True)]
    tags = {**RGB_TAGS, 284: 2, 278: SIZE[1], **{int(tag[1:]): value for tag, value in more.items()}}
    return tiff_file(tags, [zlib.compress(part) for part in parts] if tags[259] == 8 else parts, tiled=False)


GIF_PALETTE = bytes([*RED, *BLUE, *GREY, 1, 2, 3])
GIF_OTHER = bytes([*GREY, *GREY, *GREY, *GREY])
GIF_HALVES = (b"\0" * (SIZE[0] // 2) + b"\1" * (SIZE[0] // 2)) * SIZE[1]
GIF_CLEAR = (b"\0" * (SIZE[0] // 2) + b"\2" * (SIZE[0] // 2)) * SIZE[1]
GIF_GREY_FRAME = gif_frame(SIZE, b"\2" * SIZE[0] * SIZE[1])
LEFT_HALF = (SIZE[0] // 2, SIZE[1])


def gif(*blocks: bytes, **settings: Any) -> bytes:  # noqa: ANN401
    """Write a GIF of 4 colours."""
    return gif_file(SIZE, *blocks, **{"palette": GIF_PALETTE, **settings})


def wrapped_webp(*, flags: int, before: tuple[bytes, bytes], **settings: object) -> bytes:
    """Write a WebP inside of the wrapping that carries metadata."""
    whole = saved(halves(), "WEBP", **settings)
    canvas = bytes([flags, 0, 0, 0]) + (SIZE[0] - 1).to_bytes(3, "little") + (SIZE[1] - 1).to_bytes(3, "little")
    return webp_file((b"VP8X", canvas), before, (whole[12:16], whole[20:]))


Whole = tuple["Callable[[], bytes]", str, "Rgb", "Rgb", int]

WHOLE: dict[str, Whole] = {
    # PNG of grey
    "png-1": (lambda: saved(halves("1", 0, 1), "PNG"), "PNG", BLACK, WHITE, 0),
    "png-1-key": (lambda: png(1, 0, (0,), (1,), png_key(1)), "PNG", BLACK, GROUND, 0),
    "png-2": (lambda: png(2, 0, (1,), (2,)), "PNG", GREY_85, GREY_170, 0),
    "png-2-key": (lambda: png(2, 0, (1,), (2,), png_key(2)), "PNG", GREY_85, GROUND, 0),
    "png-4": (lambda: png(4, 0, (3,), (12,)), "PNG", GREY_51, (204, 204, 204), 0),
    "png-4-key": (lambda: png(4, 0, (3,), (12,), png_key(3)), "PNG", GROUND, (204, 204, 204), 0),
    "png-grey": (lambda: saved(halves("L", 90, 200), "PNG"), "PNG", GREY, GREY_200, 0),
    "png-grey-key": (lambda: saved(halves("L", 90, 200), "PNG", transparency=200), "PNG", GREY, GROUND, 0),
    "png-grey-alpha": (lambda: saved(clear_right("LA"), "PNG"), "PNG", GREY_81, GROUND, 0),
    "png-grey-half": (lambda: saved(halves("LA", (90, 255), (90, 128)), "PNG"), "PNG", GREY, HALF_ON_GROUND, 1),
    "png-16": (lambda: png(16, 0, (30_000,), (65_535,)), "PNG", GREY_117, WHITE, 0),
    "png-16-dark": (lambda: png(16, 0, (255,), (256,)), "PNG", BLACK, (1, 1, 1), 0),
    "png-16-key": (lambda: png(16, 0, (30_000,), (500,), png_key(500)), "PNG", GREY_117, GROUND, 0),
    "png-16-alpha": (lambda: png(16, 4, (20_000, 65_535), (0, 0)), "PNG", GREY_78, GROUND, 0),
    "png-16-by-pillow": (lambda: saved(halves("I;16", 30_000, 65_535), "PNG"), "PNG", GREY_117, WHITE, 0),
    # PNG of colours
    "png-rgb": (lambda: saved(halves(), "PNG"), "PNG", RED, BLUE, 0),
    "png-rgb-key": (lambda: saved(halves(), "PNG", transparency=BLUE), "PNG", RED, GROUND, 0),
    "png-rgb-16": (lambda: png(16, 2, DEEP_GREY, DEEP_VIOLET), "PNG", GREY_78, VIOLET, 0),
    "png-rgb-16-key": (lambda: png(16, 2, DEEP_GREY, DEEP_VIOLET, png_key(*DEEP_VIOLET)), "PNG", GREY_78, GROUND, 0),
    "png-rgba": (lambda: saved(clear_right(), "PNG"), "PNG", RED, GROUND, 0),
    "png-rgba-half": (lambda: saved(halves("RGBA", (*GREY, 255), (*GREY, 128)), "PNG"), "PNG", GREY, HALF_ON_GROUND, 1),
    "png-rgba-16": (lambda: png(16, 6, (*DEEP_VIOLET, 65_535), (0,) * 4), "PNG", VIOLET, GROUND, 0),
    "png-rgba-16-half": (lambda: png(16, 6, (*DEEP_GREY, 65_535), (23_130, 23_130, 23_130, 32_896)), "PNG", GREY_78,
        HALF_ON_GROUND, 1),
    # PNG with a palette
    "png-palette": (lambda: saved(palette_halves(), "PNG"), "PNG", RED, BLUE, 0),
    "png-palette-alphas": (lambda: saved(palette_halves(), "PNG", transparency=b"\x80\x00"), "PNG", (105, 75, 130),
        GROUND, 1),
    "png-palette-index": (lambda: saved(palette_halves(), "PNG", transparency=1), "PNG", RED, GROUND, 0),
    "png-palette-1-bit": (lambda: saved(palette_halves(), "PNG", bits=1, transparency=0), "PNG", GROUND, BLUE, 0),
    "png-palette-2-bit": (lambda: png(2, 3, (0,), (1,), PALETTE), "PNG", RED, BLUE, 0),
    "png-palette-4-bit": (lambda: png(4, 3, (0,), (1,), PALETTE, CLEAR_SECOND), "PNG", RED, GROUND, 0),
    "png-palette-8-bit": (lambda: png(8, 3, (0,), (1,), PALETTE, CLEAR_SECOND), "PNG", RED, GROUND, 0),
    # PNG interlaced or moving
    "png-interlaced": (lambda: png(8, 2, RED, BLUE, interlaced=True), "PNG", RED, BLUE, 0),
    "png-interlaced-1": (lambda: png(1, 0, (0,), (1,), interlaced=True), "PNG", BLACK, WHITE, 0),
    "png-interlaced-16": (lambda: png(16, 6, (*DEEP_VIOLET, 65_535), (0,) * 4, interlaced=True), "PNG", VIOLET,
        GROUND, 0),
    "png-interlaced-palette": (lambda: png(4, 3, (0,), (1,), PALETTE, interlaced=True), "PNG", RED, BLUE, 0),
    "png-moving": (lambda: moving("PNG"), "PNG", RED, BLUE, 0),
    "png-moving-after-still": (lambda: moving("PNG", default_image=True), "PNG", RED, BLUE, 0),
    # JPEG
    "jpeg": (lambda: saved(halves(), "JPEG", quality=95), "JPEG", RED, BLUE, 3),
    "jpeg-progressive": (lambda: saved(halves(), "JPEG", progressive=True), "JPEG", RED, BLUE, 6),
    "jpeg-restarts": (lambda: saved(halves(), "JPEG", restart_marker_blocks=1), "JPEG", RED, BLUE, 6),
    "jpeg-grey": (lambda: saved(halves("L", 90, 200), "JPEG", quality=95), "JPEG", GREY, GREY_200, 3),
    "jpeg-kept-rgb": (lambda: saved(halves(), "JPEG", keep_rgb=True, quality=95), "JPEG", RED, BLUE, 3),
    "jpeg-444": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(1, 1)] * 3), "JPEG", RED, BLUE, 2),
    "jpeg-422": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(2, 1), (1, 1), (1, 1)]), "JPEG", RED, BLUE, 2),
    "jpeg-420": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(2, 2), (1, 1), (1, 1)]), "JPEG", RED, BLUE, 2),
    "jpeg-411": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(4, 1), (1, 1), (1, 1)]), "JPEG", RED, BLUE, 2),
    "jpeg-410": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(4, 2), (1, 1), (1, 1)]), "JPEG", RED, BLUE, 2),
    "jpeg-440": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(1, 2), (1, 1), (1, 1)]), "JPEG", RED, BLUE, 2),
    "jpeg-scans-of-one-component": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(2, 2), (1, 1), (1, 1)],
        interleaved=False), "JPEG", RED, BLUE, 2),
    "jpeg-420-restarts": (lambda: jpeg_file(SPREAD, YCC_HALVES, [(2, 2), (1, 1), (1, 1)], restart_mcus=1), "JPEG",
        RED, BLUE, 2),
    "jpeg-arithmetic": (lambda: jpeg_file(SMALL, [(193, 128)], [(1, 1)], arithmetic=True), "JPEG", GREY_193, GREY_128,
        0),
    "jpeg-marked-rgb": (lambda: jpeg_file(SPREAD, list(zip(RED, BLUE, strict=True)), [(1, 1)] * 3, marks=segment(0xEE,
        b"Adobe\0\x64\0\0\0\0\0")), "JPEG", RED, BLUE, 0),
    "jpeg-cmyk": (lambda: saved(halves("CMYK", *INKS), "JPEG", quality=95), "JPEG", INK_RED, INK_BLUE, 3),
    "jpeg-cmyk-without-mark": (lambda: jpeg_file(SPREAD, [(255, 0), (0, 0), (0, 255), (200, 200)], [(1, 1)] * 4),
        "JPEG", INK_RED, INK_BLUE, 1),  # taken as inverted, as all others do
    "jpeg-ycck": (ycck_jpeg, "JPEG", INK_RED, INK_BLUE, 3),
    "jpeg-multi-picture": (lambda: moving("MPO"), "JPEG", RED, BLUE, 6),
    # GIF
    "gif": (lambda: saved(palette_halves(), "GIF"), "GIF", RED, BLUE, 0),
    "gif-87": (lambda: gif(gif_frame(SIZE, GIF_HALVES), version=b"87a"), "GIF", RED, BLUE, 0),
    "gif-grey": (lambda: saved(halves("L", 90, 200), "GIF"), "GIF", GREY, GREY_200, 0),
    "gif-1-bit": (lambda: saved(halves("1", 0, 1), "GIF"), "GIF", BLACK, WHITE, 0),
    "gif-clear": (lambda: saved(palette_halves(), "GIF", transparency=1), "GIF", RED, GROUND, 0),
    "gif-interlaced": (lambda: saved(palette_halves(), "GIF", interlace=1), "GIF", RED, BLUE, 0),
    "gif-comment": (lambda: saved(palette_halves(), "GIF", comment=b"!,;" * 200), "GIF", RED, BLUE, 0),
    "gif-moving": (lambda: moving("GIF", duration=50, loop=0), "GIF", RED, BLUE, 1),
    "gif-local-palette": (lambda: gif(gif_frame(SIZE, GIF_HALVES, palette=GIF_PALETTE), palette=GIF_OTHER), "GIF",
        RED, BLUE, 0),
    "gif-local-palette-alone": (lambda: gif(gif_frame(SIZE, GIF_HALVES, palette=GIF_PALETTE), palette=b""), "GIF",
        RED, BLUE, 0),
    "gif-first-frame-is-disposed-of": (lambda: gif(gif_control(disposal=2), gif_frame(SIZE, GIF_HALVES),
        GIF_GREY_FRAME), "GIF", RED, BLUE, 0),
    "gif-first-frame-is-taken-back": (lambda: gif(gif_control(disposal=3), gif_frame(SIZE, GIF_HALVES),
        GIF_GREY_FRAME), "GIF", RED, BLUE, 0),
    "gif-moving-clear": (lambda: gif(gif_control(clear=2, disposal=2), gif_frame(SIZE, GIF_CLEAR), GIF_GREY_FRAME),
        "GIF", RED, GROUND, 0),
    "gif-clear-by-the-last-control": (lambda: gif(gif_control(clear=0), gif_control(clear=2), gif_frame(SIZE,
        GIF_CLEAR)), "GIF", RED, GROUND, 0),
    "gif-small-frame": (lambda: gif(gif_frame(LEFT_HALF, b"\0" * 32 * 32)), "GIF", RED, GROUND, 0),
    "gif-small-frame-clear": (lambda: gif(gif_control(clear=1), gif_frame(LEFT_HALF, b"\1" * 32 * 32, at=(32, 0))),
        "GIF", GROUND, GROUND, 0),
    # WebP
    "webp": (lambda: saved(halves(), "WEBP", quality=95), "WEBP", RED, BLUE, 6),
    "webp-lossless": (lambda: saved(halves(), "WEBP", lossless=True), "WEBP", RED, BLUE, 0),
    "webp-grey": (lambda: saved(halves("L", 90, 200), "WEBP", lossless=True), "WEBP", GREY, GREY_200, 0),
    "webp-alpha": (lambda: saved(clear_right(), "WEBP", lossless=True), "WEBP", RED, GROUND, 0),
    "webp-alpha-half": (lambda: saved(halves("RGBA", (*GREY, 255), (*GREY, 128)), "WEBP", lossless=True), "WEBP",
        GREY, HALF_ON_GROUND, 1),
    "webp-lossy-alpha": (lambda: saved(clear_right(), "WEBP", quality=95), "WEBP", RED, GROUND, 6),
    "webp-moving": (lambda: moving("WEBP", lossless=True), "WEBP", RED, BLUE, 0),
    "webp-moving-alpha": (lambda: moving("WEBP", clear_right(), lossless=True), "WEBP", RED, GROUND, 0),
    "webp-with-a-profile": (lambda: wrapped_webp(flags=0x20, before=(b"ICCP", b"no profile"), lossless=True), "WEBP",
        RED, BLUE, 0),
    "webp-with-an-unknown-part": (lambda: wrapped_webp(flags=0, before=(b"????", b"odd"), quality=95), "WEBP", RED,
        BLUE, 6),
    # AVIF
    "avif": (lambda: saved(halves(), "AVIF", quality=95), "AVIF", RED, BLUE, 6),
    "avif-444": (lambda: saved(halves(), "AVIF", quality=95, subsampling="4:4:4"), "AVIF", RED, BLUE, 3),
    "avif-422": (lambda: saved(halves(), "AVIF", quality=95, subsampling="4:2:2"), "AVIF", RED, BLUE, 6),
    "avif-limited-range": (lambda: saved(halves(), "AVIF", quality=95, range="limited"), "AVIF", RED, BLUE, 6),
    "avif-grey": (lambda: saved(halves("L", 90, 200), "AVIF", quality=95), "AVIF", GREY, GREY_200, 3),
    "avif-alpha": (lambda: saved(clear_right(), "AVIF", quality=95), "AVIF", RED, GROUND, 6),
    "avif-moving": (lambda: moving("AVIF", quality=95), "AVIF", RED, BLUE, 6),
    "avif-moving-alpha": (lambda: moving("AVIF", clear_right(), quality=95), "AVIF", RED, GROUND, 6),
    # BMP
    "bmp-1": (lambda: saved(halves("1", 0, 1), "BMP"), "BMP", BLACK, WHITE, 0),
    "bmp-1-palette": (lambda: bmp_file(SIZE, 1, rows(b"\0", b"\xff", 4), palette=bgr(RED, BLUE)), "BMP", RED, BLUE, 0),
    "bmp-4": (lambda: bmp_file(SIZE, 4, rows(b"\0" * 4, b"\x11" * 4, 4), palette=bgr(RED, BLUE) * 8), "BMP", RED,
        BLUE, 0),
    "bmp-grey": (lambda: saved(halves("L", 90, 200), "BMP"), "BMP", GREY, GREY_200, 0),
    "bmp-palette": (lambda: saved(palette_halves(), "BMP"), "BMP", RED, BLUE, 0),
    "bmp-runs-of-8": (lambda: bmp_file(SIZE, 8, runs_of_8(), compression=1, palette=bgr(RED, BLUE) * 128), "BMP", RED,
        BLUE, 0),
    "bmp-runs-of-4": (lambda: bmp_file(SIZE, 4, runs_of_4(), compression=2, palette=bgr(RED, BLUE) * 8), "BMP", RED,
        BLUE, 0),
    "bmp-16": (lambda: bmp_file(SIZE, 16, rows(struct.pack("<H", 31 << 10) * 8, struct.pack("<H", 10) * 8)), "BMP",
        (255, 0, 0), (0, 0, 82), 0),  # 5 bits each: 31 is 255
    "bmp-565": (lambda: bmp_file(SIZE, 16, rows(word(31, 0, 0) * 8, word(0, 63, 10) * 8), compression=3,
        masks=MASKS_565, header_bytes=52), "BMP", (255, 0, 0), (0, 255, 82), 0),
    "bmp-rgb": (lambda: saved(halves(), "BMP"), "BMP", RED, BLUE, 0),
    "bmp-top-down": (lambda: bmp_file((SIZE[0], -SIZE[1]), 24, rows(bytes(RED[::-1]) * 8, bytes(BLUE[::-1]) * 8)),
        "BMP", RED, BLUE, 0),
    "bmp-32-without-masks": (lambda: saved(clear_right(), "BMP"), "BMP", RED, BLUE, 0),  # the fourth byte is no alpha
    "bmp-32-with-masks": (lambda: bmp_file(SIZE, 32, rows(bytes([*RED[::-1], 255]) * 8, bytes([*BLUE[::-1], 0]) * 8),
        compression=3, header_bytes=108, masks=MASKS_ALPHA), "BMP", RED, GROUND, 0),
    "bmp-os2": (lambda: bmp_file(SIZE, 24, rows(bytes(RED[::-1]) * 8, bytes(BLUE[::-1]) * 8), header_bytes=12), "BMP",
        RED, BLUE, 0),
    "bmp-os2-palette": (lambda: bmp_file(SIZE, 8, rows(b"\0" * 8, b"\1" * 8), header_bytes=12, palette=bgr(RED, BLUE,
        padding=0) * 128), "BMP", RED, BLUE, 0),
    "bmp-os2-second": (lambda: bmp_file(SIZE, 24, rows(bytes(RED[::-1]) * 8, bytes(BLUE[::-1]) * 8), header_bytes=64),
        "BMP", RED, BLUE, 0),
    # TIFF: kinds of samples
    "tiff-1": (lambda: tiff(halves("1", 0, 1)), "TIFF", BLACK, WHITE, 0),
    "tiff-1-white-is-zero": (lambda: strips(GREY_TAGS, rows(b"\xff", b"\0"), t258=1, t262=0), "TIFF", BLACK, WHITE, 0),
    "tiff-4": (lambda: strips(GREY_TAGS, rows(b"\x33" * 4, b"\xcc" * 4), t258=4), "TIFF", GREY_51, (204,) * 3, 0),
    "tiff-grey": (lambda: tiff(halves("L", 90, 200)), "TIFF", GREY, GREY_200, 0),
    "tiff-grey-white-is-zero": (lambda: strips(GREY_TAGS, rows(b"\xa5" * 8, b"\x37" * 8), t262=0), "TIFF", GREY,
        GREY_200, 0),
    "tiff-grey-alpha": (lambda: tiff(clear_right("LA")), "TIFF", GREY_81, GROUND, 0),
    "tiff-grey-premultiplied": (lambda: premultiplied(tiff(halves("LA", (90, 255), (45, 128)))), "TIFF", GREY,
        HALF_ON_GROUND, 1),
    "tiff-rgb": (lambda: tiff(halves()), "TIFF", RED, BLUE, 0),
    "tiff-rgba": (lambda: tiff(clear_right()), "TIFF", RED, GROUND, 0),
    "tiff-rgb-premultiplied": (lambda: premultiplied(tiff(halves("RGBA", (*GREY, 255), (45, 45, 45, 128)))), "TIFF",
        GREY, HALF_ON_GROUND, 1),
    "tiff-rgbx": (lambda: tiff(halves("RGBX", (*RED, 0), (*BLUE, 0))), "TIFF", RED, BLUE, 0),
    "tiff-16": (lambda: tiff(halves("I;16", 30_000, 65_535)), "TIFF", GREY_117, WHITE, 0),
    "tiff-16-big-endian": (lambda: tiff(halves("I;16B", 30_000, 65_535)), "TIFF", GREY_117, WHITE, 0),
    "tiff-16-deflate-big-endian": (lambda: strips(GREY_TAGS, rows(struct.pack(">H", 30_000) * 8, struct.pack(">H",
        65_535) * 8), ">", t258=16, t259=8), "TIFF", GREY_117, WHITE, 0),
    "tiff-rgb-16": (lambda: strips(RGB_TAGS, rows(struct.pack("<3H", *DEEP_GREY) * 8, struct.pack("<3H",
        *DEEP_VIOLET) * 8), t258=[16, 16, 16]), "TIFF", GREY_78, VIOLET, 0),
    "tiff-rgb-16-deflate-big-endian": (lambda: strips(RGB_TAGS, rows(struct.pack(">3H", *DEEP_GREY) * 8,
        struct.pack(">3H", *DEEP_VIOLET) * 8), ">", t258=[16, 16, 16], t259=8), "TIFF", GREY_78, VIOLET, 0),
    "tiff-palette": (lambda: tiff(palette_halves()), "TIFF", RED, BLUE, 0),
    "tiff-cmyk": (lambda: tiff(halves("CMYK", *INKS)), "TIFF", INK_RED, INK_BLUE, 0),
    "tiff-ycbcr": (lambda: tiff(halves().convert("YCbCr")), "TIFF", RED, BLUE, 2),
    # TIFF: kinds of storage
    "tiff-big-endian": (lambda: strips(RGB_TAGS, rows(bytes(RED) * 8, bytes(BLUE) * 8), ">"), "TIFF", RED, BLUE, 0),
    "tiff-strips-deflate": (lambda: strips(RGB_TAGS, rows(bytes(RED) * 8, bytes(BLUE) * 8), t259=8), "TIFF", RED,
        BLUE, 0),
    "tiff-tiles": (tiles, "TIFF", RED, BLUE, 0),
    "tiff-tiles-deflate": (lambda: tiles(t259=8), "TIFF", RED, BLUE, 0),
    "tiff-planes": (planes, "TIFF", RED, BLUE, 0),
    "tiff-planes-deflate": (lambda: planes(t259=8), "TIFF", RED, BLUE, 0),
    "tiff-fax": (lambda: tiff(halves("1", 0, 1), compression="group4"), "TIFF", BLACK, WHITE, 0),
    "tiff-fax-3": (lambda: tiff(halves("1", 0, 1), compression="group3"), "TIFF", BLACK, WHITE, 0),
    "tiff-lzw": (lambda: tiff(halves(), compression="tiff_lzw"), "TIFF", RED, BLUE, 0),
    "tiff-lzw-differences": (lambda: tiff(halves(), compression="tiff_lzw", tiffinfo={317: 2}), "TIFF", RED, BLUE, 0),
    "tiff-deflate": (lambda: tiff(halves(), compression="tiff_adobe_deflate"), "TIFF", RED, BLUE, 0),
    "tiff-packbits": (lambda: tiff(halves(), compression="packbits"), "TIFF", RED, BLUE, 0),
    "tiff-jpeg": (lambda: tiff(halves(), compression="jpeg", quality=95), "TIFF", RED, BLUE, 3),
    "tiff-jpeg-ycbcr": (lambda: tiff(halves().convert("YCbCr"), compression="jpeg", quality=95), "TIFF", RED, BLUE, 6),
    "tiff-pages": (lambda: moving("TIFF"), "TIFF", RED, BLUE, 0),
}  # fmt: skip
"""What is drawn: how, its format by content, the colour of its left and right half, and levels it may be off."""


@pytest.mark.parametrize(("make", "name", "left", "right", "off"), WHOLE.values(), ids=WHOLE.keys())
def test_every_mode_and_format_gives_its_colours(
    make: Callable[[], bytes], name: str, left: Rgb, right: Rgb, off: int
) -> None:
    """Whatever the mode and the format, the stored picture is RGB and shows what was drawn, on the stated ground."""
    data = make()
    picture = make_picture(data, EXACT)
    assert isinstance(picture, Picture), picture
    image, (width, height) = opened(picture.data), opened(data).size
    assert ("PNG", "RGB", (width, height)) == (image.format, image.mode, image.size)
    assert (name, "PNG", width, height) == (picture.original_format, picture.format, picture.width, picture.height)
    assert (width, height) == (picture.original_width, picture.original_height)
    for colour, start in ((left, 0), (right, width // 2)):
        box = (start + width // 16, height // 8, start + width * 7 // 16, height * 7 // 8)
        differences = ImageChops.difference(image, Image.new("RGB", image.size, colour)).crop(box)
        assert off >= max(differences.tobytes()), (colour, image.getpixel(box[:2]))


def test_parts_of_a_large_picture_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that is flattened in parts, of rows or of less than a row, is the same as one flattened at once."""
    bodies = [make() for make, *_ in WHOLE.values()]
    at_once = [make_picture(body, EXACT) for body in bodies]
    for num_pixels in (1_000, 20):
        monkeypatch.setattr(flatten, "_PART_PX", num_pixels)
        assert at_once == [make_picture(body, EXACT) for body in bodies]


# --- Defects

BASELINE, PROGRESSIVE = saved(scene(48, 36), "JPEG", quality=90), saved(scene(48, 36), "JPEG", progressive=True)
SECOND_SCAN = PROGRESSIVE.index(b"\xff\xda", PROGRESSIVE.index(b"\xff\xda") + 2)
PNG, GIF, BMP, TIFF = (saved(scene(48, 36), kind) for kind in ("PNG", "GIF", "BMP", "TIFF"))
WEBP, AVIF = saved(scene(48, 36), "WEBP"), saved(scene(48, 36), "AVIF")
LOSSLESS = saved(scene(48, 36), "WEBP", lossless=True)
MOVING = {kind: moving(kind) for kind in ("GIF", "WEBP", "AVIF", "PNG")}
GIF_PIXELS = 13 + 3 * 256
"""Where the first frame of a GIF begins, as Pillow writes it."""
TIFF_BITS = struct.pack("<HHII", 258, 3, 3, 134)
"""The entry of a TIFF's directory that says where its bits per sample are, as Pillow writes it."""


def half(data: bytes) -> bytes:
    """Lose the second half."""
    return data[: len(data) // 2]


def flip(data: bytes, at: int, count: int = 2) -> bytes:
    """Invert some bytes."""
    at %= len(data)
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + count]) + data[at + count :]


def tiff_with(tag: int, value: int, image: Image.Image) -> bytes:
    """Write an uncompressed TIFF, then overwrite one of its short tags."""
    data = saved(image, "TIFF")
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    for at in range(start + 2, start + 2 + 12 * count, 12):
        if struct.unpack_from("<H", data, at) == (tag,):
            return data[: at + 2] + struct.pack("<HIHH", 3, 1, value, 0) + data[at + 12 :]
    raise AssertionError(f"no tag {tag}")


def resized(data: bytes, form: str, width: int, height: int) -> bytes:
    """Have the header of a picture of 48 x 36 pixels say something else, packed as `form`."""
    sides = (36, 48) if form == ">HH" else (48, 36)
    new = (height, width) if form == ">HH" else (width, height)
    changed = data.replace(struct.pack(form, *sides), struct.pack(form, *new))
    assert changed != data
    return changed


BROKEN, EMPTY, UNSUPPORTED = Reason.BROKEN_PICTURE, Reason.EMPTY_BODY, Reason.UNSUPPORTED_FORMAT
NO_PICTURE, TOO_MANY = Reason.NOT_A_PICTURE, Reason.TOO_MANY_PIXELS
CUT_SHORT = "it is cut: its structure leads past its end"

DEFECTS: dict[str, tuple[bytes, Reason, str]] = {
    # No picture
    "no-byte": (b"", EMPTY, ""),
    "web-page": (b"<!doctype html><title>404</title>", NO_PICTURE, "it looks like a web page"),
    "json": (b'{"error": "gone"}', NO_PICTURE, "it looks like JSON"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", NO_PICTURE, "it looks like SVG"),
    "text": (b"Bad hotlink", NO_PICTURE, "it looks like text"),
    "zeros-before-a-jpeg": (bytes(8) + BASELINE, NO_PICTURE, "it looks like no known format, beginning"),
    "line-before-a-png": (b"\r\n" + PNG, NO_PICTURE, "it looks like no known format, beginning"),
    "page-before-a-gif": (b"<html></html>" + GIF, NO_PICTURE, "it looks like a web page"),
    # Pictures that are not read
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", UNSUPPORTED, "HEIC"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", UNSUPPORTED, "PostScript"),
    "icon": (saved(scene(48, 36), "ICO"), UNSUPPORTED, "ICO"),
    "jpeg-2000": (saved(scene(48, 36), "JPEG2000"), UNSUPPORTED, "JPEG 2000"),
    "portable-pixmap": (saved(scene(48, 36), "PPM"), UNSUPPORTED, "PNM"),
    "jpeg-12-bit": (BASELINE.replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"), UNSUPPORTED,
        "cannot handle 12-bit"),
    "jpeg-lossless": (BASELINE.replace(b"\xff\xc0\0\x11", b"\xff\xc3\0\x11"), UNSUPPORTED, "unsupported kind of JPEG"),
    "jpeg-of-two-components": (jpeg_file(SPREAD, [(9, 9)] * 2, [(1, 1)] * 2), UNSUPPORTED, "cannot handle 2-layer"),
    "bmp-header-of-16": (bmp_file(SIZE, 24, bytes(9_999), header_bytes=16)[:9_000], UNSUPPORTED,
        "Unsupported BMP header"),
    "bmp-very-many-runs": (bmp_file((2_001, 2_000), 8, bytes(9), compression=1), UNSUPPORTED,
        "unsupported kind of BMP: 4002000 pixels as run lengths"),
    "bmp-jpeg-inside": (bmp_file(SIZE, 24, BASELINE, compression=4), UNSUPPORTED, "Unsupported BMP compression"),
    "bmp-odd-masks": (bmp_file(SIZE, 16, bytes(9_999), compression=3, masks=(0xF, 0xF0, 0xF00), header_bytes=52),
        UNSUPPORTED, "Unsupported BMP bitfields"),
    "tiff-float": (saved(Image.new("F", (9, 9), 0.5), "TIFF"), UNSUPPORTED, "unsupported samples: mode F"),
    "tiff-32": (saved(Image.new("I", (9, 9), 70_000), "TIFF"), UNSUPPORTED, "unsupported samples: mode I"),
    "tiff-lab": (saved(Image.new("LAB", (9, 9)), "TIFF"), UNSUPPORTED, "unsupported samples: mode LAB"),
    "tiff-16-white-is-zero": (tiff_with(262, 0, Image.new("I;16", (9, 9))), UNSUPPORTED,
        "unsupported kind of TIFF: 16-bit"),
    "tiff-12": (tiff_with(258, 12, Image.new("I;16", (9, 9))), UNSUPPORTED, "unsupported kind of TIFF: 12-bit grey"),
    "tiff-reduced": (saved(scene(48, 36), "TIFF", tiffinfo={254: 1}), UNSUPPORTED,
        "unsupported kind of TIFF: its first"),
    "tiff-depth-of-7": (tiff_with(258, 7, Image.new("L", (9, 9))), UNSUPPORTED, "unknown pixel mode"),
    "avif-movie-alone": (MOVING["AVIF"].replace(b"meta", b"free"), UNSUPPORTED,
        "unsupported kind of AVIF: there is no"),
    # JPEG
    "jpeg-half": (half(BASELINE), BROKEN, "it is cut: no end mark"),
    "jpeg-half-progressive": (half(PROGRESSIVE), BROKEN, "it is cut: no end mark"),
    "jpeg-first-scan-only": (PROGRESSIVE[:SECOND_SCAN], BROKEN, "it is cut: no end mark"),
    "jpeg-up-to-the-last-scan": (PROGRESSIVE[: PROGRESSIVE.rindex(b"\xff\xda")], BROKEN, "it is cut: no end mark"),
    "jpeg-no-end-mark": (BASELINE[:-2], BROKEN, "it is cut: no end mark"),
    "jpeg-half-an-end-mark": (BASELINE[:-1], BROKEN, "it is cut: no end mark"),
    "jpeg-no-end-mark-but-a-tail": (BASELINE[:-2] + bytes(100), BROKEN, "it is cut: no end mark"),
    "jpeg-header-only": (BASELINE[:200], BROKEN, "it is cut: no end mark"),
    "jpeg-three-bytes": (BASELINE[:3], BROKEN, "it is cut"),
    "jpeg-no-scan": (BASELINE[: BASELINE.index(b"\xff\xda")] + b"\xff\xd9", BROKEN, "cannot load this image"),
    "jpeg-no-frame": (BASELINE.replace(b"\xff\xc0", b"\xff\xfe"), BROKEN, CUT_SHORT),
    "jpeg-bad-marker-in-scan": (BASELINE[:-60] + b"\xff\x5f" + BASELINE[-58:], BROKEN,
        "marker 5F where none may stand"),
    "jpeg-two-starts": (BASELINE[:2] + BASELINE, BROKEN, "it is cut: no end mark"),
    "jpeg-no-width": (resized(BASELINE, ">HH", 0, 36), BROKEN, "0 x 36 pixels are no picture"),
    "jpeg-no-height": (resized(BASELINE, ">HH", 48, 0), BROKEN, "48 x 0 pixels are no picture"),
    # PNG
    "png-eight-bytes": (PNG[:8], BROKEN, CUT_SHORT),
    "png-half": (half(PNG), BROKEN, "it is cut: its last chunk is not whole"),
    "png-no-end": (PNG[:-12], BROKEN, CUT_SHORT),
    "png-half-an-end": (PNG[:-5], BROKEN, CUT_SHORT),
    "png-bad-data": (flip(PNG, -40), BROKEN, "wrong check sum of a IDAT chunk"),
    "png-bad-sum": (flip(PNG, -14), BROKEN, "wrong check sum of a IDAT chunk"),
    "png-bad-header-sum": (flip(PNG, 30, 1), BROKEN, "wrong check sum of a IHDR chunk"),
    "png-bad-end-sum": (flip(PNG, -1, 1), BROKEN, "wrong check sum of a IEND chunk"),
    "png-no-data": (png_file((9, 9), 8, 2), BROKEN, "a chunk that every such PNG has is not there"),
    "png-no-palette": (png_file((2, 2), 8, 3, png_pixels(bytes(6))), BROKEN, "a chunk that every such PNG has"),
    "png-data-cut-inside": (png_file((9, 9), 8, 0, png_chunk(b"IDAT", zlib.compress(bytes(90))[:-6])), BROKEN,
        "image file is truncated"),
    "png-signature-by-text-mode": (PNG.replace(b"\r\n", b"\n", 1), BROKEN, "the PNG signature is damaged"),
    "png-two-headers": (png_file((9, 9), 8, 0, png_chunk(b"IHDR", struct.pack(">IIBBBBB", 99, 99, 8, 0, 0, 0, 0)),
        png_pixels(bytes(90))), BROKEN, "a header that is none, or not the first"),
    "png-no-size": (png_file((0, 9), 8, 0, png_pixels(bytes(9))), BROKEN, "0 x 9 pixels are no picture"),
    "png-no-such-depth": (png_file((9, 9), 3, 0, png_pixels(bytes(90))), BROKEN, "not identified by this driver"),
    "png-no-such-colour": (png_file((9, 9), 8, 5, png_pixels(bytes(90))), BROKEN, "5 is no colour type of a PNG"),
    "png-short-key": (png_file((9, 9), 8, 2, png_key(9), png_pixels(bytes(260))), BROKEN,
        "a tRNS chunk that is too short"),
    # GIF
    "gif-six-bytes": (b"GIF89a", BROKEN, CUT_SHORT),
    "gif-no-frame": (GIF[:GIF_PIXELS] + b";", BROKEN, "there is no picture in this GIF"),
    "gif-half": (half(GIF), BROKEN, CUT_SHORT),
    "gif-half-first-frame": (MOVING["GIF"][: MOVING["GIF"].index(b",") + 40], BROKEN, CUT_SHORT),
    "gif-half-its-pixels": (gif_file(SIZE, gif_frame((64, 16), GIF_HALVES[: 64 * 16]).replace(b"\x40\0\x10\0",
        b"\x40\0\x20\0"), palette=GIF_PALETTE), BROKEN, "image file is truncated"),
    "gif-no-size": (gif_file((0, 0), gif_frame((0, 0), b""), palette=GIF_PALETTE), BROKEN,
        "0 x 0 pixels are no picture"),
    # WebP
    "webp-half": (half(WEBP), BROKEN, "it is cut: shorter than it says"),
    "webp-half-lossless": (half(LOSSLESS), BROKEN, "it is cut: shorter than it says"),
    "webp-half-moving": (half(MOVING["WEBP"]), BROKEN, "it is cut: shorter than it says"),
    "webp-header-only": (WEBP[:20], BROKEN, CUT_SHORT),
    "webp-damaged": (LOSSLESS[:60] + bytes(60) + LOSSLESS[120:], BROKEN, "failed to read next frame"),
    "webp-no-picture": (webp_file((b"EXIF", b"")), BROKEN, CUT_SHORT),
    # AVIF
    "avif-half": (half(AVIF), BROKEN, "it is cut"),
    "avif-no-last-byte": (AVIF[:-1], BROKEN, "it is cut: pixels of it are not there"),
    "avif-header-only": (AVIF[:40], BROKEN, "it is cut: its last box is not whole"),
    "avif-damaged": (AVIF[:-60] + bytes(60), BROKEN, "RuntimeError: Failed to decode frame 0"),
    # BMP
    "bmp-half": (half(BMP), BROKEN, "image file is truncated"),
    "bmp-no-last-byte": (BMP[:-1], BROKEN, "image file is truncated"),
    "bmp-header-only": (BMP[:20], BROKEN, CUT_SHORT),
    "bmp-no-size": (resized(BMP, "<ii", 0, 36), BROKEN, "0 x 36 pixels are no picture"),
    "bmp-negative-width": (resized(BMP, "<ii", -48, 36), BROKEN, "-48 x 36 pixels are no picture"),
    "bmp-runs-cut": (bmp_file(SIZE, 8, runs_of_8()[:100], compression=1, palette=bgr(RED, BLUE) * 128), BROKEN,
        "not enough image data"),
    # TIFF
    "tiff-half": (half(TIFF), BROKEN, "image file is truncated"),
    "tiff-no-last-strip": (TIFF[:-20], BROKEN, "image file is truncated"),
    "tiff-empty-directory": (b"II*\0\x08\0\0\0\0\0\0\0\0\0", BROKEN, "it is cut, or its directory says no size"),
    "tiff-directory-outside": (b"II*\0\xff\xff\xff\x7f", BROKEN, "it is cut, or its directory says no size"),
    "tiff-strips-outside": (tiff_with(273, 0xFFFF, scene(48, 36)), BROKEN, "image file is truncated"),
    "tiff-tag-outside": (TIFF.replace(TIFF_BITS, TIFF_BITS[:8] + b"\xff\xff\xff\x7f"), BROKEN,
        "tag 258 leads past the end of the file"),
    "tiff-no-such-compression": (tiff_with(259, 4_711, scene(48, 36)), BROKEN, "SyntaxError: 4711"),
    "tiff-no-width": (tiff_with(256, 0, scene(48, 36)), BROKEN, "0 x 36 pixels are no picture"),
    # Absurd sizes
    "jpeg-huge": (resized(BASELINE, ">HH", 60_000, 60_000), TOO_MANY,
        "60000 x 60000 pixels; at most 89478485 are decoded"),
    "png-huge": (png_file((2**31, 2**31), 8, 2, png_pixels(bytes(9))), TOO_MANY,
        "2147483648 x 2147483648 pixels; at most"),
    "gif-huge": (GIF[:6] + b"\xff" * 4 + GIF[10:], TOO_MANY, "65535 x 65535 pixels; at most 89478485 are decoded"),
    "gif-huge-frame": (gif_file(SIZE, gif_frame(SIZE, GIF_HALVES, at=(65_000, 65_000))), TOO_MANY,
        "65064 x 65032 pixels; at most 89478485 are decoded"),
    "gif-frame-outside-of-all": (gif_file(SIZE, gif_frame(SIZE, GIF_HALVES, at=(65_535, 0))), BROKEN,
        "the first frame lies outside of what a GIF can hold"),
    "webp-huge": (MOVING["WEBP"].replace(b"\x3f\0\0\x1f\0\0", b"\xff\xff\0\xff\x7f\0", 1), TOO_MANY,
        "65536 x 32768 pixels; at most 89478485 are decoded"),
    "avif-huge": (resized(AVIF, ">II", 2**31, 9), TOO_MANY, "2147483648 x 9 pixels; at most 89478485 are decoded"),
    "bmp-huge": (resized(BMP, "<ii", 60_000, 60_000), TOO_MANY, "60000 x 60000 pixels; at most 89478485 are decoded"),
    "tiff-huge": (tiff_with(256, 60_000, scene(3, 60_000)), TOO_MANY,
        "60000 x 60000 pixels; at most 89478485 are decoded"),
    "tiff-huge-tile": (tiles(t322=60_000, t323=60_000), TOO_MANY, "64 x 32 pixels; they may need 14401 MB of memory"),
}  # fmt: skip
"""A body, the reason of its failure, and how the detail begins."""


@pytest.mark.parametrize(("data", "reason", "detail"), DEFECTS.values(), ids=DEFECTS.keys())
@pytest.mark.parametrize("options", [ImageOptions(size_px=24), EXACT], ids=["squash", "none"])
def test_every_defect_has_its_reason(data: bytes, reason: Reason, detail: str, options: ImageOptions) -> None:
    """It fails with one reason and one line that says what is wrong, however it would be resized."""
    made = make_picture(data, options)
    assert isinstance(made, Failure)
    assert (reason, detail) == (made.reason, made.detail[: len(detail)])
    assert made.detail.isprintable()
    assert len(made.detail) <= 230
    assert "Warning" not in made.detail


def test_no_defect_of_the_table_is_a_whole_picture() -> None:
    """No case is a picture by mistake, and what is damaged there is good before."""
    good = {PNG, GIF, BMP, TIFF, WEBP, AVIF, LOSSLESS, BASELINE, PROGRESSIVE, *MOVING.values()}
    assert all(isinstance(make_picture(each, EXACT), Picture) for each in good)
    assert not good & {data for data, _, _ in DEFECTS.values()}


def rows_of(depth: int, colour: int, size: tuple[int, int], *, interlaced: bool) -> list[bytes]:
    """Write the rows of a PNG that is nowhere black, each behind its filter's number, in the order of its passes."""
    bits, rows = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour], []
    for x, y, dx, dy in ADAM_7 if interlaced else ((0, 0, 1, 1),):
        if columns := len(range(x, size[0], dx)):
            rows += [b"\0" + b"\x11" * -(-columns * bits // 8)] * len(range(y, size[1], dy))
    return rows


@pytest.mark.parametrize("interlaced", [False, True], ids=["plain", "interlaced"])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 2), (3, 3), (5, 4), (9, 9), (16, 8)], ids=str)
@pytest.mark.parametrize(("depth", "colour"), [(1, 0), (16, 0), (8, 2), (4, 3), (8, 4), (16, 6)])
def test_png_whose_data_ends_early_is_not_stored_black(
    depth: int, colour: int, size: tuple[int, int], *, interlaced: bool
) -> None:
    """Compressed data that rightly ends before the last row fails as cut; with the last row it is whole."""
    palette = [png_chunk(b"PLTE", bytes([9] * 768))] if colour == 3 else []
    rows = rows_of(depth, colour, size, interlaced=interlaced)
    for count in range(len(rows) + 1):
        data = png_file(size, depth, colour, *palette, png_pixels(b"".join(rows[:count])), interlaced=interlaced)
        made = make_picture(data, EXACT)
        if count == len(rows):
            assert isinstance(made, Picture), made
            continue
        assert isinstance(made, Failure), count
        detail = "it is cut: its data ends before its last row" if count else "image file is truncated"
        assert (BROKEN, detail) == (made.reason, made.detail[: len(detail)])


def test_png_that_ends_black_is_whole() -> None:
    """Black, clear and empty last rows are no sign of a cut where the data is there."""
    for mode, left in (("RGB", RED), ("RGBA", (*RED, 255)), ("L", 90), ("1", 1)):
        image = halves(mode, left, left)
        image.paste(0 if mode in "L1" else (0,) * len(mode), (0, 20, *SIZE))
        assert isinstance(make_picture(saved(image, "PNG"), EXACT), Picture)


STILL_WHOLE: dict[str, tuple[bytes, bytes]] = {
    "jpeg-tail": (BASELINE + b"<html>" * 700, BASELINE),
    "jpeg-another-behind": (BASELINE + PROGRESSIVE, BASELINE),
    "jpeg-tables-left-out": (BASELINE.replace(b"\xff\xc4", b"\xff\xfe"), BASELINE),  # then the usual ones are meant
    "png-tail": (PNG + bytes(4_096), PNG),
    "png-bad-sum-of-what-does-not-draw": (PNG[:33] + png_chunk(b"tEXt", b"a\0b")[:-1] + b"?" + PNG[33:], PNG),
    "gif-tail": (GIF + b"tail", GIF),
    "gif-no-end-mark": (GIF[:-1], GIF),
    "gif-cut-behind-its-first-frame": (MOVING["GIF"][:-40], MOVING["GIF"]),
    "webp-tail": (WEBP + b"tail" * 99, WEBP),
    "avif-tail": (AVIF + b"tail" * 99, AVIF),
    "avif-tail-of-zeros": (AVIF + bytes(4_096), AVIF),
    "avif-cut-behind-its-still": (MOVING["AVIF"][:-40], MOVING["AVIF"]),
    "bmp-tail": (BMP + b"tail" * 99, BMP),
    "tiff-tail": (TIFF + b"tail" * 99, TIFF),
}  # fmt: skip
"""Files with something more, or without something that does not draw; and what they are the same as."""


@pytest.mark.parametrize(("data", "plain"), STILL_WHOLE.values(), ids=STILL_WHOLE.keys())
def test_what_does_not_draw_does_not_matter(data: bytes, plain: bytes) -> None:
    """Bytes behind the end, marks of the end, and later frames make no difference where all pixels are there."""
    assert data != plain
    picture = make_picture(data, EXACT)
    assert isinstance(picture, Picture), picture
    assert make_picture(plain, EXACT) == picture


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_kept_file_has_no_tail(kind: str) -> None:
    """A file that is stored as it came loses what follows its end, so that what is recorded of it is true."""
    whole = {"jpeg": BASELINE, "png": PNG, "webp": WEBP}[kind]
    kept = make_picture(whole + b"tail" * 1_000, ImageOptions(resize=Resize.NONE, encode=Encode(kind)))
    assert isinstance(kept, Picture)
    assert (whole, kind.upper()) == (kept.data, kept.format)


def test_many_threads_give_what_one_gives() -> None:
    """Eight threads over every kind of picture give the same files as one after another."""
    bodies = [make() for make, *_ in WHOLE.values()] * 3
    options = ImageOptions(size_px=24)
    alone = [make_picture(body, options) for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: make_picture(body, options), bodies))
    assert alone == together
