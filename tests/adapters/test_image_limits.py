"""Pictures that are left out or refused from their header alone: by size, shape, pixels, memory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.errors import OptionError
from evenshard.core.outcome import Failure, Reason, Status
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.picture_files import png_file, png_pixels
from tests.support.pictures import saved, scene

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF")
TURN = Image.Exif()
TURN[274] = 6


def picture(kind: str, width: int = 64, height: int = 48, **settings: object) -> bytes:
    """Write a picture."""
    return saved(scene(width, height), kind, **settings)


def refused(reason: Reason, detail: str, width: int, height: int, name: str) -> Failure:
    """Say why there is no picture, and what its header says."""
    return Failure(reason=reason, detail=detail, original_width=width, original_height=height, original_format=name)


# --- Filters

SMALL, OBLONG = Reason.TOO_SMALL, Reason.TOO_OBLONG
FILTERS: dict[str, tuple[tuple[int, int], dict[str, Any], Reason | None, str]] = {
    "none-asked-for": ((1, 3_000), {}, None, ""),
    "short-side-as-wanted": ((90, 50), {"min_side_px": 50}, None, ""),
    "short-side-below": ((90, 49), {"min_side_px": 50}, SMALL, "90 x 49 pixels; at least 50 a side are wanted"),
    "short-side-is-the-width": ((49, 90), {"min_side_px": 50}, SMALL, "49 x 90 pixels; at least 50 a side are wanted"),
    "area-as-wanted": ((50, 40), {"min_area_px": 2_000}, None, ""),
    "area-below": ((50, 40), {"min_area_px": 2_001}, SMALL, "50 x 40 pixels; at least 2001 in all are wanted"),
    "shape-as-wanted": ((115, 100), {"max_aspect": 1.15}, None, ""),  # 1.15 x 100 is below 115 in binary
    "shape-beyond": ((116, 100), {"max_aspect": 1.15}, OBLONG, "116 x 100 pixels; at most 1.15 to 1 are wanted"),
    "shape-beyond-upright": ((10, 31), {"max_aspect": 3.0}, OBLONG, "10 x 31 pixels; at most 3 to 1 are wanted"),
    "square-as-wanted": ((7, 7), {"max_aspect": 1}, None, ""),
    "square-wanted": ((8, 7), {"max_aspect": 1}, OBLONG, "8 x 7 pixels; at most 1 to 1 are wanted"),
    "small-before-oblong": ((9, 1), {"min_side_px": 2, "max_aspect": 2}, SMALL, "9 x 1 pixels; at least 2 a side"),
    "small-before-large": ((9, 1), {"min_side_px": 2, "max_pixels": 2}, SMALL, "9 x 1 pixels; at least 2 a side"),
}


@pytest.mark.parametrize(("size", "asked", "reason", "detail"), FILTERS.values(), ids=FILTERS.keys())
def test_picture_is_left_out_by_its_size(
    size: tuple[int, int], asked: dict[str, Any], reason: Reason | None, detail: str
) -> None:
    """What is just as asked for is stored; one pixel less, or a little longer, is left out on purpose."""
    made = make_picture(picture("PNG", *size), ImageOptions(size_px=8, **asked))
    if reason is None:
        assert isinstance(made, Picture)
        return
    assert isinstance(made, Failure)
    assert (reason, detail) == (made.reason, made.detail[: len(detail)])
    assert Status.FILTERED is made.status


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "two-thirds": lambda data: data[: len(data) * 2 // 3],
    "overwritten": lambda data: data[: len(data) * 2 // 3].ljust(len(data), b"\x55"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_not_looked_at_where_the_header_decides(kind: str, damage: Callable[[bytes], bytes]) -> None:
    """A picture that is too small is left out, with its size and format, even if its pixels are lost."""
    data = damage(picture(kind, **({"quality": 100} if kind == "JPEG" else {})))
    detail = "64 x 48 pixels; at least 49 a side are wanted"
    assert refused(SMALL, detail, 64, 48, kind) == make_picture(data, ImageOptions(min_side_px=49))
    if damage is not DAMAGES["overwritten"]:  # which not every format can tell
        failed = make_picture(data, ImageOptions(min_side_px=48))
        assert isinstance(failed, Failure)
        assert (Reason.BROKEN_PICTURE, Status.FAILED) == (failed.reason, failed.status)
        assert (64, 48, kind) == (failed.original_width, failed.original_height, failed.original_format)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_size_of_a_picture_that_is_left_out_is_upright(kind: str) -> None:
    """A turned picture is recorded as it would stand, as a stored one is."""
    data = picture(kind, exif=TURN.tobytes())
    stored = make_picture(data, ImageOptions())
    assert isinstance(stored, Picture)
    assert (48, 64) == (stored.original_width, stored.original_height)
    detail = "48 x 64 pixels; at most 1 to 1 are wanted"
    assert refused(OBLONG, detail, 48, 64, kind) == make_picture(data, ImageOptions(max_aspect=1))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "side": ({"min_side_px": -1}, "min_side"),
    "area": ({"min_area_px": -1}, "min_area"),
    "shape": ({"max_aspect": 0.99}, "max_aspect"),
    "shape-that-is-none": ({"max_aspect": float("nan")}, "max_aspect"),
    "shape-without-end": ({"max_aspect": float("inf")}, "max_aspect"),
    "memory": ({"max_working_bytes": 0}, "picture_memory"),
}


@pytest.mark.parametrize(("asked", "option"), WRONG.values(), ids=WRONG.keys())
def test_filter_out_of_range_is_refused(asked: dict[str, Any], option: str) -> None:
    """The option is named as it is typed."""
    with pytest.raises(OptionError, match="out of range") as told:
        ImageOptions(**asked)
    assert option == told.value.option


# --- Pixels


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_counted_before_decoding(kind: str) -> None:
    """As many pixels as the limit are decoded; one more is refused, whatever the format, from the header."""
    assert isinstance(make_picture(picture(kind), ImageOptions(max_pixels=64 * 48)), Picture)
    detail = "64 x 48 pixels; at most 3071 are decoded"
    made = make_picture(picture(kind)[:-3], ImageOptions(max_pixels=64 * 48 - 1))
    assert refused(Reason.TOO_MANY_PIXELS, detail, 64, 48, kind) == made


@pytest.mark.parametrize(("output", "side"), [(Encode.JPEG, 65_501), (Encode.WEBP, 16_384)], ids=["jpeg", "webp"])
def test_side_that_the_output_cannot_hold_is_refused(output: Encode, side: int) -> None:
    """A picture left at its size that the output format cannot hold is a failure that names the limit."""
    data = saved(Image.new("RGB", (side, 1)), "PNG")
    made = make_picture(data, ImageOptions(resize=Resize.NONE, encode=output))
    detail = f"{side} x 1 pixels; a {output.value.upper()} has at most {side - 1} a side"
    assert refused(Reason.TOO_MANY_PIXELS, detail, side, 1, "PNG") == made
    assert isinstance(make_picture(data, ImageOptions(resize=Resize.KEEP, encode=output)), Picture)


def test_jpeg_of_very_many_scans_is_refused() -> None:
    """Hundreds of scans that add nothing cost a decoder the time of as many pictures; fewer do for a large one."""
    data = picture("JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    scan = data[start:-2]
    assert isinstance(make_picture(data[:start] + scan + b"\xff\xd9", ImageOptions()), Picture)
    made = make_picture(data[:start] + scan * 600 + b"\xff\xd9", ImageOptions())
    detail = "501 scans, which is more than any picture of its size needs"
    assert refused(Reason.BROKEN_PICTURE, detail, 64, 48, "JPEG") == made
    large = data.replace(struct.pack(">HH", 48, 64), struct.pack(">HH", 9_000, 9_000))
    made = make_picture(
        large[: large.rindex(b"\xff\xda")] + scan * 20 + b"\xff\xd9", ImageOptions(max_working_bytes=2**40)
    )
    detail = "25 scans, which is more than any picture of its size needs"
    assert refused(Reason.BROKEN_PICTURE, detail, 9_000, 9_000, "JPEG") == made


# --- Memory

NONE = {encode: ImageOptions(resize=Resize.NONE, encode=encode) for encode in Encode}
PIXELS = 400 * 300
NEEDS: dict[str, tuple[bytes, ImageOptions, int]] = {
    "jpeg-drafted": (picture("JPEG", 480, 320), ImageOptions(size_px=40), 60 * 40 * 4),
    "jpeg-progressive": (picture("JPEG", 480, 320, progressive=True), ImageOptions(size_px=40), 480 * 320 * 3 + 9_600),
    "jpeg-kept": (picture("JPEG", 400, 300), NONE[Encode.JPEG], PIXELS * 4),
    "jpeg-turned": (picture("JPEG", 400, 300, exif=TURN.tobytes()), NONE[Encode.JPEG], PIXELS * 12),
    "jpeg-to-png": (picture("JPEG", 400, 300), NONE[Encode.PNG], PIXELS * 11),
    "jpeg-to-webp": (picture("JPEG", 400, 300), NONE[Encode.WEBP], PIXELS * 40),
    "png": (picture("PNG", 400, 300), ImageOptions(), PIXELS * 4 + 2 * 1_209),
    "png-16": (saved(Image.new("I;16", (400, 300)), "PNG"), ImageOptions(), PIXELS * 6),
    "gif": (picture("GIF", 400, 300), ImageOptions(), PIXELS * 5),
    "webp": (picture("WEBP", 400, 300), ImageOptions(), PIXELS * 12),
    "bmp": (picture("BMP", 400, 300), ImageOptions(), PIXELS * 4),
    "tiff": (picture("TIFF", 400, 300), ImageOptions(), PIXELS * 8),
    "avif": (picture("AVIF", 512, 384), ImageOptions(), 512 * 384 * 21 // 2),
}
"""A picture, what is asked for, and the memory that it needs beside three times its body."""


@pytest.mark.parametrize(("data", "options", "num_bytes"), NEEDS.values(), ids=NEEDS.keys())
def test_memory_is_counted_before_decoding(data: bytes, options: ImageOptions, num_bytes: int) -> None:
    """As much memory as is given is taken; a picture that may need one byte more is refused with both figures."""
    needed = num_bytes + 3 * len(data)
    given = {name: getattr(options, name) for name in ("size_px", "resize", "encode")}
    assert isinstance(make_picture(data, ImageOptions(**given, max_working_bytes=needed)), Picture)
    made = make_picture(data, ImageOptions(**given, max_working_bytes=needed - 1))
    assert isinstance(made, Failure)
    most = (needed - 1) // 1_000_000
    assert f"they may need {most + 1} MB of memory; at most {most} are given" == made.detail.partition("; ")[2]
    assert Reason.TOO_MANY_PIXELS is made.reason


def test_ordinary_pictures_pass_the_default_limit_of_memory() -> None:
    """Photos of 50 million pixels as JPEG, of 24 million as anything else, are no bombs."""
    header = png_file((6_000, 4_000), 8, 6, png_pixels(b""))
    assert Reason.BROKEN_PICTURE is reason_of(header)  # empty, but not too large
    photo = picture("JPEG", progressive=True).replace(struct.pack(">HH", 48, 64), struct.pack(">HH", 6_100, 8_200))
    assert Reason.TOO_MANY_PIXELS is not reason_of(photo[:-2])
    webp = picture("WEBP")
    assert Reason.TOO_MANY_PIXELS is not reason_of(
        webp.replace(struct.pack("<HH", 64, 48), struct.pack("<HH", 6_000, 4_000))
    )


def reason_of(data: bytes) -> Reason | None:
    """Say why a picture is not made, if it is not."""
    made = make_picture(data, ImageOptions())
    return made.reason if isinstance(made, Failure) else None


def test_size_inside_of_a_box_counts() -> None:
    """A small AVIF around a large stream is refused for the stream, which the decoder would believe."""
    data = picture("AVIF", 2_000, 1_000).replace(struct.pack(">II", 2_000, 1_000), struct.pack(">II", 20, 10))
    made = make_picture(data, ImageOptions(max_working_bytes=5_000_000))
    detail = "20 x 10 pixels; they may need 6 MB of memory; at most 5 are given"
    assert refused(Reason.TOO_MANY_PIXELS, detail, 20, 10, "AVIF") == made
