"""Pictures drawn for tests."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops

if TYPE_CHECKING:
    from typing import TypeAlias

    Rgb: TypeAlias = tuple[int, int, int]

RED: Final = (200, 30, 30)
BLUE: Final = (30, 30, 200)
GREY: Final = (90, 90, 90)
SIZE: Final = (64, 32)
"""Of the pictures of two halves: a whole number of blocks, whatever the format."""


def scene(width: int = 160, height: int = 120) -> Image.Image:
    """Draw a picture with detail all over, so that a lost part is visible."""
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.merge(
        "RGB",
        (
            ramp,
            ramp.transpose(Image.Transpose.ROTATE_180),
            Image.effect_mandelbrot((width, height), (-2.0, -1.2, 1.0, 1.2), 60),
        ),
    )


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    """Give a picture as the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    """Read a picture file with all its pixels."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def jpeg(width: int = 160, height: int = 120, **options: object) -> bytes:
    """Give the scene as a JPEG."""
    return saved(scene(width, height), "JPEG", **{"quality": 90, **options})


def halves(
    mode: str = "RGB",
    left: float | tuple[int, ...] = RED,
    right: float | tuple[int, ...] = BLUE,
    size: tuple[int, int] = SIZE,
) -> Image.Image:
    """Draw a picture whose left and right halves have one value each."""
    image = Image.new(mode, size, left)
    image.paste(right, (size[0] // 2, 0, *size))
    return image


def palette_halves(*colours: Rgb) -> Image.Image:
    """Draw a palette picture: index 0 left, index 1 right."""
    image = halves("P", 0, 1)
    image.putpalette([level for colour in colours or (RED, BLUE) for level in colour])
    return image


def clear_right(mode: str = "RGBA") -> Image.Image:
    """Draw red on the left, and on the right a colour that is hidden."""
    return halves("RGBA", (*RED, 255), (*BLUE, 0)).convert(mode)


def moving(kind: str, first: Image.Image | None = None, **options: object) -> bytes:
    """Give a moving picture that begins red and blue, and goes on in grey."""
    first = first or halves()
    later = [Image.new("RGB", SIZE, GREY).convert(first.mode)] * 3
    return saved(first, kind, save_all=True, append_images=later, **options)


def ycck_jpeg() -> bytes:
    """Give the JPEG of an old Photoshop: CMYK, inverted, its first three inks turned to YCbCr.

    Pillow writes inverted CMYK, so the turned inks are inverted once more; then the mark is set that says so.
    """
    inks = halves("CMYK", (0, 255, 255, 55), (255, 255, 0, 55))
    cyan, magenta, yellow, black = inks.split()
    turned = Image.merge("RGB", (cyan, magenta, yellow)).convert("YCbCr")
    bands = [ImageChops.invert(band) for band in turned.split()]
    data = bytearray(saved(Image.merge("CMYK", (*bands, black)), "JPEG", quality=95))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)
