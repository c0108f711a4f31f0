"""Pillow: any mode to plain 8-bit RGB on a ground of one colour.

In parts, so that beside the source and the result there is never a third copy of a large picture. Every step looks
at one pixel alone, so that the parts make no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PIL import GifImagePlugin, Image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from PIL.ImageFile import ImageFile

    _Colour: TypeAlias = tuple[int, int, int]
    _Box: TypeAlias = tuple[int, int, int, int]

_PART_PX: Final = 2**19
"""Pixels of a part. Most pictures are one."""


def is_plain(image: Image.Image) -> bool:
    """Say whether a picture is RGB and opaque already."""
    return image.mode == "RGB" and not image.has_transparency_data


def flatten(image: ImageFile, background: _Colour) -> Image.Image:
    """Convert any mode to 8-bit RGB, clear parts laid on a ground of one colour.

    The picture that is given is used up, to free its memory.

    Raises:
        ValueError: 32-bit and LAB samples, for which no file says what is white, or which need a colour profile.
    """
    if image.mode in ("I", "F", "LAB", "HSV"):
        raise ValueError(f"unsupported samples: mode {image.mode}")
    if is_plain(image):
        return image
    parts = list(_parts(*image.size))
    if len(parts) == 1:
        flat = _flat(image, background)
    else:
        flat = Image.new("RGB", image.size)
        for box in parts:
            size = box[2] - box[0], box[3] - box[1]
            flat.paste(_flat(image.resize(size, Image.Resampling.NEAREST, box=box), background), box)
    if isinstance(image, GifImagePlugin.GifImageFile) and image.dispose_extent and not image.has_transparency_data:
        _clear_outside(flat, image.dispose_extent, background)
    image.close()
    return flat


def _parts(width: int, height: int) -> Iterator[_Box]:
    """Cut a picture into boxes of whole rows, or of parts of one row."""
    columns = min(width, _PART_PX)
    rows = max(1, _PART_PX // columns)
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            yield left, top, min(left + columns, width), min(top + rows, height)


def _flat(image: Image.Image, background: _Colour) -> Image.Image:
    picture = _to_8_bit(image)
    if not picture.has_transparency_data:
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    if picture.mode == "La":  # Pillow has no direct way
        picture = picture.convert("LA")
    if picture.mode != "RGBA":
        picture = picture.convert("RGBA")
    ground = Image.new("RGB", picture.size, background)
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _to_8_bit(image: Image.Image) -> Image.Image:
    """Keep the high byte of 16-bit grey: 30,000 becomes 117. Pillow does so for colours, but clips grey at 255."""
    if not image.mode.startswith("I;16"):
        return image
    raw_mode = "L;16B" if image.mode == "I;16B" else "L;16"
    picture = Image.frombytes("L", image.size, image.tobytes(), "raw", raw_mode)
    picture.info.update(image.info)  # the clear colour, which `trim` brought to 8 bits
    return picture


def _clear_outside(picture: Image.Image, frame: _Box, background: _Colour) -> None:
    """Paint where a GIF's first frame does not reach; Pillow has the palette's first colour there."""
    left, top, right, bottom = frame
    width, height = picture.size
    for edge in ((0, 0, width, top), (0, bottom, width, height), (0, top, left, bottom), (right, top, width, bottom)):
        if edge[0] < edge[2] and edge[1] < edge[3]:
            picture.paste(background, edge)
