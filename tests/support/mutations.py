"""Pictures of every kind, and what can be done to their bytes; and a program that makes very many of them.

Usage: python -m tests.support.mutations SEED COUNT

It prints what became of them and its own peak memory, and ends with a traceback if a promise was broken.
"""

from __future__ import annotations

import json
import random
import re
import struct
import sys
import time
import warnings
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.recipe import Encode, ImageOptions, Resize
from tests.support.picture_files import jpeg_file, tiff_file
from tests.support.pictures import SIZE, saved, scene, ycck_jpeg
from tests.support.pictures import opened as open_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evenshard.core.outcome import Failure

EXIF: Final = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
WIDTH, HEIGHT = 48, 36


@cache
def every_kind() -> dict[str, bytes]:
    """Give whole small pictures of every format and most modes, with detail all over."""
    drawn = scene(WIDTH, HEIGHT)
    clear, few, grey = drawn.convert("RGBA").rotate(45), drawn.quantize(16), drawn.convert("L")

    def moving(name: str) -> bytes:
        return saved(drawn, name, save_all=True, append_images=[drawn.rotate(90 * turn) for turn in (1, 2, 3)])

    return {
        "jpeg": saved(drawn, "JPEG", quality=90),
        "jpeg-progressive": saved(drawn, "JPEG", quality=90, progressive=True),
        "jpeg-restarts": saved(drawn, "JPEG", restart_marker_blocks=2),
        "jpeg-grey": saved(grey, "JPEG"),
        "jpeg-cmyk": saved(drawn.convert("CMYK"), "JPEG"),
        "jpeg-ycck": ycck_jpeg(),
        "jpeg-exif": saved(drawn, "JPEG", exif=EXIF),
        "jpeg-arithmetic": jpeg_file((32, 16), [(193, 128)], [(1, 1)], arithmetic=True),
        "jpeg-scans": jpeg_file(SIZE, [(9, 99)] * 3, [(2, 2), (1, 1), (1, 1)], interleaved=False),
        "png": saved(drawn, "PNG"),
        "png-rgba": saved(drawn.convert("RGBA"), "PNG"),
        "png-palette": saved(few, "PNG"),
        "png-key": saved(drawn, "PNG", transparency=(0, 0, 0)),
        "png-16": saved(drawn.convert("I").convert("I;16"), "PNG"),
        "png-moving": moving("PNG"),
        "gif": saved(drawn, "GIF"),
        "gif-clear": saved(few, "GIF", transparency=3, interlace=1),
        "gif-moving": moving("GIF"),
        "webp": saved(drawn, "WEBP"),
        "webp-lossless": saved(drawn, "WEBP", lossless=True),
        "webp-alpha": saved(clear, "WEBP"),
        "webp-moving": moving("WEBP"),
        "webp-exif": saved(drawn, "WEBP", exif=EXIF),
        "bmp": saved(drawn, "BMP"),
        "bmp-palette": saved(few, "BMP"),
        "tiff": saved(drawn, "TIFF"),
        "tiff-lzw": saved(drawn, "TIFF", compression="tiff_lzw"),
        "tiff-deflate": saved(drawn, "TIFF", compression="tiff_adobe_deflate"),
        "tiff-jpeg": saved(drawn, "TIFF", compression="jpeg"),
        "tiff-palette": saved(few, "TIFF"),
        "tiff-fax": saved(drawn.convert("1"), "TIFF", compression="group4"),
        "tiff-tiles": tiled_tiff(),
        "avif": saved(drawn, "AVIF", exif=EXIF),
        "avif-alpha": saved(clear, "AVIF"),
        "avif-moving": moving("AVIF"),
    }


def tiled_tiff() -> bytes:
    """Write a TIFF of tiles."""
    tags: dict[int, int | Sequence[int]] = {
        256: WIDTH,
        257: HEIGHT,
        258: [8, 8, 8],
        259: 8,
        262: 2,
        277: 3,
        322: 16,
        323: 16,
    }
    return tiff_file(tags, [zlib.compress(bytes(range(256)) * 3)] * 9, tiled=True, order=">")


# --- What is done to bytes. Each takes a source of chance, the bytes, and another picture.


