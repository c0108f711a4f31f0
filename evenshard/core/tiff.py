"""The first directory of a TIFF file, which is also what EXIF is written in.

Source: TIFF revision 6.0, sections 2 and 8; EXIF 2.32, 4.6.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ORIENTATION: Final = 274
_SUBFILE, _WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLES, _STRIP_ROWS = 254, 256, 257, 258, 262, 277, 278
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
_RGB, _YCBCR = 2, 6
_SCALARS: Final = frozenset({256, 257, 259, _PHOTOMETRIC, 266, 277, 278, 284, 292, 293, 317, 322, 323})
_DRAWING: Final = _SCALARS | {_BITS, 273, 279, 320, 324, 325, 338, 339, 347, *range(512, 522), *range(529, 533)}
_NUMBERS: Final = {1: "B", 3: "H", 4: "I"}
_UNIT_BYTES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 11: 4, 12: 8}
_MAX_TAG_BYTES: Final = 2**20
"""262,144 strips; a longer list has no use but to fill memory."""


def read_orientation(exif: bytes) -> int:
    """Find the orientation in an EXIF block or a TIFF file.

    Returns:
        1 to 8; 1, which is upright, also if there is none, or it is damaged or has no meaning.
    """
    try:
        found = _numbers(exif.removeprefix(b"Exif\0\0")).get(_ORIENTATION, 1)
    except (ValueError, struct.error):
        return 1
    return found if 1 <= found <= 8 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TiffPicture:
    """The first picture of a file, from its directory.

    Args:
        width, height: in pixels, as it lies.
        pixel_bytes: memory of one decoded pixel.
        is_final: whether decoded pixels are RGB and opaque.
        part_bytes: memory of one decoded strip or tile, which may be larger than the picture.
    """

    width: int
    height: int
    pixel_bytes: int
    is_final: bool
    part_bytes: int


def read_tiff(data: bytes) -> TiffPicture:
    """Read what a file's first directory says of size and memory.

    Raises:
        ValueError, struct.error: it says no size, or is not there.
    """
    numbers = _numbers(data)
    if not numbers.keys() >= {_WIDTH, _HEIGHT}:
        raise ValueError("it is cut, or its directory says no size")
    width, height = numbers[_WIDTH], numbers[_HEIGHT]
    colour, bits = numbers.get(_PHOTOMETRIC), numbers.get(_BITS, 1)
    samples = numbers.get(_SAMPLES, 3 if colour in (_RGB, _YCBCR) else 1)
    strip = width * min(numbers.get(_STRIP_ROWS, height), height)
    tile = numbers.get(_TILE_WIDTH, 0) * numbers.get(_TILE_HEIGHT, 0)
    return TiffPicture(
        width=width,
        height=height,
        pixel_bytes=4 if samples > 1 or bits > 16 else -(-bits // 8),
        is_final=samples == 3 and colour in (_RGB, _YCBCR),
        part_bytes=max(strip, tile) * max(4, samples * -(-bits // 8)),  # YCbCr is decoded to four bytes
    )


def trim_tiff(data: bytes) -> bytes:
    """Give a file's first picture a directory of only the tags that draw it, in the place of the old one.

    Nothing moves, so that the offsets in the tags stay right, and nothing is added that a reader could take for
    the end of pixels that were cut off.

    Raises:
        ValueError, struct.error: the directory is cut or damaged, or the message says "unsupported" and why.
    """
    order = _byte_order(data)
    _refuse_odd(_numbers(data))
    kept: dict[int, bytes] = {}  # the first of each: of doubles Pillow takes the last, and libtiff the first
    total_bytes = 0
    for tag, kind, count, value in _entries(data):
        size = count * _UNIT_BYTES.get(kind, 0)
        if tag not in _DRAWING or tag in kept or size == 0 or (tag in _SCALARS and count != 1):
            continue
        end = struct.unpack(order + "I", value)[0] + size if size > 4 else 0
        total_bytes += size
        if size > _MAX_TAG_BYTES or max(total_bytes, end) > len(data):
            raise ValueError(f"tag {tag} leads past the end of the file")
        kept[tag] = struct.pack(order + "HHI4s", tag, kind, count, value)
    (at,) = struct.unpack_from(order + "I", data, 4)
    directory = struct.pack(order + "H", len(kept)) + b"".join(kept.values()) + bytes(4)
    if at + len(directory) > len(data):
        raise ValueError("it is cut: its directory is not whole")
    return data[:at] + directory + data[at + len(directory) :]


def _refuse_odd(numbers: dict[int, int]) -> None:
    """Refuse what Pillow would decode to something else than the picture."""
    if numbers.get(_SUBFILE, 0) & 1:
        raise ValueError("unsupported kind of TIFF: its first picture is a reduced one, as in camera raw files")
    bits, white_is_zero = numbers.get(_BITS, 1), numbers.get(_PHOTOMETRIC, 1) == 0
    if bits == 12 or (bits == 16 and white_is_zero):
        raise ValueError(f"unsupported kind of TIFF: {bits}-bit grey{', white is zero' if white_is_zero else ''}")


def _numbers(tiff: bytes) -> dict[int, int]:
    """Read the first directory's tags that are one whole number, up to where it is cut; of its bits, the first."""
    order, numbers = _byte_order(tiff), dict[int, int]()
    try:
        for tag, kind, count, value in _entries(tiff):
            if kind not in _NUMBERS or tag in numbers:
                continue
            if count == 1 or (tag == _BITS and count * _UNIT_BYTES[kind] <= 4):
                numbers[tag] = struct.unpack_from(order + _NUMBERS[kind], value)[0]
            elif tag == _BITS:
                (at,) = struct.unpack(order + "I", value)
                numbers[tag] = struct.unpack_from(order + _NUMBERS[kind], tiff, at)[0]
    except struct.error:
        return numbers
    return numbers


def _entries(tiff: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Go through the first directory: tag, type, count, and the value itself or its offset."""
    order = _byte_order(tiff)
    (at,) = struct.unpack_from(order + "I", tiff, 4)
    (num_entries,) = struct.unpack_from(order + "H", tiff, at)
    for index in range(num_entries):
        tag, kind, count, value = struct.unpack_from(order + "HHI4s", tiff, at + 2 + 12 * index)
        yield tag, kind, count, value


def _byte_order(tiff: bytes) -> str:
    """Give the mark that `struct` wants."""
    orders = {b"II": "<", b"MM": ">"}
    if tiff[:2] not in orders:
        raise ValueError("no byte order mark")
    return orders[tiff[:2]]
