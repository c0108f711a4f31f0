"""The boxes of an AVIF file, as far as they say how large its picture is, and where its streams are.

Source: ISO/IEC 14496-12 (boxes, items), ISO/IEC 23008-12 (ispe, irot, imir), AV1 Image File Format 1.1.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from evenshard.core.av1 import stream_bytes
from evenshard.core.segments import at_most, until_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TURNS: Final = {
    (0, None): 1, (0, 0): 4, (0, 1): 2,
    (1, None): 8, (1, 0): 5, (1, 1): 7,
    (2, None): 3, (2, 0): 2, (2, 1): 4,
    (3, None): 6, (3, 0): 7, (3, 1): 5,
}  # fmt: skip
"""EXIF's orientation for quarter turns to the left, then a mirror: none, top to bottom, left to right."""

_EXIF_ITEM: Final = re.compile(rb"(infe(?:\x02.{7}|\x03.{9}))Exif", re.DOTALL)
"""The entry of an EXIF item in a list of items."""

_MAX_ITEMS: Final = 4_096
"""As many tiles as 64 x 64; a longer list has no use but to keep a reader busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvifPicture:
    """The still picture of a file.

    Args:
        width, height: in pixels, before it is turned.
        orientation: EXIF's, of the turn that the file asks for.
        frame_bytes: memory of its decoded AV1 frames: of tiles, alpha, and whatever else is coded there; 0 if
            these are damaged.
    """

    width: int
    height: int
    orientation: int
    frame_bytes: int


@dataclass(slots=True)
class _Items:
    """What the boxes in `meta` say.

    Args:
        primary: number of the item that is shown.
        kinds: type of each item.
        extents: where the bytes of each item are: whether in the box beside the list, offset and length.
        properties: type and value, in order.
        owned: which properties each item has, by number from 1.
        inner: offset of the box beside the list.
    """

    primary: int = 0
    kinds: dict[int, bytes] = field(default_factory=dict)
    extents: dict[int, list[tuple[bool, int, int]]] = field(default_factory=dict)
    properties: list[tuple[bytes, bytes]] = field(default_factory=list)
    owned: dict[int, list[int]] = field(default_factory=dict)
    inner: int = 0


def read_avif(data: bytes) -> AvifPicture:
    """Read the size of a file's still picture, and what decoding it takes.

    Raises:
        ValueError, struct.error, IndexError: it is cut, damaged, or the message says "unsupported" and why.
    """
    items = _read_items(data)
    own = [items.properties[index - 1] for index in items.owned.get(items.primary, ()) if index > 0]
    found = dict(reversed(own))  # the first of each type
    width, height = struct.unpack_from(">2I", found.get(b"ispe", b""), 4)
    quarters = found[b"irot"][0] & 3 if b"irot" in found else 0
    mirror = found[b"imir"][0] & 1 if b"imir" in found else None
    try:
        frame_bytes = _frame_bytes(data, items)
    except ValueError:  # `trim_avif` says it again
        frame_bytes = 0
    return AvifPicture(width=width, height=height, orientation=_TURNS[quarters, mirror], frame_bytes=frame_bytes)


def trim_avif(data: bytes) -> bytes:
    """Leave the still picture of a file; a moving one has it, too, for viewers without animation.

    EXIF items get another name, so that nobody reads them: in AVIF the turn is a property of the picture.

    Raises:
        ValueError, struct.error: its pixels are cut or damaged, or the message says "unsupported" and why.
    """
    _frame_bytes(data, _read_items(data))
    still = bytearray(_EXIF_ITEM.sub(rb"\1skip", data))
    for kind, start, end in until_damage(_boxes(data, 0, len(data))):
        if kind == b"moov":
            still[start - 4 : start] = b"skip"
        elif kind == b"ftyp":
            still[start:end] = data[start:end].replace(b"avis", b"avif")
    return bytes(still)


def _boxes(data: bytes, at: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Go through the boxes in a range: type, and where the body begins and ends.

    Raises:
        ValueError: one does not end inside.
    """
    return at_most(_walk_boxes(data, at, stop))


