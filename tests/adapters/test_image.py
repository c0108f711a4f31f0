"""Pictures that are whole come out upright, of the size and format asked for, and without what does not draw."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageStat

from evenshard.adapters.image import Picture, make_picture, pil_payload
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.picture_files import png_chunk, png_halves
from tests.support.pictures import BLUE, GREY, RED, SIZE, clear_right, moving, opened, palette_halves, saved

if TYPE_CHECKING:
    from collections.abc import Callable

WHITE, GROUND = (255, 255, 255), (10, 120, 230)
EXACT = ImageOptions(resize=Resize.NONE, encode=Encode.PNG, background=GROUND)
"""Nothing changes but the mode, and what is stored can be compared level by level."""

WIDTH, HEIGHT = SIZE


def stored(data: bytes, options: ImageOptions = EXACT) -> Picture:
    """Make a picture that must not fail."""
    picture = make_picture(data, options)
    assert isinstance(picture, Picture), picture
    return picture


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
    image = opened(data)
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
    data = saved(quadrants(), name, exif=tag(orientation), **TURNABLE[name])
    picture = stored(data)
    size = SIZE if orientation < 5 else SIZE[::-1]
    assert (*size, *size) == (picture.width, picture.height, picture.original_width, picture.original_height)
    assert UPRIGHT[orientation] == corners(picture.data)
    assert {} == dict(opened(picture.data).getexif())


@pytest.mark.parametrize("resize", Resize)
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_turning_and_resizing_go_together(resize: Resize, orientation: int) -> None:
    """A turned picture comes out upright through every kind of resizing, from a JPEG decoded at half its size."""
    data = saved(quadrants().resize((512, 256), Image.Resampling.NEAREST), "JPEG", exif=tag(orientation), quality=95)
    picture = stored(data, ImageOptions(size_px=64, resize=resize, background=WHITE))
    upright = (64, 32) if orientation < 5 else (32, 64)
    wanted = {Resize.KEEP: upright, Resize.NONE: tuple(8 * side for side in upright)}.get(resize, (64, 64))
    assert wanted == (picture.width, picture.height) == opened(picture.data).size
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
    whole = saved(quadrants(), name, exif=tag(1), **TURNABLE[name])
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
    picture = stored(saved(Image.new("RGB", size, RED), name), ImageOptions(size_px=32, resize=resize))
    assert wanted == (picture.width, picture.height) == opened(picture.data).size
    assert size == (picture.original_width, picture.original_height)


def test_crop_shows_the_middle() -> None:
    """Of three equal fields, only the one in the middle is left."""
    image = Image.new("RGB", (300, 100), RED)
    image.paste(GREY, (100, 0, 200, 100))
    for lying in (image, image.transpose(Image.Transpose.ROTATE_90)):
        options = ImageOptions(size_px=50, resize=Resize.CROP, encode=Encode.PNG)
        inside = opened(stored(saved(lying, "PNG"), options).data).crop((5, 5, 45, 45))
        assert [(1_600, GREY)] == inside.getcolors()


def test_pad_fills_up_with_the_background_on_both_sides() -> None:
    """The picture lies in the middle of the square, and the rest is the stated colour."""
    options = ImageOptions(size_px=40, resize=Resize.PAD, encode=Encode.PNG, background=GROUND)
    image = opened(stored(saved(Image.new("RGB", (80, 40), RED), "PNG"), options).data)
    column = [image.getpixel((20, y)) for y in range(40)]
    assert [GROUND] * 10 + [RED] * 20 + [GROUND] * 10 == column


def test_one_bit_picture_is_smoothed_when_it_shrinks() -> None:
    """The edge of a black disc shows at least three greys."""
    image = Image.new("1", (96, 96), 1)
    ImageDraw.Draw(image).ellipse((24, 24, 72, 72), fill=0)
    small = opened(stored(saved(image, "PNG"), ImageOptions(size_px=48, encode=Encode.PNG)).data)
    greys = {pixel for pixel in small.convert("L").tobytes() if 20 < pixel < 235}
    assert len(greys) >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda image: saved(image, "PNG"),
        lambda image: saved(image.convert("LA"), "PNG"),
        lambda image: saved(image, "WEBP", lossless=True),
        lambda image: saved(image, "TIFF"),
    ],
    ids=["png", "grey-alpha", "webp", "tiff"],
)
def test_hidden_colour_does_not_bleed_when_shrunk(make: Callable[[Image.Image], bytes]) -> None:
    """A white disc on clear black, laid on white, stays all white: nothing of the black comes through its edge."""
    image = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    ImageDraw.Draw(image).ellipse((40, 40, 160, 160), fill=(255, 255, 255, 255))
    small = opened(stored(make(image), ImageOptions(size_px=32, encode=Encode.PNG)).data)
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
    data = saved(scene(*size), "JPEG", quality=90)
    options = ImageOptions(size_px=224, resize=resize, encode=Encode.PNG)
    whole = saved(opened(data), "PNG")
    images = [opened(stored(each, options).data) for each in (data, whole)]
    difference = ImageStat.Stat(ImageChops.difference(*images)).mean
    assert 0 < max(difference) < 2


# --- Storing


@pytest.mark.parametrize("output", Encode)
@pytest.mark.parametrize("make", [lambda: scene(90, 70), lambda: Image.new("L", (90, 70), 8)], ids=["rgb", "grey"])
def test_stored_file_is_of_the_format_asked_for_and_repeats(output: Encode, make: Callable[[], Image.Image]) -> None:
    """The file has the recorded format and size, is RGB, and is the same at the second try."""
    data = saved(make(), "PNG")
    first, second = (stored(data, ImageOptions(size_px=40, encode=output)) for _ in range(2))
    image = opened(first.data)
    assert (output.value.upper(), "RGB", (40, 40)) == (first.format, image.mode, image.size)
    assert first.format == image.format
    assert second == first


@pytest.mark.parametrize("output", [Encode.JPEG, Encode.WEBP])
def test_quality_counts(output: Encode) -> None:
    """More quality is more bytes."""
    data = saved(scene(90, 70), "PNG")
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
    data = saved(scene(64, 48), name, **METADATA[name]) + b"secret" * 700
    picture = stored(data, ImageOptions(size_px=30, resize=resize, encode=Encode(name.lower())))
    image = opened(picture.data)
    assert not {"exif", "icc_profile", "xmp", "comment"} & image.info.keys()
    assert not any(word in picture.data for word in (b"secret", b"Exif", b"eXIf", b"iCCP", b"2001:02"))


UNTRIMMED: dict[str, Callable[[], bytes]] = {
    "webp-moving": lambda: moving("WEBP", icc_profile=b"secret" * 100, xmp=b"<secret/>", exif=tag(1)),
    "avif": lambda: saved(scene(64, 48), "AVIF", icc_profile=b"secret" * 100, xmp=b"<secret/>", exif=tag(1)),
}


@pytest.mark.parametrize("make", UNTRIMMED.values(), ids=UNTRIMMED.keys())
@pytest.mark.parametrize("resize", [Resize.NONE, Resize.SQUASH])
def test_profile_of_the_original_is_not_written(make: Callable[[], bytes], resize: Resize) -> None:
    """What Pillow remembers of a file that is not trimmed does not reach the new one."""
    data = make()
    assert "icc_profile" in opened(data).info
    for output in Encode:
        picture = stored(data, ImageOptions(size_px=30, resize=resize, encode=output))
        assert not {"icc_profile", "xmp", "exif"} & opened(picture.data).info.keys()


KEPT: dict[str, Callable[[], bytes]] = {
    "jpeg": lambda: saved(scene(64, 64), "JPEG", quality=37),
    "jpeg-progressive": lambda: saved(scene(64, 64), "JPEG", quality=37, progressive=True),
    "png": lambda: saved(scene(64, 64), "PNG"),
    "webp": lambda: saved(scene(64, 64), "WEBP", quality=37),
    "webp-lossless": lambda: saved(scene(64, 64), "WEBP", lossless=True),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("resize", Resize)
def test_file_that_needs_no_change_is_kept(make: Callable[[], bytes], resize: Resize) -> None:
    """A picture of the size, format and mode asked for is stored byte for byte, whatever its quality."""
    data = make()
    name = opened(data).format
    assert name is not None
    assert data == stored(data, ImageOptions(size_px=64, resize=resize, encode=Encode(name.lower()))).data


def test_kept_file_leaves_out_what_does_not_draw() -> None:
    """With metadata and a tail, what is kept is the file that would have been written without them."""
    plain = saved(scene(64, 64), "JPEG", quality=37)
    adorned = saved(scene(64, 64), "JPEG", quality=37, exif=tag(1), comment=b"by me") + bytes(4_096)
    assert plain == stored(adorned, ImageOptions(size_px=64)).data


CHANGED: dict[str, tuple[Callable[[], bytes], Encode]] = {
    "another-format": (lambda: saved(scene(64, 64), "PNG"), Encode.JPEG),
    "turned": (lambda: saved(scene(64, 64), "JPEG", exif=tag(3)), Encode.JPEG),
    "grey": (lambda: saved(scene(64, 64).convert("L"), "JPEG"), Encode.JPEG),
    "cmyk": (lambda: saved(scene(64, 64).convert("CMYK"), "JPEG"), Encode.JPEG),
    "png-16": (lambda: png_halves(SIZE, 16, 2, ((20_000,) * 3, (0,) * 3)), Encode.PNG),
    "png-alpha": (lambda: saved(scene(64, 64).convert("RGBA"), "PNG"), Encode.PNG),
    "png-key": (lambda: saved(scene(64, 64), "PNG", transparency=(1, 2, 3)), Encode.PNG),
    "png-palette": (lambda: saved(scene(64, 64).quantize(8), "PNG"), Encode.PNG),
    "webp-alpha": (lambda: saved(clear_right(), "WEBP"), Encode.WEBP),
    "webp-moving": (lambda: moving("WEBP"), Encode.WEBP),
}


@pytest.mark.parametrize(("make", "output"), CHANGED.values(), ids=CHANGED.keys())
def test_file_that_needs_a_change_is_written_anew(make: Callable[[], bytes], output: Encode) -> None:
    """Another format, turn, mode or depth, or transparency, is never kept: the stored file is plain 8-bit RGB."""
    data = make()
    picture = stored(data, ImageOptions(resize=Resize.NONE, encode=output))
    image = opened(picture.data)
    assert data != picture.data
    assert ("RGB", output.value.upper(), {}) == (image.mode, image.format, dict(image.getexif()))
    assert opened(data).size == image.size
    assert not image.has_transparency_data
    assert 1 == getattr(image, "n_frames", 1)


def test_picture_without_change_is_still_decoded() -> None:
    """A file that could be kept, but whose pixels are damaged, is not."""
    data = bytearray(saved(scene(64, 64), "WEBP", lossless=True))
    data[100:200] = bytes(100)
    assert not isinstance(make_picture(bytes(data), ImageOptions(size_px=64, encode=Encode.WEBP)), Picture)


# --- Raw pixels

PAYLOADS: dict[str, tuple[Image.Image, str, bytes]] = {
    "rgb": (Image.new("RGB", (2, 1), RED), "RGB", bytes(RED) * 2),
    "grey": (Image.new("L", (2, 1), 7), "L", b"\x07\x07"),
    "rgba": (Image.new("RGBA", (2, 1), (1, 2, 3, 4)), "RGBA", b"\1\2\3\4" * 2),
    "16-bit": (Image.new("I;16", (2, 1), 258), "I;16", b"\2\1" * 2),
    "palette": (palette_halves(RED, RED).crop((0, 0, 2, 1)), "RGB", bytes(RED) * 2),
    "palette-alpha": (
        opened(saved(palette_halves(), "PNG", transparency=0)).crop((0, 0, 2, 1)),
        "RGBA",
        bytes([*RED, 0]) * 2,
    ),
}


@pytest.mark.parametrize(("image", "mode", "pixels"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_pil_payload_is_what_the_reader_unpacks(image: Image.Image, mode: str, pixels: bytes) -> None:
    """Width, height, length of the mode, mode, pixels; a palette, which has no place, is applied first."""
    assert struct.pack("<3I", 2, 1, len(mode)) + mode.encode() + pixels == pil_payload(image)