def flip_bits(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Flip one to eight bits, half of the time in the header, where most of the code is."""
    changed = bytearray(data)
    for _number in range(rng.randint(1, 8)):
        at = rng.randrange(min(len(data), rng.choice((120, len(data)))))
        changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Lose the end, or a part in the middle."""
    start = rng.randrange(len(data))
    return data[:start] + rng.choice((b"", data[start + rng.randrange(1, 64) :]))


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Put a part of another picture in the place of some bytes, or between them."""
    at, start = rng.randrange(len(data)), rng.randrange(len(other))
    part = other[start : start + rng.randrange(1, 200)]
    return data[:at] + part + data[at + rng.choice((0, len(part))) :]


def overwrite(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Put a number that is extreme, or a mark that means something, in the place of some bytes."""
    marks = (bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\xff\xd9", b"\xff\xda", b"IEND", b";")
    mark, at = rng.choice(marks), rng.randrange(min(len(data), rng.choice((120, len(data)))))
    return data[:at] + mark + data[at + len(mark) :]


def double(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Repeat a part."""
    start = rng.randrange(len(data))
    part = data[start : start + rng.randrange(1, 300)]
    return data[:start] + part * rng.randrange(2, 40) + data[start + len(part) :]


def concatenate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Put two pictures, or noise and a picture, behind one another."""
    return rng.choice((data + other, data + rng.randbytes(rng.randrange(1, 500)), rng.randbytes(3) + data, data + data))


def resize_header(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Have the header say another size, and its check sum agree."""
    sides = [rng.choice((0, 1, 7, 47, 49, 100, 4_000, 9_000, 16_383, 65_535)) for _ in (0, 1)]
    for form in (">HH", "<HH", "<II", ">II"):
        for old in (struct.pack(form, WIDTH, HEIGHT), struct.pack(form, HEIGHT, WIDTH)):
            data = data.replace(old, struct.pack(form, *sides), rng.choice((1, 2)))
    return mended(data)


def swap_parts(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Bring the parts of a file into another order, lose one, repeat one, or take one of another picture."""
    parts = parts_of(data)
    first, second = (rng.randrange(len(parts)) for _ in (0, 1))
    act = rng.randrange(4)
    if act == 0:
        parts[first], parts[second] = parts[second], parts[first]
    elif act == 1:
        del parts[first]
    else:
        parts.insert(first, parts[second] if act == 2 else rng.choice(parts_of(other)))
    return b"".join(parts)


def fuzz_part(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Damage one part of a file, and have its check sum agree."""
    parts = parts_of(data)
    index = rng.randrange(len(parts))
    parts[index] = overwrite(rng, parts[index] or b"?", b"")
    return mended(b"".join(parts))


def parts_of(data: bytes) -> list[bytes]:
    """Cut a file into its parts, or into blocks where it has none: both give the file when joined."""
    if data.startswith(b"\xff\xd8"):
        return re.split(rb"(?=\xff[\xc0-\xfe])", data)
    if data.startswith(b"\x89PNG"):
        at, form, beside = 8, ">I", 12
    elif data.startswith(b"RIFF"):
        at, form, beside = 12, "<I", 8
    elif data[4:8] == b"ftyp":
        at, form, beside = 0, ">I", 0
    else:
        return [data[at : at + 32] for at in range(0, len(data), 32)]
    parts = [data[:at]]
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(form, data, at + (4 if form == "<I" else 0))
        end = max(at + 8, at + length + beside + (length & 1 if form == "<I" else 0))
        parts.append(data[at:end])
        at = end
    return [*parts, data[at:]]


def mended(data: bytes) -> bytes:
    """Write the check sums of a PNG anew, so that what was changed is believed."""
    if not data.startswith(b"\x89PNG"):
        return data
    head, *chunks = parts_of(data)
    whole = [chunk[:-4] + struct.pack(">I", zlib.crc32(chunk[4:-4])) if len(chunk) >= 12 else chunk for chunk in chunks]
    return b"".join((head, *whole))


ACTS: Final[tuple[Callable[[random.Random, bytes, bytes], bytes], ...]] = (
    flip_bits,
    cut,
    splice,
    overwrite,
    double,
    concatenate,
    resize_header,
    swap_parts,
    fuzz_part,
)


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Do one to three of these things."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(ACTS)(rng, data or b"?", other)
    return data


def check(made: Picture | Failure, data: bytes) -> str:
    """Give the kind of a result.

    Raises:
        AssertionError: it is not what is promised.
    """
    if not isinstance(made, Picture):
        assert made.detail.isprintable(), data
        assert len(made.detail) <= 230, data
        assert "Warning" not in made.detail, data
        return made.reason
    image = open_whole(made.data)
    assert (made.format, "RGB", (made.width, made.height)) == (image.format, image.mode, image.size), data
    return "stored"


def _peak_kb() -> int:
    """Give the largest resident size of this program; `ru_maxrss` is inherited from the one that started it.

    Source: proc(5), VmHWM in /proc/self/status.
    """
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main(seed: int, count: int) -> None:
    """Make so many mutated pictures, of all kinds in turn."""
    warnings.simplefilter("error")
    rng, seen = random.Random(seed), Counter[str]()
    seeds = list(every_kind().values())
    for number in range(count):
        data = mutate(rng, seeds[number % len(seeds)], rng.choice(seeds))
        options = ImageOptions(
            size_px=rng.randint(1, 60), resize=rng.choice(list(Resize)), encode=rng.choice(list(Encode))
        )
        seen[check(make_picture(data, options), data)] += 1
    peak_kb = _peak_kb()
    print(json.dumps({"seen": seen, "peak_mb": peak_kb * 1024 / 1e6, "cpu_seconds": time.process_time()}))  # noqa: T201 - a program


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