def _walk_boxes(data: bytes, at: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    while at < stop:
        size, kind = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        end = at + size if size else stop
        if not start <= end <= stop:
            raise ValueError("it is cut: its last box is not whole")
        yield kind, start, end
        at = end


class _Numbers:
    """Reads whole numbers of a box, one after another, never past its end."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end
        self.version = data[at]
        self.flags = int.from_bytes(data[at + 1 : at + 4], "big")
        self.at += 4

    def take(self, num_bytes: int) -> int:
        """Read a number of so many bytes."""
        self.at += num_bytes
        if self.at > self._end:
            raise ValueError("it is cut: a box is not whole")
        return int.from_bytes(self._data[self.at - num_bytes : self.at], "big")

    def take_count(self, num_bytes: int) -> int:
        """Read how many entries follow."""
        count = self.take(num_bytes)
        if count > _MAX_ITEMS:
            raise ValueError(f"unsupported kind of AVIF: {count} entries in a list")
        return count


def _read_items(data: bytes) -> _Items:
    items = _Items()
    meta = next(((start, end) for kind, start, end in _boxes(data, 0, len(data)) if kind == b"meta"), None)
    if meta is None:
        raise ValueError("unsupported kind of AVIF: there is no still picture in it")
    for kind, start, end in _boxes(data, meta[0] + 4, meta[1]):
        if kind in _META:
            _META[kind](items, data, start, end)
        elif kind == b"idat":
            items.inner = start
        elif kind == b"iprp":
            _read_properties(items, data, start, end)
    return items


def _read_primary(items: _Items, data: bytes, start: int, end: int) -> None:
    numbers = _Numbers(data, start, end)
    items.primary = numbers.take(4 if numbers.version else 2)


def _read_kinds(items: _Items, data: bytes, start: int, end: int) -> None:
    numbers = _Numbers(data, start, end)
    numbers.take_count(4 if numbers.version else 2)
    for kind, entry, entry_end in _boxes(data, numbers.at, end):
        if kind == b"infe" and data[entry] >= 2:
            each = _Numbers(data, entry, entry_end)
            item = each.take(4 if each.version > 2 else 2)
            each.take(2)
            items.kinds[item] = each.take(4).to_bytes(4, "big")


def _read_extents(items: _Items, data: bytes, start: int, end: int) -> None:
    numbers = _Numbers(data, start, end)
    sizes = numbers.take(2)
    offset_size, length_size, base_size, index_size = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    has_method = numbers.version in (1, 2)
    wide = 4 if numbers.version > 1 else 2
    for _ in range(numbers.take_count(wide)):
        item = numbers.take(wide)
        method = numbers.take(2) & 15 if has_method else 0
        numbers.take(2)
        base = numbers.take(base_size)
        extents = items.extents.setdefault(item, [])
        for _ in range(numbers.take_count(2)):
            numbers.take(index_size if has_method else 0)
            offset = base + numbers.take(offset_size)
            extents.append((method == 1, offset, numbers.take(length_size)))
        if method > 1:
            raise ValueError("unsupported kind of AVIF: items inside of items")


def _read_properties(items: _Items, data: bytes, start: int, end: int) -> None:
    for kind, inner, inner_end in _boxes(data, start, end):
        if kind == b"ipco":
            items.properties = [(name, data[at:stop]) for name, at, stop in _boxes(data, inner, inner_end)]
        elif kind == b"ipma":
            _read_owned(items, _Numbers(data, inner, inner_end))


def _read_owned(items: _Items, numbers: _Numbers) -> None:
    wide = 2 if numbers.flags & 1 else 1
    for _ in range(numbers.take_count(4)):
        item = numbers.take(4 if numbers.version else 2)
        mask = (1 << 8 * wide - 1) - 1  # the highest bit says whether it must be understood
        items.owned[item] = [numbers.take(wide) & mask for _ in range(numbers.take(1))]


_META: Final[dict[bytes, Callable[[_Items, bytes, int, int], None]]] = {
    b"pitm": _read_primary,
    b"iinf": _read_kinds,
    b"iloc": _read_extents,
}


def _frame_bytes(data: bytes, items: _Items) -> int:
    coded = [item for item, kind in items.kinds.items() if kind == b"av01"]
    return sum(stream_bytes(_content(data, items, item)) for item in coded)


def _content(data: bytes, items: _Items, item: int) -> bytes:
    """Put the bytes of an item together.

    Raises:
        ValueError: some of them are not there.
    """
    parts = []
    for is_inner, offset, length in items.extents.get(item, ()):
        at = offset + (items.inner if is_inner else 0)
        part = data[at : at + length] if length else data[at:]
        if len(part) < length or not part:
            raise ValueError("it is cut: pixels of it are not there")
        parts.append(part)
    return b"".join(parts)
