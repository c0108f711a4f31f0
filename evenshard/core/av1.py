"""What decoding an AV1 stream will take in memory, from its headers alone.

A box around the stream may declare any size, and a decoder believes the stream: 2 kB that declare 100 x 100 pixels
outside and 12,000 x 12,000 inside cost it half a gigabyte.

Source: AV1 Bitstream and Decoding Process Specification, 5.3 (units), 5.5 (sequence header), 5.9.2 (frame header).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.segments import at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEQUENCE, _FRAME_HEADER, _FRAME = 1, 3, 6
_SWITCH_FRAME: Final = 3
_SELECT: Final = 2
"""Each frame says for itself whether it uses a tool."""

_BLOCK_PX: Final = 128
"""Decoders round a frame's sides up to whole superblocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sequence:
    """What frame headers depend on, and what one frame weighs."""

    frame_bytes: int
    is_reduced: bool
    time_bits: int
    id_bits: int
    screen_tools: int
    whole_vectors: int


def stream_bytes(stream: bytes) -> int:
    """Work out the memory that the frames of a stream take, decoded; each frame may have to be kept for the next.

    Raises:
        ValueError: there is no frame in it, it is cut, or its message says "unsupported" and why.
    """
    sequence, total_bytes = None, 0
    for kind, body in at_most(_units(stream)):
        if kind == _SEQUENCE:
            sequence = _read_sequence(_Bits(body))
        elif kind in (_FRAME, _FRAME_HEADER):
            if sequence is None:
                raise ValueError("a frame before its sequence header")
            _refuse_other_size(_Bits(body), sequence)
            total_bytes += sequence.frame_bytes
    if total_bytes == 0:
        raise ValueError("there is no frame in it")
    return total_bytes


def _units(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Go through the units of a stream: type and payload."""
    at = 0
    while at < len(stream):
        head = stream[at]
        at += 2 if head & 4 else 1
        size = len(stream) - at
        if head & 2:
            size, at = _leb128(stream, at)
        yield head >> 3 & 15, stream[at : at + size]
        at += size


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of 7 bits a byte, lowest first; gives it and where it ends."""
    value = 0
    for index in range(8):
        if at + index >= len(data):
            break
        value |= (data[at + index] & 0x7F) << 7 * index
        if data[at + index] < 0x80:
            return value, at + index + 1
    raise ValueError("the size of an AV1 unit is damaged")


class _Bits:
    """Reads numbers, highest bit first."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data[:256], "big")
        self._left = 8 * min(len(data), 256)

    def take(self, count: int) -> int:
        """Read a number of so many bits."""
        if count > self._left:
            raise ValueError("it is cut: an AV1 header is not whole")
        self._left -= count
        return self._value >> self._left & (1 << count) - 1

    def skip_uvlc(self) -> None:
        """Pass over a number that says its own length."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        self.take(zeros if zeros < 32 else 0)


def _read_sequence(bits: _Bits) -> _Sequence:
    profile, _, is_reduced = bits.take(3), bits.take(1), bool(bits.take(1))
    time_bits = 0
    if is_reduced:
        bits.take(5)
    else:
        time_bits = _skip_operation(bits)
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    width, height = bits.take(width_bits) + 1, bits.take(height_bits) + 1
    id_bits = 0
    if not is_reduced and bits.take(1):
        id_bits = bits.take(4) + 2 + bits.take(3) + 1
    bits.take(3)
    screen_tools, whole_vectors = (_SELECT, _SELECT) if is_reduced else _read_tools(bits)
    bits.take(3)
    sides = [-(-side // _BLOCK_PX) * _BLOCK_PX for side in (width, height)]
    return _Sequence(
        frame_bytes=sides[0] * sides[1] * _halves_per_pixel(bits, profile) // 2,
        is_reduced=is_reduced,
        time_bits=time_bits,
        id_bits=id_bits,
        screen_tools=screen_tools,
        whole_vectors=whole_vectors,
    )


def _skip_operation(bits: _Bits) -> int:
    """Pass over timing and operating points; gives the bits of a frame's time, where frames have one."""
    delay_bits = time_bits = 0
    has_model = False
    if bits.take(1):  # timing
        bits.take(64)
        is_even = bits.take(1)
        if is_even:
            bits.skip_uvlc()
        has_model = bool(bits.take(1))
        if has_model:
            delay_bits = bits.take(5) + 1
            bits.take(37)
            time_bits = bits.take(5) + 1
            time_bits = 0 if is_even else time_bits
    has_delay = bits.take(1)
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:
            bits.take(1)
        if has_model and bits.take(1):
            bits.take(2 * delay_bits + 1)
        if has_delay and bits.take(1):
            bits.take(4)
    return time_bits


def _read_tools(bits: _Bits) -> tuple[int, int]:
    """Read what a moving sequence says of its tools; gives those of screen content, and of whole motion vectors."""
    bits.take(4)
    has_order = bits.take(1)
    if has_order:
        bits.take(2)
    screen_tools = _SELECT if bits.take(1) else bits.take(1)
    whole_vectors = _SELECT
    if screen_tools > 0 and not bits.take(1):
        whole_vectors = bits.take(1)
    if has_order:
        bits.take(3)
    return screen_tools, whole_vectors


def _halves_per_pixel(bits: _Bits, profile: int) -> int:
    """Read the colour format; gives twice the bytes that a decoded pixel takes, with what the decoder notes of it."""
    is_deep = bits.take(1)
    is_12_bit = profile == 2 and is_deep and bits.take(1)
    is_grey = profile != 1 and bits.take(1)
    samples = 6 if profile == 1 else 3
    if profile == 2:
        samples = 6 if is_12_bit else 4  # which of the three it is of 12 bits stands further behind
    if is_grey:
        samples = 2
    return samples * (2 if is_deep else 1) + 2


def _refuse_other_size(bits: _Bits, sequence: _Sequence) -> None:
    """Refuse a frame that has a size of its own, which no picture needs and a bomb does."""
    if sequence.is_reduced or bits.take(1):  # the second shows a frame that is there
        return
    kind, is_shown = bits.take(2), bits.take(1)
    if is_shown:
        bits.take(sequence.time_bits)
    else:
        bits.take(1)
    if kind != _SWITCH_FRAME and not (kind == 0 and is_shown):
        bits.take(1)
    bits.take(1)
    uses_tools = bits.take(1) if sequence.screen_tools == _SELECT else sequence.screen_tools
    if uses_tools and sequence.whole_vectors == _SELECT:
        bits.take(1)
    bits.take(sequence.id_bits)
    if kind == _SWITCH_FRAME or bits.take(1):
        raise ValueError("unsupported kind of AVIF: a frame of another size than its sequence")
