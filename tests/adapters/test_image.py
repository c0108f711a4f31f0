"""Pictures that are whole: every mode and format comes out upright, flat, 8-bit RGB, of the size asked for."""

from __future__ import annotations

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageStat

from evenshard.adapters.image import Picture, make_picture, pil_payload
from evenshard.core.recipe import Encode, ImageOptions, Resize

if TYPE_CHECKING:
    from collections.abc import Callable

Rgb = tuple[int, int, int]

RED, BLUE, GREY = (200, 30, 30), (30, 30, 200), (90, 90, 90)
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
GROUND = (10, 120, 230)
EXACT = ImageOptions(resize=Resize.NONE, encode=Encode.PNG, background=GROUND)
"""Nothing changes but the mode, and what is stored can be compared level by level."""

SIZE = WIDTH, HEIGHT = 64, 32
HALF_ON_GROUND = (50, 105, 160)
"""(90, 90, 90) at alpha 128 of 255 on `GROUND`, within one level."""


def encode(image: Image.Image, name: str, **settings: object) -> bytes:
    """Write a picture file."""
    with io.BytesIO() as file:
        image.save(file, name, **settings)
        return file.getvalue()


def decode(data: bytes) -> Image.Image:
    """Read a picture file with all its pixels."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def stored(data: bytes, options: ImageOptions = EXACT) -> Picture:
    """Make a picture that must not fail."""
    picture = make_picture(data, options)
    assert isinstance(picture, Picture), picture
    return picture


def halves(mode: str, left: float | tuple[int, ...], right: float | tuple[int, ...]) -> Image.Image:
    """Draw a picture whose left and right halves have one value each."""
    image = Image.new(mode, SIZE, left)
    image.paste(right, (WIDTH // 2, 0, WIDTH, HEIGHT))
    return image


def palette_halves(*colours: Rgb) -> Image.Image:
    """Draw a palette picture: index 0 left, index 1 right."""
    image = halves("P", 0, 1)
    image.putpalette([level for colour in colours for level in colour])
    return image


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Write one PNG chunk."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(depth: int, colour: int, left: bytes, right: bytes, *chunks: bytes) -> bytes:
    """Write a PNG by hand, since Pillow cannot write every depth.

    Args:
        depth: bits per sample.
        colour: the PNG colour type.
        left: packed bytes of 8 pixels of the left half, which is 4 of them wide.
        right: the same of the right half.
        chunks: what stands between header and data.
    """
    row = b"\0" + left * (WIDTH // 16) + right * (WIDTH // 16)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0)
    body = png_chunk(b"IHDR", header) + b"".join(chunks) + png_chunk(b"IDAT", zlib.compress(row * HEIGHT))
    return b"\x89PNG\r\n\x1a\n" + body + png_chunk(b"IEND", b"")


def deep_png(colour: int, left: tuple[int, ...], right: tuple[int, ...], *chunks: bytes) -> bytes:
    """Write a PNG of 16 bits per sample."""
    pixels = (struct.pack(f">{len(pixel)}H", *pixel) * 8 for pixel in (left, right))
    return png(16, colour, *pixels, *chunks)


def interlaced_png(left: Rgb, right: Rgb) -> bytes:
    """Write an Adam7 PNG by hand."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    rows = b"".join(
        b"\0" + b"".join(bytes(left if x < WIDTH // 2 else right) for x in range(x0, WIDTH, dx))
        for x0, y0, dx, dy in passes
        for _ in range(y0, HEIGHT, dy)
    )
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1))
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")


def key(*samples: int) -> bytes:
    """Write the PNG chunk that names the clear colour."""
    return png_chunk(b"tRNS", struct.pack(f">{len(samples)}H", *samples))


def ycck_jpeg() -> bytes:
    """Write the JPEG of an old Photoshop: CMYK, inverted, its first three inks turned to YCbCr.

    Pillow writes inverted CMYK, so the turned inks are inverted once more; then the mark is set that says so.
    """
    inks = halves("CMYK", (0, 255, 255, 55), (255, 255, 0, 55))
    cyan, magenta, yellow, black = inks.split()
    turned = Image.merge("RGB", (cyan, magenta, yellow)).convert("YCbCr")
    bands = [ImageChops.invert(band) for band in turned.split()]
    data = bytearray(encode(Image.merge("CMYK", (*bands, black)), "JPEG", quality=95))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)


