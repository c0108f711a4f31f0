"""Faults that people who do this job reported in public, each with its exact right values."""

from __future__ import annotations

from typing import Final

import pytest
from PIL import Image, ImageDraw, ImageFile

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.outcome import Failure, Reason
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.pictures import jpeg, opened, saved, scene

# --- Body and label disagree (Lightning-AI/litData#660, rom1504/img2dataset#440)

PNG, JPEG = saved(scene(), "PNG"), jpeg()
BODIES: Final[dict[str, tuple[bytes, Reason | None, str | None]]] = {
    "no-byte": (b"", Reason.EMPTY_BODY, None),
    "web-page-called-jpeg": (b"<!doctype html><html><body>Not found</body></html>", Reason.NOT_A_PICTURE, None),
    "json-called-png": (b'{"error": "not found", "status": 200}', Reason.NOT_A_PICTURE, None),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', Reason.NOT_A_PICTURE, None),
    "six-bytes-of-gif": (b"GIF89a", Reason.BROKEN_PICTURE, None),
    "jpeg-called-text": (JPEG, None, "JPEG"),
    "png-called-jpeg": (PNG, None, "PNG"),
    "jpeg-with-a-tail": (JPEG + b"\0tail" * 820, None, "JPEG"),
}


@pytest.mark.parametrize(("body", "reason", "kind"), BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("resize", [Resize.SQUASH, Resize.NONE])
@pytest.mark.parametrize("encode", Encode)
def test_content_decides_and_is_recorded(
    body: bytes, reason: Reason | None, kind: str | None, resize: Resize, encode: Encode
) -> None:
    """An empty body and no picture are different reasons; the recorded format is that of the stored bytes."""
    made = make_picture(body, ImageOptions(resize=resize, encode=encode))
    if isinstance(made, Failure):
        assert reason is made.reason
        return
    assert (None, kind) == (reason, made.original_format)
    assert made.format == encode.value.upper() == opened(made.data).format


# --- Clear parts, palettes, one bit (python-pillow/Pillow#2609, #1345, #2005)


def disc(mode: str) -> Image.Image:
    """Draw a dark disc on a clear ground."""
    image = Image.new("RGBA", (96, 96), (0, 0, 0, 0))
    ImageDraw.Draw(image).ellipse((24, 24, 72, 72), fill=(20, 20, 20, 255))
    return image if mode == "RGBA" else image.convert(mode)


def flat_disc(mode: str, dark: float | tuple[int, ...], ground: int) -> Image.Image:
    """Draw the disc without alpha; a palette has black, then the dark colour."""
    image = Image.new(mode, (96, 96), ground)
    if mode == "P":
        image.putpalette([0, 0, 0, 20, 20, 20] + [0] * 750)
    ImageDraw.Draw(image).ellipse((24, 24, 72, 72), fill=dark)
    return image


DISCS: dict[str, bytes] = {
    "rgba": saved(disc("RGBA"), "PNG"),
    "grey-alpha": saved(disc("LA"), "PNG"),
    "palette-alphas": saved(flat_disc("P", 1, 0), "PNG", transparency=b"\x00\xff"),
    "palette-index": saved(flat_disc("P", 1, 0), "PNG", transparency=0),
    "colour-key": saved(flat_disc("RGB", (20, 20, 20), 0), "PNG", transparency=(0, 0, 0)),
    "gif": saved(flat_disc("P", 1, 0), "GIF", transparency=0),
    "webp": saved(disc("RGBA"), "WEBP", lossless=True),
    "one-bit": saved(flat_disc("1", 0, 1), "PNG"),
}


@pytest.mark.parametrize("body", DISCS.values(), ids=DISCS.keys())
@pytest.mark.parametrize("resize", [Resize.SQUASH, Resize.NONE])
@pytest.mark.parametrize("encode", Encode)
def test_disc_stays_dark_on_a_light_ground(body: bytes, resize: Resize, encode: Encode) -> None:
    """The corner is white, the centre dark, the sample RGB, whatever kind of clear it was."""
    made = make_picture(body, ImageOptions(size_px=40, resize=resize, encode=encode, quality=95))
    assert isinstance(made, Picture), made
    image = opened(made.data)
    corner, centre = image.getpixel((1, 1)), image.getpixel((image.width // 2, image.height // 2))
    assert isinstance(corner, tuple)
    assert isinstance(centre, tuple)
    assert "RGB" == image.mode
    assert min(corner) >= 253
    assert max(centre) <= 24


def test_one_bit_edge_is_smooth_and_a_solid_palette_keeps_its_colours() -> None:
    """The edge of the disc shows three greys or more when it shrinks; 16 colours stay what they were."""
    made = make_picture(DISCS["one-bit"], ImageOptions(size_px=40, encode=Encode.PNG))
    assert isinstance(made, Picture)
    greys = {pixel for pixel in opened(made.data).convert("L").tobytes() if 20 < pixel < 235}
    assert len(greys) >= 3
    few = scene(96, 96).quantize(16)
    made = make_picture(saved(few, "PNG"), ImageOptions(resize=Resize.NONE, encode=Encode.PNG))
    assert isinstance(made, Picture)
    assert few.convert("RGB").tobytes() == opened(made.data).tobytes()


# --- Cut pictures (python-pillow/Pillow#2717, #3185, #6342)


def overwritten(data: bytes, at: int) -> bytes:
    """Invert two bytes."""
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + 2]) + data[at + 2 :]


PROGRESSIVE = jpeg(progressive=True)
FIRST_SCAN = PROGRESSIVE.index(b"\xff\xda", PROGRESSIVE.index(b"\xff\xda") + 2)
CUT: dict[str, tuple[bytes, Reason | None]] = {
    "whole-progressive": (PROGRESSIVE, None),
    "half-baseline": (JPEG[: len(JPEG) // 2], Reason.BROKEN_PICTURE),
    "half-progressive": (PROGRESSIVE[: len(PROGRESSIVE) // 2], Reason.BROKEN_PICTURE),
    "first-scan-only": (PROGRESSIVE[:FIRST_SCAN], Reason.BROKEN_PICTURE),
    "no-end-mark": (JPEG[:-2], Reason.BROKEN_PICTURE),
    "half-png": (PNG[: len(PNG) // 2], Reason.BROKEN_PICTURE),
    "bad-sum": (overwritten(PNG, len(PNG) - 40), Reason.BROKEN_PICTURE),
    "header-only": (JPEG[:200], Reason.BROKEN_PICTURE),
    "whole-baseline": (JPEG, None),
}


@pytest.mark.parametrize("resize", [Resize.SQUASH, Resize.NONE])
def test_cut_pictures_are_never_stored(resize: Resize) -> None:
    """In one process and in this order, both whole ones are stored and the rest fails; nothing tolerates truncation."""
    made = {name: make_picture(body, ImageOptions(resize=resize)) for name, (body, _) in CUT.items()}
    reasons = {name: each.reason if isinstance(each, Failure) else None for name, each in made.items()}
    assert {name: reason for name, (_, reason) in CUT.items()} == reasons
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


# --- EXIF rotation (python-pillow/Pillow#4124, cocktailpeanut/fluxgym#55)

TURNS: dict[str, tuple[int, str, tuple[int, int], str]] = {
    "upright": (1, "JPEG", (80, 40), "left"),
    "half": (3, "JPEG", (80, 40), "right"),
    "quarter": (6, "JPEG", (40, 80), "top"),
    "other-quarter": (8, "JPEG", (40, 80), "bottom"),
    "mirrored": (5, "JPEG", (40, 80), "top"),
    "no-meaning": (9, "JPEG", (80, 40), "left"),
    "damaged": (0, "JPEG", (80, 40), "left"),
    "quarter-png": (6, "PNG", (40, 80), "top"),
}
OPPOSITE = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
SPOTS = {"left": (0.1, 0.5), "right": (0.9, 0.5), "top": (0.5, 0.1), "bottom": (0.5, 0.9)}


def turned(tag: int, kind: str) -> bytes:
    """Draw a picture, red on the left and blue on the right, with an EXIF orientation; tag 0 damages the block."""
    image = Image.new("RGB", (80, 40), (200, 30, 30))
    ImageDraw.Draw(image).rectangle((40, 0, 79, 39), fill=(30, 30, 200))
    exif = Image.Exif()
    exif[0x0112] = tag or 6
    data = saved(image, kind, exif=exif.tobytes(), **({"quality": 95} if kind == "JPEG" else {}))
    at = data.find(b"Exif\x00\x00") + 6
    return data if tag else data[:at] + b"\xff" * 8 + data[at + 8 :]


@pytest.mark.parametrize(("tag", "kind", "size", "side"), TURNS.values(), ids=TURNS.keys())
@pytest.mark.parametrize("encode", Encode)
def test_turned_picture_stands_upright_once(
    tag: int, kind: str, size: tuple[int, int], side: str, encode: Encode
) -> None:
    """Sizes are those of the stored picture, the red side is where it belongs, and no tag is left to turn it again."""
    made = make_picture(turned(tag, kind), ImageOptions(resize=Resize.NONE, encode=encode))
    assert isinstance(made, Picture), made
    image = opened(made.data)
    assert size == image.size == (made.width, made.height) == (made.original_width, made.original_height)
    assert 1 == image.getexif().get(0x0112, 1)
    red, other = (image.getpixel((int(size[0] * x), int(size[1] * y))) for x, y in (SPOTS[side], SPOTS[OPPOSITE[side]]))
    assert isinstance(red, tuple)
    assert isinstance(other, tuple)
    assert red[0] > red[2] + 100
    assert other[2] > other[0] + 100
