"""What AV1 streams, and the AVIF files around them, say of their size."""

from __future__ import annotations

import struct

import pytest

from evenshard.core.av1 import stream_bytes
from evenshard.core.avif import read_avif, trim_avif

SEQUENCE, FRAME = 1, 6


def packed(*fields: tuple[int, int]) -> bytes:
    """Write numbers of so many bits each, highest bit first, up to a whole byte."""
    text = "".join(f"{value:0{count}b}" if count else "" for value, count in fields)
    text += "0" * (-len(text) % 8)
    return int(text or "0", 2).to_bytes(len(text) // 8, "big")


def unit(kind: int, body: bytes, *, has_size: bool = True) -> bytes:
    """Write a unit of a stream of less than 128 bytes."""
    return bytes([kind << 3 | 2 * has_size]) + (bytes([len(body)]) if has_size else b"") + body


def sequence(
    width: int,
    height: int,
    *colour: tuple[int, int],
    profile: int = 0,
    reduced: bool = True,
    operation: tuple[tuple[int, int], ...] = ((0, 1), (0, 1), (0, 5), (0, 12), (0, 5)),
    ids: tuple[tuple[int, int], ...] = ((0, 1),),
    tools: tuple[tuple[int, int], ...] = ((0, 4), (0, 1), (1, 1), (1, 1)),
) -> bytes:
    """Write a sequence header; what only whole ones have comes with its lengths in bits.

    Args:
        width: of its frames, in pixels.
        height: the same.
        colour: how its colours are coded.
        profile: 0 for 4:2:0, 1 for 4:4:4, 2 for the rest.
        reduced: whether it is the short form of a still picture.
        operation: from the time to the operating points.
        ids: whether frames are numbered, and in how many bits.
        tools: the tools of moving pictures.
    """
    start = [(profile, 3), (1, 1), (int(reduced), 1), *([(0, 5)] if reduced else operation)]
    sides = [(15, 4), (15, 4), (width - 1, 16), (height - 1, 16), *([] if reduced else ids)]
    return unit(SEQUENCE, packed(*start, *sides, (0, 3), *([] if reduced else tools), (0, 3), *colour, (0, 16)))


def frame(*fields: tuple[int, int]) -> bytes:
    """Write a frame of nothing but the beginning of its header."""
    return unit(FRAME, packed(*fields, (0, 8)))


STILL = frame((0, 16))
SHOWN = ((0, 1), (0, 2), (1, 1), (0, 1), (0, 1))
"""A key frame that is shown, up to the use of the tools of screen content: not used."""
MODEL = (
    (1, 1), (0, 64), (0, 1), (1, 1), (9, 5), (0, 37), (6, 5),
    (1, 1), (1, 5), (0, 12), (9, 5), (0, 1), (1, 1), (0, 21), (1, 1), (0, 4), (0, 12), (0, 5), (0, 1), (0, 1),
)  # fmt: skip
"""Time, a model of the decoder whose frames carry 7 bits, and two operating points."""

PIXELS = 1_024 * 512
STREAMS: dict[str, tuple[bytes, int]] = {
    "420": (sequence(1_000, 500, (0, 1), (0, 1)) + STILL, PIXELS * 5 // 2),
    "420-10-bit": (sequence(1_000, 500, (1, 1), (0, 1)) + STILL, PIXELS * 4),
    "grey": (sequence(1_000, 500, (0, 1), (1, 1)) + STILL, PIXELS * 2),
    "444": (sequence(1_000, 500, (0, 1), profile=1) + STILL, PIXELS * 4),
    "444-10-bit": (sequence(1_000, 500, (1, 1), profile=1) + STILL, PIXELS * 7),
    "422": (sequence(1_000, 500, (0, 1), (0, 1), profile=2) + STILL, PIXELS * 3),
    "12-bit": (sequence(1_000, 500, (1, 1), (1, 1), (0, 1), profile=2) + STILL, PIXELS * 7),
    "no-size-of-the-last-unit": (
        sequence(1_000, 500, (0, 1), (0, 1)) + unit(FRAME, bytes(200), has_size=False),
        PIXELS * 5 // 2,
    ),
    "whole-header": (sequence(1_000, 500, (0, 1), (0, 1), reduced=False) + frame(*SHOWN, (0, 1)), PIXELS * 5 // 2),
    "decoder-model": (
        sequence(1_000, 500, (0, 1), (0, 1), reduced=False, operation=MODEL)
        + frame((0, 1), (0, 2), (1, 1), (127, 7), (0, 1), (0, 1), (0, 1)),
        PIXELS * 5 // 2,
    ),
    "frame-numbers": (
        sequence(1_000, 500, (0, 1), (0, 1), reduced=False, ids=((1, 1), (10, 4), (3, 3)))
        + frame(*SHOWN, (0xFFFF, 16), (0, 1)),
        PIXELS * 5 // 2,
    ),
    "hidden-frames": (
        sequence(1_000, 500, (0, 1), (0, 1), reduced=False)
        + frame((0, 1), (0, 2), (0, 1), (1, 1), (1, 1), (0, 1), (0, 1), (0, 1)) * 7
        + frame((1, 1)),
        8 * PIXELS * 5 // 2,
    ),
    "two-sequences": (
        sequence(1_000, 500, (0, 1), (0, 1)) + STILL + sequence(2_000, 1_000, (0, 1), (0, 1)) + STILL,
        5 * PIXELS * 5 // 2,
    ),
}
"""Streams, and the memory of their frames: sides rounded up to 128, twice the samples, and a byte a pixel beside."""


@pytest.mark.parametrize(("stream", "num_bytes"), STREAMS.values(), ids=STREAMS.keys())
def test_stream_says_what_its_frames_weigh(stream: bytes, num_bytes: int) -> None:
    """By its colours and depth, for every frame, whatever the form of its headers."""
    assert num_bytes == stream_bytes(stream)


PLAIN = sequence(1_000, 500, (0, 1), (0, 1), reduced=False)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "there is no frame in it"),
    "no-frame": (PLAIN, "there is no frame in it"),
    "no-sequence": (STILL, "a frame before its sequence header"),
    "cut": (unit(SEQUENCE, b"\x18\0\0") + STILL, "it is cut: an AV1 header is not whole"),
    "size-without-end": (b"\x0a" + b"\xff" * 9, "the size of an AV1 unit is damaged"),
    "size-cut": (b"\x0a\xff", "the size of an AV1 unit is damaged"),
    "frame-of-another-size": (PLAIN + frame(*SHOWN, (1, 1)), "unsupported kind of AVIF: a frame of another size"),
    "switch-frame": (PLAIN + frame((0, 1), (3, 2), (1, 1), (0, 2)), "unsupported kind of AVIF: a frame of another"),
    "many-units": (b"\x12\0" * 100_001, "more than 100000 parts"),
}


@pytest.mark.parametrize(("stream", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_stream_that_says_no_size_is_refused(stream: bytes, message: str) -> None:
    """What is not understood is not handed to a decoder, which would believe it."""
    with pytest.raises(ValueError, match=f"^{message}"):
        stream_bytes(stream)


# --- The file around


def box(kind: bytes, *parts: bytes) -> bytes:
    """Write a box."""
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def avif(stream: bytes, *turns: bytes, brands: bytes = b"avif\0\0\0\0avifmif1", inner: bool = False) -> bytes:
    """Write a file of one item of 60 x 40 pixels, and 9 x 9 of a thumbnail that comes first among its properties."""
    ispe = [box(b"ispe", struct.pack(">3I", 0, *size)) for size in ((9, 9), (60, 40))]
    owned = bytes([2 + len(turns), 2, *range(3, 3 + len(turns)), 0])
    properties = box(b"ipco", *ispe, *turns), box(b"ipma", struct.pack(">IIH", 0, 1, 7), owned)
    head = box(b"ftyp", brands)

    def meta(offset: int) -> bytes:
        entry = box(b"infe", b"\2\0\0\0" + struct.pack(">HH", 7, 0) + b"av01\0")
        where = struct.pack(">BBHH", 0x44, 0, 1, 7) + (b"\0\1" if inner else b"") + struct.pack(">HH", 0, 1)
        return box(
            b"meta",
            bytes(4),
            box(b"pitm", struct.pack(">IH", 0, 7)),
            box(b"iinf", struct.pack(">IH", 0, 1), entry),
            box(b"iloc", bytes([inner, 0, 0, 0]), where, struct.pack(">II", offset, len(stream))),
            box(b"iprp", *properties),
            *([box(b"idat", stream)] if inner else []),
        )

    return head + meta(0 if inner else len(head) + len(meta(0)) + 8) + (b"" if inner else box(b"mdat", stream))


SMALL = sequence(60, 40, (0, 1), (0, 1)) + STILL
TURNS: dict[str, tuple[tuple[bytes, ...], int]] = {
    "none": ((), 1),
    "left": ((box(b"irot", b"\1"),), 8),
    "half": ((box(b"irot", b"\2"),), 3),
    "right": ((box(b"irot", b"\3"),), 6),
    "upside-down": ((box(b"imir", b"\0"),), 4),
    "mirror": ((box(b"imir", b"\1"),), 2),
    "left-and-mirror": ((box(b"irot", b"\1"), box(b"imir", b"\1")), 7),
    "right-and-mirror": ((box(b"irot", b"\3"), box(b"imir", b"\1")), 5),
}


@pytest.mark.parametrize(("turns", "orientation"), TURNS.values(), ids=TURNS.keys())
@pytest.mark.parametrize("inner", [False, True], ids=["beside", "inside"])
def test_avif_says_size_and_turn_of_its_picture(turns: tuple[bytes, ...], orientation: int, *, inner: bool) -> None:
    """Size and turn are those of the item that is shown, wherever its stream is."""
    picture = read_avif(avif(SMALL, *turns, inner=inner))
    assert (60, 40, orientation) == (picture.width, picture.height, picture.orientation)
    assert 128 * 128 * 5 // 2 == picture.frame_bytes


def test_avif_counts_the_stream_whatever_the_box_says() -> None:
    """A box of 60 x 40 pixels around frames of 60,000 x 40,000 takes the memory of the latter."""
    picture = read_avif(avif(sequence(60_000, 40_000, (0, 1), (0, 1)) + STILL))
    assert (60, 40, 60_032 * 40_064 * 5 // 2) == (picture.width, picture.height, picture.frame_bytes)


def test_avif_without_its_pixels_still_says_its_size() -> None:
    """What is cut behind the header is trimmed never, and read as far as it goes."""
    data = avif(SMALL)
    for length in range(len(data) - len(SMALL), len(data) - 20):
        picture = read_avif(data[:length])
        assert (60, 40) == (picture.width, picture.height)
        with pytest.raises(ValueError, match=r"cut|no frame"):
            trim_avif(data[:length])


def test_avif_is_trimmed_to_its_still_picture() -> None:
    """Of a moving one the movie is hidden, EXIF gets another name, a tail stays, and no byte moves."""
    exif = box(b"infe", b"\2\0\0\0" + bytes(4) + b"Exif\0")
    data = avif(SMALL, brands=b"avis\0\0\0\0avifavismsf1") + box(b"moov", exif) + b"tail"
    wanted = data.replace(b"avis", b"avif").replace(b"moov", b"skip").replace(b"Exif\0", b"skip\0")
    assert wanted == trim_avif(data) == trim_avif(wanted)


ODD: dict[str, tuple[bytes, str]] = {
    "movie-alone": (box(b"ftyp", b"avis\0\0\0\0") + box(b"moov"), "unsupported kind of AVIF: there is no still"),
    "cut-in-its-list": (avif(SMALL)[:90], "it is cut: its last box is not whole"),
    "box-of-no-size": (box(b"ftyp", b"avif") + struct.pack(">I4s", 4, b"meta"), "it is cut: its last box is not"),
    "items-inside-of-items": (avif(SMALL, inner=True).replace(b"\0\7\0\1\0\0", b"\0\7\0\2\0\0"), "unsupported kind"),
    "very-many-items": (avif(SMALL).replace(b"\x44\0\0\1", b"\x44\0\xff\xff"), "unsupported kind of AVIF: 65535"),
}


@pytest.mark.parametrize(("data", "message"), ODD.values(), ids=ODD.keys())
def test_avif_without_a_header_is_refused(data: bytes, message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(ValueError, match=f"^{message}"):
        read_avif(data)