def small_frame_gif() -> bytes:
    """Write a GIF whose only frame covers the left half of its screen."""
    frame = encode(Image.new("P", (WIDTH // 2, HEIGHT), 1), "GIF", optimize=False)
    blank = Image.new("P", (1, 1))
    blank.putpalette(bytes([*BLACK, *RED]) + bytes(3 * 254))
    whole = encode(blank, "GIF", optimize=False)
    table_end = 13 + 3 * 2 ** ((whole[10] & 7) + 1)
    palette = bytes([*BLACK, *RED]) + bytes(table_end - 13 - 6)
    frame_start = frame.index(b",", 13 + 3 * 2 ** ((frame[10] & 7) + 1))
    head = b"GIF89a" + struct.pack("<HH", *SIZE) + whole[10:13]
    return head + palette + frame[frame_start:]


def bmp_with_alpha(left: Rgb, right: Rgb) -> bytes:
    """Write a BMP whose header has a mask for alpha; its right half is clear."""
    pixels = b"".join(bytes([*colour[::-1], alpha]) * (WIDTH // 2) for colour, alpha in ((left, 255), (right, 0)))
    masks = struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    header = (
        struct.pack("<IiiHHIIiiII", 108, *SIZE, 1, 32, 3, len(pixels) * HEIGHT, 0, 0, 0, 0)
        + masks
        + b"BGRs"
        + bytes(48)
    )
    start = 14 + len(header)
    return b"BM" + struct.pack("<IHHI", start + len(pixels) * HEIGHT, 0, 0, start) + header + pixels * HEIGHT


def moving(name: str, **settings: object) -> bytes:
    """Write a moving picture that begins red and blue, and goes on in grey."""
    return encode(
        halves("RGB", RED, BLUE), name, save_all=True, append_images=[Image.new("RGB", SIZE, GREY)] * 3, **settings
    )


def with_alpha(mode: str = "RGBA") -> Image.Image:
    """Draw red on the left, and on the right a colour that is hidden."""
    return halves("RGBA", (*RED, 255), (*BLUE, 0)).convert(mode)


def tiff(image: Image.Image, **settings: object) -> bytes:
    """Write a TIFF."""
    return encode(image, "TIFF", **settings)


def premultiplied(data: bytes) -> bytes:
    """Say of a TIFF that its colours are already multiplied by alpha."""
    return data.replace(struct.pack("<HHIHH", 338, 3, 1, 2, 0), struct.pack("<HHIHH", 338, 3, 1, 1, 0))


LUMA_OF_RED = (81, 81, 81)
PALETTE_ALPHA = palette_halves(RED, BLUE)
CLEAR_RIGHT = b"\xff\x00"

PICTURES: dict[str, tuple[Callable[[], bytes], str, Rgb, Rgb, int]] = {
    # PNG
    "png-1": (lambda: encode(halves("1", 0, 1), "PNG"), "PNG", BLACK, WHITE, 0),
    "png-1-key": (lambda: png(1, 0, b"\0", b"\xff", key(1)), "PNG", BLACK, GROUND, 0),
    "png-2": (lambda: png(2, 0, b"\x55\x55", b"\xaa\xaa"), "PNG", (85, 85, 85), (170, 170, 170), 0),
    "png-2-key": (lambda: png(2, 0, b"\x55\x55", b"\xaa\xaa", key(2)), "PNG", (85, 85, 85), GROUND, 0),
    "png-4": (lambda: png(4, 0, b"\x33" * 4, b"\xcc" * 4), "PNG", (51, 51, 51), (204, 204, 204), 0),
    "png-4-key": (lambda: png(4, 0, b"\x33" * 4, b"\xcc" * 4, key(3)), "PNG", GROUND, (204, 204, 204), 0),
    "png-grey": (lambda: encode(halves("L", 90, 200), "PNG"), "PNG", GREY, (200, 200, 200), 0),
    "png-grey-key": (lambda: encode(halves("L", 90, 200), "PNG", transparency=200), "PNG", GREY, GROUND, 0),
    "png-grey-alpha": (lambda: encode(with_alpha("LA"), "PNG"), "PNG", LUMA_OF_RED, GROUND, 0),
    "png-grey-half": (lambda: encode(halves("LA", (90, 255), (90, 128)), "PNG"), "PNG", GREY, HALF_ON_GROUND, 1),
    "png-16": (lambda: deep_png(0, (30_000,), (65_535,)), "PNG", (117, 117, 117), WHITE, 0),
    "png-16-dark": (lambda: deep_png(0, (255,), (256,)), "PNG", BLACK, (1, 1, 1), 0),
    "png-16-key": (lambda: deep_png(0, (30_000,), (500,), key(500)), "PNG", (117, 117, 117), GROUND, 0),
    "png-16-alpha": (lambda: deep_png(4, (20_000, 65_535), (0, 0)), "PNG", (78, 78, 78), GROUND, 0),
    "png-rgb": (lambda: encode(halves("RGB", RED, BLUE), "PNG"), "PNG", RED, BLUE, 0),
    "png-rgb-key": (lambda: encode(halves("RGB", RED, BLUE), "PNG", transparency=BLUE), "PNG", RED, GROUND, 0),
    "png-rgb-16": (lambda: deep_png(2, (20_000,) * 3, (30_000, 0, 65_535)), "PNG", (78, 78, 78), (117, 0, 255), 0),
    "png-rgb-16-key": (
        lambda: deep_png(2, (20_000,) * 3, (30_000, 0, 65_535), key(30_000, 0, 65_535)),
        "PNG",
        (78, 78, 78),
        GROUND,
        0,
    ),
    "png-rgba": (lambda: encode(with_alpha(), "PNG"), "PNG", RED, GROUND, 0),
    "png-rgba-half": (
        lambda: encode(halves("RGBA", (*GREY, 255), (*GREY, 128)), "PNG"),
        "PNG",
        GREY,
        HALF_ON_GROUND,
        1,
    ),
    "png-rgba-16": (lambda: deep_png(6, (20_000,) * 3 + (65_535,), (0,) * 4), "PNG", (78, 78, 78), GROUND, 0),
    "png-palette": (lambda: encode(palette_halves(RED, BLUE), "PNG"), "PNG", RED, BLUE, 0),
    "png-palette-alphas": (
        lambda: encode(PALETTE_ALPHA, "PNG", transparency=b"\x80\x00"),
        "PNG",
        (105, 75, 130),
        GROUND,
        1,
    ),
    "png-palette-index": (lambda: encode(PALETTE_ALPHA, "PNG", transparency=1), "PNG", RED, GROUND, 0),
    "png-palette-1-bit": (lambda: encode(PALETTE_ALPHA, "PNG", bits=1, transparency=0), "PNG", GROUND, BLUE, 0),
    "png-palette-2-bit": (
        lambda: png(2, 3, b"\0\0", b"\x55\x55", png_chunk(b"PLTE", bytes([*RED, *BLUE]))),
        "PNG",
        RED,
        BLUE,
        0,
    ),
    "png-palette-4-bit": (
        lambda: png(
            4, 3, b"\0" * 4, b"\x11" * 4, png_chunk(b"PLTE", bytes([*RED, *BLUE])), png_chunk(b"tRNS", CLEAR_RIGHT)
        ),
        "PNG",
        RED,
        GROUND,
        0,
    ),
    "png-interlaced": (lambda: interlaced_png(RED, BLUE), "PNG", RED, BLUE, 0),
    "png-moving": (lambda: moving("PNG"), "PNG", RED, BLUE, 0),
    "png-moving-after-still": (
        lambda: encode(
            halves("RGB", RED, BLUE),
            "PNG",
            save_all=True,
            default_image=True,
            append_images=[Image.new("RGB", SIZE, GREY)] * 2,
        ),
        "PNG",
        RED,
        BLUE,
        0,
    ),
    # JPEG
    "jpeg": (lambda: encode(halves("RGB", RED, BLUE), "JPEG", quality=95), "JPEG", RED, BLUE, 3),
    "jpeg-444": (lambda: encode(halves("RGB", RED, BLUE), "JPEG", quality=95, subsampling=0), "JPEG", RED, BLUE, 3),
    "jpeg-progressive": (lambda: encode(halves("RGB", RED, BLUE), "JPEG", progressive=True), "JPEG", RED, BLUE, 6),
    "jpeg-restarts": (
        lambda: encode(halves("RGB", RED, BLUE), "JPEG", restart_marker_blocks=1),
        "JPEG",
        RED,
        BLUE,
        6,
    ),
    "jpeg-grey": (lambda: encode(halves("L", 90, 200), "JPEG", quality=95), "JPEG", GREY, (200, 200, 200), 3),
    "jpeg-kept-rgb": (
        lambda: encode(halves("RGB", RED, BLUE), "JPEG", keep_rgb=True, quality=95),
        "JPEG",
        RED,
        BLUE,
        3,
    ),
    "jpeg-cmyk": (
        lambda: encode(halves("CMYK", (0, 255, 255, 55), (255, 255, 0, 55)), "JPEG", quality=95),
        "JPEG",
        (200, 0, 0),
        (0, 0, 200),
        3,
    ),
    "jpeg-ycck": (ycck_jpeg, "JPEG", (200, 0, 0), (0, 0, 200), 3),
    "jpeg-multi-picture": (lambda: moving("MPO"), "JPEG", RED, BLUE, 6),
    # GIF
    "gif": (lambda: encode(palette_halves(RED, BLUE), "GIF"), "GIF", RED, BLUE, 0),
    "gif-grey": (lambda: encode(halves("L", 90, 200), "GIF"), "GIF", GREY, (200, 200, 200), 0),
    "gif-1-bit": (lambda: encode(halves("1", 0, 1), "GIF"), "GIF", BLACK, WHITE, 0),
    "gif-clear": (lambda: encode(palette_halves(RED, BLUE), "GIF", transparency=1), "GIF", RED, GROUND, 0),
    "gif-interlaced": (lambda: encode(palette_halves(RED, BLUE), "GIF", interlace=1), "GIF", RED, BLUE, 0),
    "gif-comment": (lambda: encode(palette_halves(RED, BLUE), "GIF", comment=b"!,;" * 200), "GIF", RED, BLUE, 0),
    "gif-moving": (lambda: moving("GIF", duration=50, loop=0), "GIF", RED, BLUE, 1),
    "gif-small-frame": (small_frame_gif, "GIF", RED, GROUND, 0),
    # WebP
    "webp": (lambda: encode(halves("RGB", RED, BLUE), "WEBP", quality=95), "WEBP", RED, BLUE, 6),
    "webp-lossless": (lambda: encode(halves("RGB", RED, BLUE), "WEBP", lossless=True), "WEBP", RED, BLUE, 0),
    "webp-alpha": (lambda: encode(with_alpha(), "WEBP", lossless=True), "WEBP", RED, GROUND, 0),
    "webp-lossy-alpha": (lambda: encode(with_alpha(), "WEBP", quality=95), "WEBP", RED, GROUND, 6),
    "webp-moving": (lambda: moving("WEBP", lossless=True), "WEBP", RED, BLUE, 0),
    # BMP
    "bmp-1": (lambda: encode(halves("1", 0, 1), "BMP"), "BMP", BLACK, WHITE, 0),
    "bmp-grey": (lambda: encode(halves("L", 90, 200), "BMP"), "BMP", GREY, (200, 200, 200), 0),
    "bmp-palette": (lambda: encode(palette_halves(RED, BLUE), "BMP"), "BMP", RED, BLUE, 0),
    "bmp-rgb": (lambda: encode(halves("RGB", RED, BLUE), "BMP"), "BMP", RED, BLUE, 0),
    "bmp-32-without-masks": (lambda: encode(with_alpha(), "BMP"), "BMP", RED, BLUE, 0),  # the fourth byte is no alpha
    "bmp-32-with-masks": (lambda: bmp_with_alpha(RED, BLUE), "BMP", RED, GROUND, 0),
    # TIFF
    "tiff-1": (lambda: tiff(halves("1", 0, 1)), "TIFF", BLACK, WHITE, 0),
    "tiff-fax": (lambda: tiff(halves("1", 0, 1), compression="group4"), "TIFF", BLACK, WHITE, 0),
    "tiff-grey": (lambda: tiff(halves("L", 90, 200)), "TIFF", GREY, (200, 200, 200), 0),
    "tiff-grey-alpha": (lambda: tiff(with_alpha("LA")), "TIFF", LUMA_OF_RED, GROUND, 0),
    "tiff-grey-premultiplied": (
        lambda: premultiplied(tiff(halves("LA", (90, 255), (45, 128)))),
        "TIFF",
        GREY,
        HALF_ON_GROUND,
        1,
    ),
    "tiff-rgb-premultiplied": (
        lambda: premultiplied(tiff(halves("RGBA", (*GREY, 255), (45, 45, 45, 128)))),
        "TIFF",
        GREY,
        HALF_ON_GROUND,
        1,
    ),
    "tiff-16": (lambda: tiff(halves("I;16", 30_000, 65_535)), "TIFF", (117, 117, 117), WHITE, 0),
    "tiff-16-big-endian": (lambda: tiff(halves("I;16B", 30_000, 65_535)), "TIFF", (117, 117, 117), WHITE, 0),
    "tiff-palette": (lambda: tiff(palette_halves(RED, BLUE)), "TIFF", RED, BLUE, 0),
    "tiff-rgb": (lambda: tiff(halves("RGB", RED, BLUE)), "TIFF", RED, BLUE, 0),
    "tiff-rgba": (lambda: tiff(with_alpha()), "TIFF", RED, GROUND, 0),
    "tiff-cmyk": (
        lambda: tiff(halves("CMYK", (0, 255, 255, 55), (255, 255, 0, 55))),
        "TIFF",
        (200, 0, 0),
        (0, 0, 200),
        0,
    ),
    "tiff-ycbcr": (lambda: tiff(halves("RGB", RED, BLUE).convert("YCbCr")), "TIFF", RED, BLUE, 2),
    "tiff-lzw": (lambda: tiff(halves("RGB", RED, BLUE), compression="tiff_lzw"), "TIFF", RED, BLUE, 0),
    "tiff-deflate": (lambda: tiff(halves("RGB", RED, BLUE), compression="tiff_adobe_deflate"), "TIFF", RED, BLUE, 0),
    "tiff-packbits": (lambda: tiff(halves("RGB", RED, BLUE), compression="packbits"), "TIFF", RED, BLUE, 0),
    "tiff-jpeg": (lambda: tiff(halves("RGB", RED, BLUE), compression="jpeg", quality=95), "TIFF", RED, BLUE, 3),
    "tiff-pages": (lambda: moving("TIFF"), "TIFF", RED, BLUE, 0),
    # AVIF
    "avif": (lambda: encode(halves("RGB", RED, BLUE), "AVIF", quality=95), "AVIF", RED, BLUE, 6),
    "avif-grey": (lambda: encode(halves("L", 90, 200), "AVIF", quality=95), "AVIF", GREY, (200, 200, 200), 3),
    "avif-alpha": (lambda: encode(with_alpha(), "AVIF", quality=95), "AVIF", RED, GROUND, 6),
    "avif-moving": (lambda: moving("AVIF", quality=95), "AVIF", RED, BLUE, 6),
}
"""What is drawn: how, its format by content, the colour of its left and right half, and levels it may be off."""


@pytest.mark.parametrize(("make", "name", "left", "right", "off"), PICTURES.values(), ids=PICTURES.keys())
def test_every_mode_and_format_gives_its_colours(
    make: Callable[[], bytes], name: str, left: Rgb, right: Rgb, off: int
) -> None:
    """Whatever the mode and the format, the stored picture is RGB and shows what was drawn, on the stated ground."""
    picture = stored(make())
    image = decode(picture.data)
    assert ("PNG", "RGB", SIZE) == (image.format, image.mode, image.size)
    assert (name, "PNG", *SIZE) == (picture.original_format, picture.format, picture.width, picture.height)
    for colour, box in ((left, (4, 4, 24, 28)), (right, (40, 4, 60, 28))):
        differences = ImageChops.difference(image, Image.new("RGB", SIZE, colour)).crop(box)
        assert off >= max(differences.tobytes()), (colour, image.getpixel(box[:2]))


# --- Turning

QUADRANTS = {"red": RED, "blue": BLUE, "grey": GREY, "white": WHITE}
UPRIGHT: dict[int, tuple[str, str, str, str]] = {
    1: ("red", "blue", "grey", "white"),
    2: ("blue", "red", "white", "grey"),
    3: ("white", "grey", "blue", "red"),
    4: ("grey", "white", "red", "blue"),
    5: ("red", "grey", "blue", "white"),
    6: ("grey", "red", "white", "blue"),
    7: ("white", "blue", "grey", "red"),
    8: ("blue", "white", "red", "grey"),
}
"""For a picture of four quadrants that lies as tag 1 has it: what is upper left, upper right, lower left, lower
right once turned. Source: EXIF 2.32, 4.6.4, tag 274: where the 0th row and the 0th column are."""


def quadrants() -> Image.Image:
    """Draw four quadrants, wider than high."""
    image = Image.new("RGB", SIZE)
    for place, colour in enumerate(QUADRANTS.values()):
        left, top = place % 2 * WIDTH // 2, place // 2 * HEIGHT // 2
        image.paste(colour, (left, top, left + WIDTH // 2, top + HEIGHT // 2))
    return image


def corners(data: bytes) -> tuple[str, ...]:
    """Name the quadrants of a stored picture by their nearest colour."""
    image = decode(data)
    places = [(image.width * x // 4, image.height * y // 4) for y in (1, 3) for x in (1, 3)]

    def name(place: tuple[int, int]) -> str:
        pixel = image.getpixel(place)
        assert isinstance(pixel, tuple)
        return min(QUADRANTS, key=lambda each: sum(abs(a - b) for a, b in zip(pixel, QUADRANTS[each], strict=True)))

    return tuple(name(place) for place in places)


def tag(orientation: int) -> bytes:
    """Write an EXIF block."""
    exif = Image.Exif()
    exif[274] = orientation
    exif[306] = "2001:02:03 04:05:06"
    return exif.tobytes()


TURNABLE: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95},
    "PNG": {},
    "WEBP": {"quality": 95},
    "TIFF": {},
    "AVIF": {"quality": 90},
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("name", TURNABLE)
def test_orientation_is_applied_once_and_dropped(name: str, orientation: int) -> None:
    """Each of the eight orientations comes out upright in every format that has one, and none is left in the file."""
    data = encode(quadrants(), name, exif=tag(orientation), **TURNABLE[name])
    picture = stored(data)
    size = SIZE if orientation < 5 else SIZE[::-1]
    assert (*size, *size) == (picture.width, picture.height, picture.original_width, picture.original_height)
    assert UPRIGHT[orientation] == corners(picture.data)
    assert {} == dict(decode(picture.data).getexif())


@pytest.mark.parametrize("resize", Resize)
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_turning_and_resizing_go_together(resize: Resize, orientation: int) -> None:
    """A turned picture comes out upright through every kind of resizing, from a JPEG decoded at half its size."""
    data = encode(quadrants().resize((512, 256), Image.Resampling.NEAREST), "JPEG", exif=tag(orientation), quality=95)
    picture = stored(data, ImageOptions(size_px=64, resize=resize, background=WHITE))
    upright = (64, 32) if orientation < 5 else (32, 64)
    wanted = {Resize.KEEP: upright, Resize.NONE: tuple(8 * side for side in upright)}.get(resize, (64, 64))
    assert wanted == (picture.width, picture.height) == decode(picture.data).size
    if resize is not Resize.PAD:
        assert UPRIGHT[orientation] == corners(picture.data)


DAMAGED_EXIF = {
    "no-meaning": tag(9),
    "zero": tag(0),
    "bytes-overwritten": b"Exif\0\0" + b"\xff" * 8 + tag(6)[14:],
    "empty": b"Exif\0\0",
    "cut": tag(6)[:15],
    "offset-outside": b"Exif\0\0II*\0\xff\xff\xff\x7f",
    "text": b"Exif\0\0" + b"not a directory" * 9,
    "entry-of-another-type": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
}


@pytest.mark.parametrize("exif", DAMAGED_EXIF.values(), ids=DAMAGED_EXIF.keys())
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_is_ignored(name: str, exif: bytes) -> None:
    """EXIF that is damaged or says nothing leaves the picture as it lies, and does not fail it."""
    whole = encode(quadrants(), name, exif=tag(1), **TURNABLE[name])
    old, new = tag(1).removeprefix(b"Exif\0\0"), exif.removeprefix(b"Exif\0\0")
    data = whole.replace(old, (new + bytes(len(old)))[: len(old)])
    if name == "PNG":
        start = data.index(b"eXIf") - 4
        data = data[:start] + png_chunk(b"eXIf", new) + data[start + 12 + len(old) :]
    assert data != whole
    assert UPRIGHT[1] == corners(stored(data).data)


# --- Resizing

FITS: dict[str, tuple[Resize, tuple[int, int], tuple[int, int]]] = {
    "squash-wide": (Resize.SQUASH, (100, 50), (32, 32)),
    "squash-up": (Resize.SQUASH, (8, 5), (32, 32)),
    "squash-by-eight": (Resize.SQUASH, (256, 256), (32, 32)),
    "squash-line": (Resize.SQUASH, (1, 3_000), (32, 32)),
    "crop-wide": (Resize.CROP, (100, 50), (32, 32)),
    "crop-high": (Resize.CROP, (50, 100), (32, 32)),
    "crop-up": (Resize.CROP, (8, 5), (32, 32)),
    "crop-line": (Resize.CROP, (3_000, 1), (32, 32)),
    "crop-dot": (Resize.CROP, (1, 1), (32, 32)),
    "pad-wide": (Resize.PAD, (100, 50), (32, 32)),
    "pad-up": (Resize.PAD, (8, 5), (32, 32)),
    "pad-line": (Resize.PAD, (1, 10_000), (32, 32)),
    "keep-wide": (Resize.KEEP, (100, 50), (32, 16)),
    "keep-high": (Resize.KEEP, (50, 100), (16, 32)),
    "keep-rounds": (Resize.KEEP, (100, 33), (32, 11)),
    "keep-line": (Resize.KEEP, (1, 10_000), (1, 32)),
    "keep-smaller": (Resize.KEEP, (8, 5), (8, 5)),
    "keep-as-large": (Resize.KEEP, (32, 20), (32, 20)),
    "none": (Resize.NONE, (100, 50), (100, 50)),
    "none-line": (Resize.NONE, (1, 10_000), (1, 10_000)),
}


@pytest.mark.parametrize(("resize", "size", "wanted"), FITS.values(), ids=FITS.keys())
@pytest.mark.parametrize("name", ["JPEG", "PNG"])
def test_size_is_the_one_that_the_mode_promises(
    name: str, resize: Resize, size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Squash, crop and pad give a square, keep the long side, none nothing; no side is ever zero."""
    picture = stored(encode(Image.new("RGB", size, RED), name), ImageOptions(size_px=32, resize=resize))
    assert wanted == (picture.width, picture.height) == decode(picture.data).size
    assert size == (picture.original_width, picture.original_height)


def test_crop_shows_the_middle() -> None:
    """Of three equal fields, only the one in the middle is left."""
    image = Image.new("RGB", (300, 100), RED)
    image.paste(GREY, (100, 0, 200, 100))
    for lying in (image, image.transpose(Image.Transpose.ROTATE_90)):
        options = ImageOptions(size_px=50, resize=Resize.CROP, encode=Encode.PNG)
        inside = decode(stored(encode(lying, "PNG"), options).data).crop((5, 5, 45, 45))
        assert [(1_600, GREY)] == inside.getcolors()


def test_pad_fills_up_with_the_background_on_both_sides() -> None:
    """The picture lies in the middle of the square, and the rest is the stated colour."""
    options = ImageOptions(size_px=40, resize=Resize.PAD, encode=Encode.PNG, background=GROUND)
    image = decode(stored(encode(Image.new("RGB", (80, 40), RED), "PNG"), options).data)
    column = [image.getpixel((20, y)) for y in range(40)]
    assert [GROUND] * 10 + [RED] * 20 + [GROUND] * 10 == column


def test_one_bit_picture_is_smoothed_when_it_shrinks() -> None:
    """The edge of a black disc shows at least three greys."""
    image = Image.new("1", (96, 96), 1)
    ImageDraw.Draw(image).ellipse((24, 24, 72, 72), fill=0)
    small = decode(stored(encode(image, "PNG"), ImageOptions(size_px=48, encode=Encode.PNG)).data)
    greys = {pixel for pixel in small.convert("L").tobytes() if 20 < pixel < 235}
    assert len(greys) >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda image: encode(image, "PNG"),
        lambda image: encode(image.convert("LA"), "PNG"),
        lambda image: encode(image, "WEBP", lossless=True),
        lambda image: encode(image, "TIFF"),
    ],
    ids=["png", "grey-alpha", "webp", "tiff"],
)
def test_hidden_colour_does_not_bleed_when_shrunk(make: Callable[[Image.Image], bytes]) -> None:
    """A white disc on clear black, laid on white, stays all white: nothing of the black comes through its edge."""
    image = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    ImageDraw.Draw(image).ellipse((40, 40, 160, 160), fill=(255, 255, 255, 255))
    small = decode(stored(make(image), ImageOptions(size_px=32, encode=Encode.PNG)).data)
    assert [(32 * 32, WHITE)] == small.getcolors()


def scene(width: int, height: int) -> Image.Image:
    """Draw something with detail everywhere, without randomness."""
    image = Image.linear_gradient("L").resize((width, height))
    image = Image.merge("RGB", (image, image.transpose(Image.Transpose.ROTATE_180), image))
    draw = ImageDraw.Draw(image)
    for index in range(40):
        x, y = index * 97 % width, index * 61 % height
        draw.ellipse((x, y, x + 20 + index * 3, y + 30), fill=(index * 37 % 256, index * 91 % 256, index * 53 % 256))
    return image


SCALED_DECODES = {"even": (800, 600), "odd": (799, 603), "barely-half": (450, 449), "eighth": (2_000, 1_900)}


@pytest.mark.parametrize("size", SCALED_DECODES.values(), ids=SCALED_DECODES.keys())
@pytest.mark.parametrize("resize", [Resize.SQUASH, Resize.CROP, Resize.KEEP])
def test_jpeg_decoded_small_is_as_good_as_whole(resize: Resize, size: tuple[int, int]) -> None:
    """A JPEG is decoded at a part of its size, and then differs from the whole by under 2 levels of 255 on the mean."""
    data = encode(scene(*size), "JPEG", quality=90)
    options = ImageOptions(size_px=224, resize=resize, encode=Encode.PNG)
    whole = encode(decode(data), "PNG")
    images = [decode(stored(each, options).data) for each in (data, whole)]
    difference = ImageStat.Stat(ImageChops.difference(*images)).mean
    assert 0 < max(difference) < 2


# --- Storing


@pytest.mark.parametrize("output", Encode)
@pytest.mark.parametrize("make", [lambda: scene(90, 70), lambda: Image.new("L", (90, 70), 8)], ids=["rgb", "grey"])
def test_stored_file_is_of_the_format_asked_for_and_repeats(output: Encode, make: Callable[[], Image.Image]) -> None:
    """The file has the recorded format and size, is RGB, and is the same at the second try."""
    data = encode(make(), "PNG")
    first, second = (stored(data, ImageOptions(size_px=40, encode=output)) for _ in range(2))
    image = decode(first.data)
    assert (output.value.upper(), "RGB", (40, 40)) == (first.format, image.mode, image.size)
    assert first.format == image.format
    assert second == first


@pytest.mark.parametrize("output", [Encode.JPEG, Encode.WEBP])
def test_quality_counts(output: Encode) -> None:
    """More quality is more bytes."""
    data = encode(scene(90, 70), "PNG")
    sizes = [len(stored(data, ImageOptions(size_px=64, encode=output, quality=each)).data) for each in (1, 50, 100)]
    assert sorted(sizes) == sizes
    assert len(set(sizes)) == 3


METADATA: dict[str, dict[str, Any]] = {
    "JPEG": {"exif": tag(1), "comment": b"secret", "icc_profile": b"secret" * 100, "xmp": b"<secret/>", "dpi": (7, 7)},
    "PNG": {"exif": tag(1), "icc_profile": b"secret" * 100, "dpi": (7, 7)},
    "WEBP": {"exif": tag(1), "icc_profile": b"secret" * 100, "xmp": b"<secret/>"},
}


@pytest.mark.parametrize("name", METADATA)
@pytest.mark.parametrize("resize", [Resize.NONE, Resize.SQUASH])
def test_no_metadata_is_stored(name: str, resize: Resize) -> None:
    """Neither a kept nor a new file has EXIF, comments, profiles or bytes behind its end."""
    data = encode(scene(64, 48), name, **METADATA[name]) + b"secret" * 700
    picture = stored(data, ImageOptions(size_px=30, resize=resize, encode=Encode(name.lower())))
    image = decode(picture.data)
    assert not {"exif", "icc_profile", "xmp", "comment"} & image.info.keys()
    assert not any(word in picture.data for word in (b"secret", b"Exif", b"eXIf", b"iCCP", b"2001:02"))


UNTRIMMED: dict[str, Callable[[], bytes]] = {
    "webp-moving": lambda: moving("WEBP", icc_profile=b"secret" * 100, xmp=b"<secret/>", exif=tag(1)),
    "avif": lambda: encode(scene(64, 48), "AVIF", icc_profile=b"secret" * 100, xmp=b"<secret/>", exif=tag(1)),
}


@pytest.mark.parametrize("make", UNTRIMMED.values(), ids=UNTRIMMED.keys())
@pytest.mark.parametrize("resize", [Resize.NONE, Resize.SQUASH])
def test_profile_of_the_original_is_not_written(make: Callable[[], bytes], resize: Resize) -> None:
    """What Pillow remembers of a file that is not trimmed does not reach the new one."""
    data = make()
    assert "icc_profile" in decode(data).info
    for output in Encode:
        picture = stored(data, ImageOptions(size_px=30, resize=resize, encode=output))
        assert not {"icc_profile", "xmp", "exif"} & decode(picture.data).info.keys()


KEPT: dict[str, Callable[[], bytes]] = {
    "jpeg": lambda: encode(scene(64, 64), "JPEG", quality=37),
    "jpeg-progressive": lambda: encode(scene(64, 64), "JPEG", quality=37, progressive=True),
    "png": lambda: encode(scene(64, 64), "PNG"),
    "webp": lambda: encode(scene(64, 64), "WEBP", quality=37),
    "webp-lossless": lambda: encode(scene(64, 64), "WEBP", lossless=True),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("resize", Resize)
def test_file_that_needs_no_change_is_kept(make: Callable[[], bytes], resize: Resize) -> None:
    """A picture of the size, format and mode asked for is stored byte for byte, whatever its quality."""
    data = make()
    name = decode(data).format
    assert name is not None
    assert data == stored(data, ImageOptions(size_px=64, resize=resize, encode=Encode(name.lower()))).data


def test_kept_file_leaves_out_what_does_not_draw() -> None:
    """With metadata and a tail, what is kept is the file that would have been written without them."""
    plain = encode(scene(64, 64), "JPEG", quality=37)
    adorned = encode(scene(64, 64), "JPEG", quality=37, exif=tag(1), comment=b"by me") + bytes(4_096)
    assert plain == stored(adorned, ImageOptions(size_px=64)).data


CHANGED: dict[str, tuple[Callable[[], bytes], Encode]] = {
    "another-format": (lambda: encode(scene(64, 64), "PNG"), Encode.JPEG),
    "turned": (lambda: encode(scene(64, 64), "JPEG", exif=tag(3)), Encode.JPEG),
    "grey": (lambda: encode(scene(64, 64).convert("L"), "JPEG"), Encode.JPEG),
    "cmyk": (lambda: encode(scene(64, 64).convert("CMYK"), "JPEG"), Encode.JPEG),
    "png-16": (lambda: deep_png(2, (20_000,) * 3, (0,) * 3), Encode.PNG),
    "png-alpha": (lambda: encode(scene(64, 64).convert("RGBA"), "PNG"), Encode.PNG),
    "png-key": (lambda: encode(scene(64, 64), "PNG", transparency=(1, 2, 3)), Encode.PNG),
    "png-palette": (lambda: encode(scene(64, 64).quantize(8), "PNG"), Encode.PNG),
    "webp-alpha": (lambda: encode(with_alpha(), "WEBP"), Encode.WEBP),
    "webp-moving": (lambda: moving("WEBP"), Encode.WEBP),
}


@pytest.mark.parametrize(("make", "output"), CHANGED.values(), ids=CHANGED.keys())
def test_file_that_needs_a_change_is_written_anew(make: Callable[[], bytes], output: Encode) -> None:
    """Another format, turn, mode or depth, or transparency, is never kept: the stored file is plain 8-bit RGB."""
    data = make()
    picture = stored(data, ImageOptions(resize=Resize.NONE, encode=output))
    image = decode(picture.data)
    assert data != picture.data
    assert ("RGB", output.value.upper(), {}) == (image.mode, image.format, dict(image.getexif()))
    assert decode(data).size == image.size
    assert not image.has_transparency_data
    assert 1 == getattr(image, "n_frames", 1)


def test_picture_without_change_is_still_decoded() -> None:
    """A file that could be kept, but whose pixels are damaged, is not."""
    data = bytearray(encode(scene(64, 64), "WEBP", lossless=True))
    data[100:200] = bytes(100)
    assert not isinstance(make_picture(bytes(data), ImageOptions(size_px=64, encode=Encode.WEBP)), Picture)


# --- Threads


def test_many_threads_give_what_one_gives() -> None:
    """Eight threads over every kind of picture give the same files as one after another."""
    bodies = [make() for make, *_ in PICTURES.values()] * 3
    options = ImageOptions(size_px=24)
    alone = [make_picture(body, options) for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: make_picture(body, options), bodies))
    assert alone == together


# --- Raw pixels

PAYLOADS: dict[str, tuple[Image.Image, str, bytes]] = {
    "rgb": (Image.new("RGB", (2, 1), RED), "RGB", bytes(RED) * 2),
    "grey": (Image.new("L", (2, 1), 7), "L", b"\x07\x07"),
    "rgba": (Image.new("RGBA", (2, 1), (1, 2, 3, 4)), "RGBA", b"\1\2\3\4" * 2),
    "16-bit": (Image.new("I;16", (2, 1), 258), "I;16", b"\2\1" * 2),
    "palette": (palette_halves(RED, RED).crop((0, 0, 2, 1)), "RGB", bytes(RED) * 2),
    "palette-alpha": (
        decode(encode(PALETTE_ALPHA, "PNG", transparency=0)).crop((0, 0, 2, 1)),
        "RGBA",
        bytes([*RED, 0]) * 2,
    ),
}


@pytest.mark.parametrize(("image", "mode", "pixels"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_pil_payload_is_what_the_reader_unpacks(image: Image.Image, mode: str, pixels: bytes) -> None:
    """Width, height, length of the mode, mode, pixels; a palette, which has no place, is applied first."""
    assert struct.pack("<3I", 2, 1, len(mode)) + mode.encode() + pixels == pil_payload(image)
