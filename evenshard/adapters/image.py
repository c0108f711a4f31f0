"""Pillow: from a body as it came to the picture that is stored.

What holds for every picture:

- Stored pictures are 8-bit RGB without metadata: no EXIF, text, thumbnail or colour profile.
- The EXIF orientation is applied once, then dropped.
- Transparent parts are laid on `background` before resizing, so that no hidden colour bleeds in.
- 16-bit samples keep their high byte; 1-bit pictures are smoothed; CMYK is converted without profiles.
- Of a moving picture the first frame counts.
- A picture that is cut or damaged is a failure, not a half grey picture. See `raster` for what cannot be seen.
- A file that needs no change (same format, size and mode, upright, opaque) is decoded once to prove it whole,
  and its drawing bytes are stored as they came, whatever their quality; what does not draw is left out.

Colour profiles are dropped and not applied: it would cost as much as all the rest (7 ms per picture) and put
one more parser of strangers' bytes in the way. A Display P3 photo so becomes paler, by 3 to 10 levels of 255.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
    features,
)

from evenshard.core.outcome import Failure, Reason
from evenshard.core.raster import Raster, trim
from evenshard.core.recipe import Encode, ImageOptions, Resize
from evenshard.core.sniff import sniff
from evenshard.core.tiff import read_orientation

if TYPE_CHECKING:
    from typing import TypeAlias

    from PIL.ImageFile import ImageFile

    _Box: TypeAlias = tuple[float, float, float, float]

_READERS: Final[dict[str, type[ImageFile]]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,
    "PNG": PngImagePlugin.PngImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    **({"WEBP": WebPImagePlugin.WebPImageFile} if features.check("webp") else {}),
    **({"AVIF": AvifImagePlugin.AvifImageFile} if features.check("avif") else {}),
}
"""The one reader that each format may reach. `Image.open` would offer the bytes to others, and check the size
against a limit that belongs to the whole process, with a warning; ours is an option."""

_MAX_SIDE_PX: Final = {Encode.JPEG: 65_500, Encode.WEBP: 16_383, Encode.PNG: 2**31 - 1}
"""Source: libjpeg's JPEG_MAX_DIMENSION, libwebp's WEBP_MAX_DIMENSION, the PNG specification."""

_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What brings each EXIF orientation upright. Pillow turns to the left."""

_REDUCING_GAP: Final = 3.0
"""From 6 times the size on, boxes of pixels are averaged first. Measured: 1.4 times as fast for a 2 Mpx source,
0.16 levels of 255 mean difference; Pillow's documentation calls it almost indistinguishable."""

_UNSUPPORTED_WORDS: Final = ("unsupported", "cannot handle", "unknown pixel mode", "unknown data organization")
"""How Pillow, and `raster`, say that a file is a kind that they do not read."""

