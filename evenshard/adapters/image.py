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
import zlib
from dataclasses import dataclass, replace
from functools import reduce
from io import BytesIO
from typing import TYPE_CHECKING, Final

from PIL import Image

from evenshard.adapters.flatten import flatten, is_plain
from evenshard.adapters.image_readers import READERS
from evenshard.core.fit import Fit, fit_of
from evenshard.core.header import Header, read_header
from evenshard.core.outcome import Failure, Reason
from evenshard.core.raster import Raster, has_all_rows, trim
from evenshard.core.recipe import Encode, ImageOptions
from evenshard.core.refusal import refuse, refuse_hungry
from evenshard.core.segments import PNG_SIGNATURE, png_chunks
from evenshard.core.sniff import sniff

if TYPE_CHECKING:
    from typing import TypeAlias

    from PIL.ImageFile import ImageFile

    _Box: TypeAlias = tuple[float, float, float, float]

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


def make_picture(data: bytes, options: ImageOptions) -> Picture | Failure:
    """Decode, turn upright, flatten, resize and encode one picture. Never raises, whatever the bytes.

    May be called from many threads at once; Pillow lets go of the GIL for most of it. The same bytes and
    options give the same file under one version of Pillow, whatever switches of Pillow the process has set.

    Peak memory beside the body is at most `max_working_bytes`, by an estimate (`refusal.working_bytes`) that was
    passed by no more than 10 MB. Where `size_px` decides the stored size, that takes its own beside: up to 28 bytes
    for each of its pixels while scaling, and 40 while encoding.

    Args:
        data: the body as it came.
        options: what to do.

    Returns:
        The picture, or why there is none: `EMPTY_BODY`, `NOT_A_PICTURE`, `UNSUPPORTED_FORMAT`, `BROKEN_PICTURE`,
        `TOO_MANY_PIXELS` (also if it needs too much memory, or does not fit the output format), `TOO_SMALL` or
        `TOO_OBLONG`. The last three are said from the header alone.
    """
    if not data:
        return Failure(reason=Reason.EMPTY_BODY)
    found = sniff(data)
    if isinstance(found, Failure):
        return found
    if found not in READERS:
        return Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=f"{found}: this build of Pillow has no decoder")
    try:
        header = read_header(found, data)
    except Exception as error:  # noqa: BLE001 - the row boundary: strangers' bytes raise anything from KeyError to MemoryError
        return _failure(error)
    try:
        made = refuse(header, options, num_bytes=len(data)) or _make(trim(found, data), header, options, len(data))
    except Exception as error:  # noqa: BLE001 - the same
        made = _failure(error)
    if isinstance(made, Picture):
        return made
    width, height = header.upright
    return replace(made, original_width=width, original_height=height, original_format=found)


def pil_payload(image: Image.Image) -> bytes:
    """Give the payload of litdata's `pil` leaf: width, height and length of the mode, then mode and raw pixels.

    The numbers are u32, little endian. A palette has no place in it, so palette pictures become RGB or RGBA.
    """
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    mode = image.mode.encode()
    return struct.pack("<3I", *image.size, len(mode)) + mode + image.tobytes()


def _make(raster: Raster, header: Header, options: ImageOptions, num_bytes: int) -> Picture | Failure:
    image = READERS[raster.format](BytesIO(raster.data))
    size = (header.width, header.height)
    if image.size != size:
        raise ValueError(f"its header says {size} pixels, its decoder {image.size}")
    fit = fit_of(header, options)
    is_ready = header.orientation == 1 and size == fit.scaled == fit.final
    is_kept = is_ready and _is_kept(image, raster, options)
    hungry = refuse_hungry(header, options, num_bytes=num_bytes, is_kept=is_kept)
    if hungry is not None:
        return hungry
    box = _load(image, fit)
    if raster.format == "PNG" and _ends_black(image) and not has_all_rows(raster.data):
        raise ValueError("it is cut: its data ends before its last row")
    if is_ready and _is_kept(image, raster, options):
        stored = raster.data
    else:
        finished = _finish(image, box, fit, orientation=header.orientation, background=options.background)
        stored, size = _encode(finished, options), finished.size
    return Picture(
        data=stored,
        format=options.encode.upper(),
        width=size[0],
        height=size[1],
        original_width=header.upright[0],
        original_height=header.upright[1],
        original_format=raster.format,
    )


