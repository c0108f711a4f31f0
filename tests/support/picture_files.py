"""Picture files written by hand, for what Pillow cannot write."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# --- PNG

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
ADAM_7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Write one PNG chunk."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_key(*samples: int) -> bytes:
    """Write the PNG chunk that names the clear colour."""
    return png_chunk(b"tRNS", struct.pack(f">{len(samples)}H", *samples))


def png_pixels(rows: bytes) -> bytes:
    """Write the PNG chunk that holds rows, each behind its filter's number."""
    return png_chunk(b"IDAT", zlib.compress(rows))


def png_file(size: tuple[int, int], depth: int, colour: int, *chunks: bytes, interlaced: bool = False) -> bytes:
    """Write a PNG with any header and any chunks."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlaced))
    return PNG_SIGNATURE + header + b"".join(chunks) + png_chunk(b"IEND", b"")


def png_halves(
    size: tuple[int, int],
    depth: int,
    colour: int,
    halves: tuple[Sequence[int], Sequence[int]],
    *chunks: bytes,
    interlaced: bool = False,
) -> bytes:
    """Write a PNG whose left and right halves have one value each.

    Args:
        size: width and height, in pixels.
        depth: bits per sample.
        colour: the PNG colour type.
        halves: the samples of a pixel of each half.
        chunks: what stands between header and data.
        interlaced: whether its pixels come in seven passes.
    """
    width, height = size

    def row(columns: range) -> bytes:
        bits = "".join(f"{sample:0{depth}b}" for x in columns for sample in halves[x >= width // 2])
        bits += "0" * (-len(bits) % 8)
        return b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")

    passes = ADAM_7 if interlaced else ((0, 0, 1, 1),)
    rows = b"".join(row(range(x, width, dx)) * len(range(y, height, dy)) for x, y, dx, dy in passes)
    return png_file(size, depth, colour, *chunks, png_pixels(rows), interlaced=interlaced)


# --- EXIF and TIFF


def directory(tag: int, kind: int, value: int, order: str = "<") -> bytes:
    """Write an EXIF block, or TIFF, of one short entry."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "HHHIHHI", 1, tag, kind, 1, value, 0, 0)


def tiff_file(tags: dict[int, int | Sequence[int]], parts: Sequence[bytes], *, tiled: bool, order: str = "<") -> bytes:
    """Write a TIFF.

    Args:
        tags: numbers by tag; those above 65,535 are long, others short.
        parts: strips or tiles as they are stored.
        tiled: which of the two.
        order: byte order, as `struct` has it.
    """
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8 + sum(map(len, parts)))
    starts = [8 + sum(map(len, parts[:index])) for index in range(len(parts))]
    places = (324, 325) if tiled else (273, 279)
    numbers = {tag: [value] if isinstance(value, int) else list(value) for tag, value in tags.items()}
    numbers |= {places[0]: starts, places[1]: list(map(len, parts))}
    end = len(head) + sum(map(len, parts)) + 2 + 12 * len(numbers) + 4
    entries, beyond = b"", b""
    for tag, values in sorted(numbers.items()):
        kind, code = (4, "I") if max(values) > 0xFFFF or tag in places else (3, "H")
        packed = struct.pack(f"{order}{len(values)}{code}", *values)
        if len(packed) > 4:
            packed, beyond = struct.pack(order + "I", end + len(beyond)), beyond + packed
        entries += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    return head + b"".join(parts) + struct.pack(order + "H", len(numbers)) + entries + bytes(4) + beyond


# --- BMP