_MAX_DETAIL_CHARS: Final = 200
_FIRST_QUARTER_TURN: Final = 5
"""EXIF orientations from here on swap width and height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as it is stored.

    Args:
        data: the whole file.
        format: its format, as Pillow spells it.
        width, height: its size, in pixels.
        original_width, original_height: size of what came, upright, in pixels.
        original_format: format of what came, by content.
    """

    data: bytes
    format: str
    width: int
    height: int
    original_width: int
    original_height: int
    original_format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Sizes on the way, in pixels, as the picture lies in its file.

    Args:
        scaled: after scaling, and cropping if `crops`.
        final: after padding.
        crops: whether only the middle square is scaled.
    """

    scaled: tuple[int, int]
    final: tuple[int, int]
    crops: bool = False


def make_picture(data: bytes, options: ImageOptions) -> Picture | Failure:
    """Decode, turn upright, flatten, resize and encode one picture. Never raises, whatever the bytes.

    May be called from many threads at once; Pillow lets go of the GIL for most of it. The same bytes and
    options give the same file under one version of Pillow. Peak memory, measured in bytes per decoded pixel beside
    twice the body: JPEG 4 (progressive 7), PNG, GIF and TIFF 4 to 7, with transparent parts or as CMYK 9 to 12,
    AVIF 9, WebP 16 to 18; a JPEG that is scaled in decoding takes a quarter, or less.

    Args:
        data: the body as it came.
        options: what to do.

    Returns:
        The picture, or why there is none: `EMPTY_BODY`, `NOT_A_PICTURE`, `UNSUPPORTED_FORMAT`,
        `TOO_MANY_PIXELS` (also if its sides do not fit the output format) or `BROKEN_PICTURE`.
    """
    if not data:
        return Failure(reason=Reason.EMPTY_BODY)
    found = sniff(data)
    if isinstance(found, Failure):
        return found
    if found not in _READERS:
        return Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=f"{found}: this build of Pillow has no decoder")
    try:
        return _make(trim(found, data), options)
    except Exception as error:  # noqa: BLE001 - the row boundary: strangers' bytes raise anything from KeyError to MemoryError
        return _failure(error)


def pil_payload(image: Image.Image) -> bytes:
    """Give the payload of litdata's `pil` leaf: width, height and length of the mode, then mode and raw pixels.

    The numbers are u32, little endian. A palette has no place in it, so palette pictures become RGB or RGBA.
    """
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    mode = image.mode.encode()
    return struct.pack("<3I", *image.size, len(mode)) + mode + image.tobytes()


def _make(raster: Raster, options: ImageOptions) -> Picture | Failure:
    image = _READERS[raster.format](BytesIO(raster.data))
    width, height = image.size
    fit = _fit(width, height, options)
    refusal = _refuse_size(image, fit, options)
    if refusal is not None:
        return refusal
    # An AVIF's own turn comes as EXIF that Pillow writes.
    orientation = raster.orientation if raster.orientation > 1 else read_orientation(image.info.get("exif", b""))
    box = _load(image, fit)
    changes_size = not (width, height) == fit.scaled == fit.final
    if orientation == 1 and not changes_size and _is_plain(image, raster, options):
        stored, size = raster.data, image.size
    else:
        finished = _finish(image, box, fit, orientation=orientation, background=options.background)
        stored, size = _encode(finished, options), finished.size
    upright = (width, height) if orientation < _FIRST_QUARTER_TURN else (height, width)
    return Picture(
        data=stored,
        format=_pillow_name(options.encode),
        width=size[0],
        height=size[1],
        original_width=upright[0],
        original_height=upright[1],
        original_format=raster.format,
    )


def _fit(width: int, height: int, options: ImageOptions) -> _Fit:
    """Work out the sizes for a picture as it lies in its file: turning it later turns them alike."""
    side = options.size_px
    if options.resize in (Resize.SQUASH, Resize.CROP):
        return _Fit(scaled=(side, side), final=(side, side), crops=options.resize is Resize.CROP)
    if options.resize is Resize.NONE or (options.resize is Resize.KEEP and max(width, height) <= side):
        return _Fit(scaled=(width, height), final=(width, height))
    scale = side / max(width, height)
    scaled = max(1, round(width * scale)), max(1, round(height * scale))
    return _Fit(scaled=scaled, final=(side, side) if options.resize is Resize.PAD else scaled)


def _refuse_size(image: ImageFile, fit: _Fit, options: ImageOptions) -> Failure | None:
    """Refuse what is too large to decode or to encode, from the header alone."""
    width, height = image.size
    limit = options.max_pixels
    if image.format == "TIFF":  # its reader looks at the limit of the process, too, and would warn
        limit = min(limit, Image.MAX_IMAGE_PIXELS or limit)
    if width * height > limit:
        detail = f"{width} x {height} pixels; at most {limit} are decoded"
        return Failure(reason=Reason.TOO_MANY_PIXELS, detail=detail)
    most = _MAX_SIDE_PX[options.encode]
    if max(fit.final) > most:
        detail = f"{fit.final[0]} x {fit.final[1]} pixels; a {_pillow_name(options.encode)} has at most {most} a side"
        return Failure(reason=Reason.TOO_MANY_PIXELS, detail=detail)
    return None


def _load(image: ImageFile, fit: _Fit) -> _Box:
    """Decode, a JPEG at the smallest scale that is no smaller than wanted: 2 to 3 times as fast.

    Measured on photos, for 224 x 224 out of 640 to 1,411 pixels: 0.3 to 2.5 levels of 255 mean difference from
    scaling the whole, where storing as JPEG of quality 90 makes 2 to 6. Half of that is owed to the box.

    Returns:
        Where in the decoded picture the original's edges lie: its right and lower pixels may be filled only in part.
    """
    drafted = image.draft(None, fit.scaled)
    image.load()
    return drafted[1] if drafted else (0.0, 0.0, float(image.width), float(image.height))


def _is_plain(image: ImageFile, raster: Raster, options: ImageOptions) -> bool:
    """Say whether format and mode are already those to be stored."""
    same_format = raster.keepable and raster.format == _pillow_name(options.encode)
    return same_format and image.mode == "RGB" and not image.has_transparency_data


def _finish(
    image: ImageFile, box: _Box, fit: _Fit, *, orientation: int, background: tuple[int, int, int]
) -> Image.Image:
    """Flatten, resize, turn and pad, in this order: what is turned is small by then."""
    picture = _flatten(image, background)
    box = _middle_square(box) if fit.crops else box
    if picture.size != fit.scaled or box != (0, 0, *picture.size):
        picture = picture.resize(fit.scaled, Image.Resampling.LANCZOS, box=box, reducing_gap=_REDUCING_GAP)
    if orientation in _TURNS:
        picture = picture.transpose(_TURNS[orientation])
    if fit.final == fit.scaled:
        return picture
    padded = Image.new("RGB", fit.final, background)
    padded.paste(picture, ((padded.width - picture.width) // 2, (padded.height - picture.height) // 2))
    return padded


def _middle_square(box: _Box) -> _Box:
    _, _, width, height = box
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _flatten(image: ImageFile, background: tuple[int, int, int]) -> Image.Image:
    """Convert any mode to 8-bit RGB on a ground of one colour."""
    picture = _to_8_bit(image)
    if not picture.has_transparency_data:
        picture = picture if picture.mode == "RGB" else picture.convert("RGB")
        if isinstance(image, GifImagePlugin.GifImageFile) and image.dispose_extent is not None:
            _clear_outside(picture, image.dispose_extent, background)
        return picture
    if picture.mode == "La":  # Pillow has no direct way
        picture = picture.convert("LA")
    if picture.mode != "RGBA":
        picture = picture.convert("RGBA")
    ground = Image.new("RGB", picture.size, background)
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _to_8_bit(image: Image.Image) -> Image.Image:
    """Keep the high byte of 16-bit grey: 30,000 becomes 117. Pillow does so for colours, but clips grey at 255.

    Raises:
        ValueError: 32-bit and LAB samples, for which no file says what is white, or which need a colour profile.
    """
    if image.mode in ("I", "F", "LAB", "HSV"):
        raise ValueError(f"unsupported samples: mode {image.mode}")
    if not image.mode.startswith("I;16"):
        return image
    raw_mode = "L;16B" if image.mode == "I;16B" else "L;16"
    picture = Image.frombytes("L", image.size, image.tobytes(), "raw", raw_mode)
    picture.info.update(image.info)  # the clear colour, which `trim` brought to 8 bits
    return picture


def _clear_outside(picture: Image.Image, frame: tuple[int, int, int, int], background: tuple[int, int, int]) -> None:
    """Paint where a GIF's first frame does not reach; Pillow has the palette's first colour there."""
    left, top, right, bottom = frame
    width, height = picture.size
    for edge in ((0, 0, width, top), (0, bottom, width, height), (0, top, left, bottom), (right, top, width, bottom)):
        if edge[0] < edge[2] and edge[1] < edge[3]:
            picture.paste(background, edge)


def _encode(picture: Image.Image, options: ImageOptions) -> bytes:
    """Write a file. Nothing is optimised, so that time and bytes depend on the pixels alone."""
    picture.info.clear()  # Pillow would write comments, profiles and clear colours from it
    settings = {} if options.encode is Encode.PNG else {"quality": options.quality}
    with BytesIO() as file:
        picture.save(file, _pillow_name(options.encode), **settings)
        return file.getvalue()


def _pillow_name(encode: Encode) -> str:
    return encode.value.upper()


def _failure(error: Exception) -> Failure:
    """Say in one line what Pillow or `trim` could not do."""
    text = " ".join(str(error).split())[:_MAX_DETAIL_CHARS]
    # One word alone, such as a missing key, says nothing; nor does no word at all.
    is_sentence = " " in text and isinstance(error, OSError | SyntaxError | ValueError)
    detail = text if is_sentence else f"{type(error).__name__}: {text}".removesuffix(": ")
    if isinstance(error, Image.DecompressionBombError):  # WebP beyond twice Pillow's own limit
        return Failure(reason=Reason.TOO_MANY_PIXELS, detail=detail)
    if any(word in text.lower() for word in _UNSUPPORTED_WORDS):
        return Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=detail)
    return Failure(reason=Reason.BROKEN_PICTURE, detail=detail)