def _load(image: ImageFile, fit: Fit) -> _Box:
    """Decode, a JPEG at the smallest scale that is no smaller than wanted: 2 to 3 times as fast.

    Measured on photos, for 224 x 224 out of 640 to 1,411 pixels: 0.3 to 2.5 levels of 255 mean difference from
    scaling the whole, where storing as JPEG of quality 90 makes 2 to 6. Half of that is owed to the box.

    Returns:
        Where in the decoded picture the original's edges lie: its right and lower pixels may be filled only in part.
    """
    drafted = image.draft(None, fit.scaled)
    image.load()
    return drafted[1] if drafted else (0.0, 0.0, float(image.width), float(image.height))


def _ends_black(image: ImageFile) -> bool:
    """Say whether one of the last two rows is all zeros, as those are that were never decoded.

    Two, since those of an interlaced picture come in turns; in a single row its pixels do, so that it counts as black.
    """
    width, height = image.size
    boxes = ((0, y, width, y + 1) for y in (height - 2, height - 1))
    rows = (image.resize((width, 1), Image.Resampling.NEAREST, box=box) for box in boxes)
    return height < 2 or not all(any(row.tobytes()) for row in rows)


def _is_kept(image: ImageFile, raster: Raster, options: ImageOptions) -> bool:
    """Say whether format and mode are already those to be stored."""
    return raster.keepable and raster.format == options.encode.upper() and is_plain(image)


def _finish(
    image: ImageFile, box: _Box, fit: Fit, *, orientation: int, background: tuple[int, int, int]
) -> Image.Image:
    """Flatten, resize, turn and pad, in this order: what is turned is small by then."""
    picture = flatten(image, background)
    box = _middle_square(box) if fit.crops else box
    if picture.size != fit.scaled or box != (0, 0, *picture.size):
        scaled = picture.resize(fit.scaled, Image.Resampling.LANCZOS, box=box, reducing_gap=_REDUCING_GAP)
        picture = _in_place_of(picture, scaled)
    if orientation in _TURNS:
        picture = _in_place_of(picture, picture.transpose(_TURNS[orientation]))
    if fit.final == fit.scaled:
        return picture
    padded = Image.new("RGB", fit.final, background)
    padded.paste(picture, ((padded.width - picture.width) // 2, (padded.height - picture.height) // 2))
    return padded


def _in_place_of(old: Image.Image, new: Image.Image) -> Image.Image:
    """Free the memory of a picture that another one follows, whoever else holds it."""
    old.close()
    return new


def _middle_square(box: _Box) -> _Box:
    _, _, width, height = box
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _encode(picture: Image.Image, options: ImageOptions) -> bytes:
    """Write a file. Nothing is optimised, so that time and bytes depend on the pixels alone."""
    picture.info.clear()  # Pillow would write comments, profiles and clear colours from it
    settings = {} if options.encode is Encode.PNG else {"quality": options.quality}
    with BytesIO() as file:
        picture.save(file, options.encode.upper(), **settings)
        return _in_one_chunk(file.getvalue()) if options.encode is Encode.PNG else file.getvalue()


def _in_one_chunk(png: bytes) -> bytes:
    """Join a PNG's chunks of pixels, whose length would depend on a switch of the process, `ImageFile.MAXBLOCK`."""
    chunks = list(png_chunks(png))
    pixels = [chunk[8:-4] for kind, chunk in chunks if kind == b"IDAT"]
    if len(pixels) == 1:
        return png
    start = struct.pack(">I4s", sum(map(len, pixels)), b"IDAT")
    check_sum = reduce(lambda before, part: zlib.crc32(part, before), pixels, zlib.crc32(b"IDAT"))
    return b"".join((PNG_SIGNATURE, chunks[0][1], start, *pixels, struct.pack(">I", check_sum), chunks[-1][1]))


def _failure(error: Exception) -> Failure:
    """Say in one line what Pillow or `trim` could not do."""
    text = " ".join(str(error).split())[:_MAX_DETAIL_CHARS]
    # One word alone, such as a missing key, says nothing; nor does no word at all.
    is_sentence = " " in text and isinstance(error, OSError | SyntaxError | ValueError)
    detail = text if is_sentence else f"{type(error).__name__}: {text}".removesuffix(": ")
    if any(word in text.lower() for word in _UNSUPPORTED_WORDS):
        return Failure(reason=Reason.UNSUPPORTED_FORMAT, detail=detail)
    return Failure(reason=Reason.BROKEN_PICTURE, detail=detail)