def bmp_file(
    size: tuple[int, int],
    bits: int,
    pixels: bytes,
    *,
    compression: int = 0,
    palette: bytes = b"",
    header_bytes: int = 40,
    masks: Sequence[int] = (),
) -> bytes:
    """Write a BMP.

    Args:
        size: width and height; a negative height is that of a picture that begins at its top.
        bits: per pixel.
        pixels: as they are stored.
        compression: its number.
        palette: as it is stored.
        header_bytes: length of the header: 12 is OS/2's first, 64 its second, 40 and more are those of Windows.
        masks: which bits each colour has.
    """
    if header_bytes == 12:
        header = struct.pack("<I4H", 12, *size, 1, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", header_bytes, *size, 1, bits, compression, len(pixels), 0, 0, 0, 0)
        header += struct.pack(f"<{len(masks)}I", *masks)
        header = header.ljust(header_bytes, b"\0")
    start = 14 + len(header) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + palette + pixels


# --- GIF


def gif_frame(size: tuple[int, int], colours: bytes, *, at: tuple[int, int] = (0, 0), palette: bytes = b"") -> bytes:
    """Write a GIF's frame of at most 4 colours, one index a byte, without compression.

    Args:
        size: of the frame, in pixels.
        colours: the index of each pixel.
        at: left and top.
        palette: its own, of 4 colours, if it has one.
    """
    # Codes of 3 bits, and the code that clears the table before it would grow to 4.
    codes = [code for index, colour in enumerate(colours) for code in ([4, colour] if index % 2 == 0 else [colour])]
    value = sum(code << 3 * index for index, code in enumerate([*codes, 5]))
    body = value.to_bytes(-(-3 * (len(codes) + 1) // 8), "little")
    blocks = b"".join(bytes([len(body[at : at + 255])]) + body[at : at + 255] for at in range(0, len(body), 255))
    flags = 0x81 if palette else 0
    return b"," + struct.pack("<4HB", *at, *size, flags) + palette + b"\2" + blocks + b"\0"


def gif_file(size: tuple[int, int], *blocks: bytes, palette: bytes = b"", version: bytes = b"89a") -> bytes:
    """Write a GIF of some blocks, with a palette of 4 colours or none."""
    flags = 0x91 if palette else 0
    return b"GIF" + version + struct.pack("<2H3B", *size, flags, 0, 0) + palette + b"".join(blocks) + b";"


def gif_control(*, clear: int | None = None, disposal: int = 0) -> bytes:
    """Write the block before a frame that says which index is clear, and what becomes of the frame."""
    return b"!\xf9\x04" + bytes([disposal << 2 | (clear is not None), 5, 0, clear or 0, 0])


# --- WebP


def webp_file(*chunks: tuple[bytes, bytes]) -> bytes:
    """Write a WebP of some chunks."""
    body = b"".join(kind + struct.pack("<I", len(data)) + data + bytes(len(data) & 1) for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


# --- JPEG. Source: ITU-T T.81; annex D and F.1.4 for arithmetic codes.


def segment(marker: int, body: bytes) -> bytes:
    """Write one JPEG segment."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def jpeg_file(
    size: tuple[int, int],
    halves: Sequence[tuple[int, int]],
    samplings: Sequence[tuple[int, int]],
    *,
    marks: bytes = b"",
    interleaved: bool = True,
    restart_mcus: int = 0,
    arithmetic: bool = False,
) -> bytes:
    """Write a JPEG whose left and right halves have one value each: every block is its mean and nothing else.

    Args:
        size: width and height, in pixels; whole blocks in each half of each component.
        halves: the levels of each component, left and right.
        samplings: blocks of each component in one unit of the scan, across and down.
        marks: segments at the beginning.
        interleaved: whether one scan has all components, or each its own.
        restart_mcus: units between two restart marks; 0 for none.
        arithmetic: whether it is coded by arithmetic codes.
    """
    numbers = range(len(samplings))
    frame = b"".join(bytes([index, x << 4 | y, 0]) for index, (x, y) in enumerate(samplings))
    tables = segment(0xDB, b"\0" + bytes([8]) + bytes([1] * 63))
    if not arithmetic:  # 12 categories of means in 4 bits each; of the rest only the end, in 1 bit
        tables += segment(0xC4, b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12)))
        tables += segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0")
    if restart_mcus:
        tables += segment(0xDD, struct.pack(">H", restart_mcus))
    marker = 0xC9 if arithmetic else 0xC0
    head = segment(marker, struct.pack(">BHHB", 8, size[1], size[0], len(samplings)) + frame)
    scans = b""
    for group in [list(numbers)] if interleaved else [[number] for number in numbers]:
        scans += segment(0xDA, bytes([len(group), *(each for number in group for each in (number, 0)), 0, 63, 0]))
        units = list(_units(size, halves, samplings, group))
        parts = [
            units[at : at + (restart_mcus or len(units))] for at in range(0, len(units), restart_mcus or len(units))
        ]
        coded = [(_arithmetic if arithmetic else _huffman)(part, len(samplings)) for part in parts]
        scans += b"".join(part + bytes([0xFF, 0xD0 + index % 8]) for index, part in enumerate(coded[:-1])) + coded[-1]
    return b"\xff\xd8" + marks + tables + head + scans + b"\xff\xd9"


def _units(
    size: tuple[int, int], halves: Sequence[tuple[int, int]], samplings: Sequence[tuple[int, int]], group: list[int]
) -> Iterator[list[tuple[int, int]]]:
    """Go through a scan's units: for each block its component and its mean."""
    most = [max(each[axis] for each in samplings) for axis in (0, 1)]
    columns, rows = size[0] // 8 // most[0], size[1] // 8 // most[1]
    if len(group) == 1:  # such a scan goes block by block
        ((x, y), (left, right)) = samplings[group[0]], halves[group[0]]
        for _ in range(rows * y):
            yield from ([(group[0], (left, right)[column >= columns * x // 2] - 128)] for column in range(columns * x))
        return
    for _ in range(rows):
        for column in range(columns):
            yield [
                (number, halves[number][column * x + block >= columns * x // 2] - 128)
                for number in group
                for x, y in [samplings[number]]
                for _ in range(y)
                for block in range(x)
            ]


def _huffman(units: list[list[tuple[int, int]]], num_components: int) -> bytes:
    bits, before = "", [0] * num_components
    for number, mean in (block for unit in units for block in unit):
        difference = mean - before[number]
        before[number] = mean
        category = abs(difference).bit_length()
        rest = difference if difference >= 0 else difference + 2**category - 1
        bits += f"{category:04b}" + (f"{rest:0{category}b}" if category else "") + "0"
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")


_STATES: Final = (
    (0x5A1D, 1, 1, 1), (0x2586, 14, 2, 0), (0x1114, 16, 3, 0), (0x080B, 18, 4, 0), (0x03D8, 20, 5, 0),
    (0x01DA, 23, 6, 0), (0x00E5, 25, 7, 0), (0x006F, 28, 8, 0), (0x0036, 30, 9, 0), (0x001A, 33, 10, 0),
    (0x000D, 35, 11, 0), (0x0006, 9, 12, 0), (0x0003, 10, 13, 0), (0x0001, 12, 13, 0), (0x5A7F, 15, 15, 1),
    (0x3F25, 36, 16, 0), (0x2CF2, 38, 17, 0), (0x207C, 39, 18, 0), (0x17B9, 40, 19, 0), (0x1182, 42, 20, 0),
    (0x0CEF, 43, 21, 0),
)  # fmt: skip
"""Chance of the less likely value, state after it, state after the other, and whether they change places. Source:
table D.3, as far as pictures of few blocks go."""


class _Coder:
    """An arithmetic coder that never runs out of digits, so that nothing has to be carried."""

    def __init__(self) -> None:
        self._low, self._width, self._shifts = 0, 0x10000, 0
        self._contexts: dict[tuple[str, int], tuple[int, int]] = {}

    def put(self, context: tuple[str, int], value: int) -> None:
        """Code one decision."""
        state, likely = self._contexts.get(context, (0, 0))
        chance, after_less, after_more, changes = _STATES[state]
        self._width -= chance
        if value == likely and self._width >= 0x8000:
            return
        if (value != likely) == (self._width >= chance):
            self._low, self._width = self._low + self._width, chance
        if value == likely:
            self._contexts[context] = after_more, likely
        else:
            self._contexts[context] = after_less, likely ^ changes
        while self._width < 0x8000:
            self._low, self._width, self._shifts = self._low << 1, self._width << 1, self._shifts + 1

    def end(self) -> bytes:
        """Give the bytes: the number of fewest digits in the range that is left."""
        last = self._low + self._width - 1 & ~0xFFFF
        last = last + 0x8000 if last < self._low else last
        length = 16 + self._shifts
        digits = (last << -length % 8).to_bytes(-(-length // 8), "big").rstrip(b"\0")
        return digits.replace(b"\xff", b"\xff\0")


def _arithmetic(units: list[list[tuple[int, int]]], num_components: int) -> bytes:
    """Code means and the end of each block. One table is shared, as its number says."""
    coder, before, conditions = _Coder(), [0] * num_components, [0] * num_components
    for number, mean in (block for unit in units for block in unit):
        conditions[number] = _put_mean(coder, mean - before[number], conditions[number])
        before[number] = mean
        coder.put(("end", 0), 1)
    return coder.end()


def _put_mean(coder: _Coder, difference: int, condition: int) -> int:
    """Code the difference of a mean from the one before; gives what the next depends on."""
    coder.put(("mean", condition), int(difference != 0))
    if not difference:
        return 0
    coder.put(("mean", condition + 1), int(difference < 0))
    at, condition, size = condition + (3 if difference < 0 else 2), 8 if difference < 0 else 4, 0
    rest = abs(difference) - 1
    if rest:
        coder.put(("mean", at), 1)
        at, size = 20, 1
        while rest >> size.bit_length():
            coder.put(("mean", at), 1)
            at, size = at + 1, size << 1
    coder.put(("mean", at), 0)
    condition += 8 if size > 1 else 0
    while size := size >> 1:
        coder.put(("mean", at + 14), int(size & rest > 0))
    return condition
