"""What does the worst picture cost in memory, format by format: if nothing were refused, and by default?

Usage: python -m tests.benchmarks.picture_memory [--out FILE] [--pixels 89478485] [--cases NAME ...]

Each picture is written by one process and made by another. Of that one the growth of its resident memory is taken,
from before the call to its highest, as the kernel keeps it. First as many pixels as `max_pixels` allows, with no limit
of memory; then as many as the default limit lets through, in a process that has imported all that a worker does; last
all of these in turn, in one such process, twice.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from PIL import Image

from evenshard.adapters.fetch import FetchOptions
from evenshard.adapters.image import Picture, make_picture
from evenshard.core.header import read_header
from evenshard.core.outcome import Failure
from evenshard.core.recipe import Encode, ImageOptions, Resize
from evenshard.core.refusal import working_bytes
from evenshard.core.sniff import sniff
from tests.benchmarks.record import write
from tests.support.picture_files import PNG_SIGNATURE, bmp_file, gif_control, gif_file, gif_frame, png_chunk, tiff_file

UNLIMITED: Final = 2**40
MAX_WORKER_MB: Final = 700
MAX_BEYOND_MB: Final = 15
WIDEST: Final = 16_383
"""Of a WebP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of picture.

    Args:
        make: writes it, of a width and a height.
        options: what is asked for.
        divided: how many times fewer pixels are enough, since it takes long or much.
        is_kept: whether the file is stored as it came.
    """

    make: Callable[[int, int], bytes]
    options: ImageOptions = field(default_factory=ImageOptions)
    divided: int = 1
    is_kept: bool = False


def drawn(kind: str, mode: str = "RGB", **settings: object) -> Callable[[int, int], bytes]:
    """Have a picture of one colour written by Pillow."""

    def make(width: int, height: int) -> bytes:
        colour = (200, 30, 30, 90)[: len(mode)] if len(mode) > 1 else 90
        with io.BytesIO() as file:
            Image.new(mode, (width, height), colour).save(file, kind, **settings)
            return file.getvalue()

    return make


def zeros(depth: int, colour: int, *chunks: bytes, bits: int, interlaced: bool = False) -> Callable[[int, int], bytes]:
    """Write a PNG of nothing but zeros, row by row."""

    def make(width: int, height: int) -> bytes:
        passes = [(0, 0, 1, 1)]
        if interlaced:
            passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        packer, packed = zlib.compressobj(1), []
        for left, top, dx, dy in passes:
            row = bytes(1 + -(-len(range(left, width, dx)) * bits // 8))
            packed += [packer.compress(row) for _ in range(top, height, dy)]
        head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
        body = png_chunk(b"IDAT", b"".join(packed) + packer.flush())
        return PNG_SIGNATURE + head + b"".join(chunks) + body + png_chunk(b"IEND", b"")

    return make


def moving(kind: str) -> Callable[[int, int], bytes]:
    """Write a moving picture of two frames, whose second one is a dot."""

    def make(width: int, height: int) -> bytes:
        first, second = (Image.new("RGB", (width, height), colour) for colour in ((9, 9, 9), (9, 9, 8)))
        with io.BytesIO() as file:
            first.save(file, kind, save_all=True, append_images=[second], **({"speed": 10} if kind == "AVIF" else {}))
            return file.getvalue()

    return make


def dot_on_canvas(width: int, height: int) -> bytes:
    """Write a GIF of 40 bytes: one pixel on a clear canvas."""
    frame = gif_frame((1, 1), b"\0")
    return gif_file((width, height), gif_control(clear=1), frame, palette=bytes(12))


def one_tile(width: int, height: int) -> bytes:
    """Write a TIFF of 64 x 64 pixels in one tile that is as large as asked for."""
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(3 * width)) for _ in range(height)) + packer.flush()
    size = {256: 64, 257: 64, 322: width, 323: height}
    return tiff_file({**size, 258: [8, 8, 8], 259: 8, 262: 2, 277: 3}, [packed], tiled=True)


def box_of_another_size(width: int, height: int) -> bytes:
    """Write an AVIF whose box says 64 x 64 pixels."""
    data = drawn("AVIF", speed=10, subsampling="4:4:4")(width, height)
    return data.replace(struct.pack(">II", width, height), struct.pack(">II", 64, 64))


def noise(kind: str) -> Callable[[int, int], bytes]:
    """Write a picture that cannot be packed."""

    def make(width: int, height: int) -> bytes:
        dots = Image.effect_noise((width, height), 200)
        image = Image.merge("RGB", (dots, dots.transpose(Image.Transpose.ROTATE_180), dots))
        with io.BytesIO() as file:
            image.save(file, kind, **({"quality": 40} if kind == "JPEG" else {"compress_level": 1}))
            return file.getvalue()

    return make


def masked(width: int, height: int) -> bytes:
    """Write a BMP with alpha, which is not packed: 32 bits for each pixel."""
    return bmp_file(
        (width, height),
        32,
        bytes(4 * width * height),
        compression=3,
        header_bytes=108,
        masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000),
    )


NONE = {encode: ImageOptions(resize=Resize.NONE, encode=encode, quality=100) for encode in Encode}
CASES: dict[str, Case] = {
    "JPEG": Case(make=drawn("JPEG")),
    "JPEG, kept as it came": Case(make=drawn("JPEG"), options=NONE[Encode.JPEG], is_kept=True),
    "JPEG CMYK, left at its size": Case(make=drawn("JPEG", "CMYK"), options=NONE[Encode.JPEG]),
    "JPEG progressive 4:2:0": Case(make=drawn("JPEG", progressive=True)),
    "JPEG progressive 4:4:4": Case(make=drawn("JPEG", progressive=True, subsampling=0)),
    "JPEG progressive 4:4:4, kept as it came": Case(
        make=drawn("JPEG", progressive=True, subsampling=0), options=NONE[Encode.JPEG], is_kept=True
    ),
    "JPEG progressive CMYK": Case(make=drawn("JPEG", "CMYK", progressive=True)),
    "JPEG of noise to PNG, left at its size": Case(make=noise("JPEG"), options=NONE[Encode.PNG], divided=4),
    "JPEG of noise to WebP, left at its size": Case(make=noise("JPEG"), options=NONE[Encode.WEBP], divided=8),
    "PNG of noise to JPEG, left at its size": Case(make=noise("PNG"), options=NONE[Encode.JPEG], divided=8),
    "PNG RGB": Case(make=zeros(8, 2, bits=24)),
    "PNG RGB interlaced": Case(make=zeros(8, 2, bits=24, interlaced=True)),
    "PNG RGB 16-bit": Case(make=zeros(16, 2, bits=48)),
    "PNG RGB with a clear colour": Case(make=zeros(8, 2, png_chunk(b"tRNS", bytes(6)), bits=24)),
    "PNG RGBA": Case(make=zeros(8, 6, bits=32)),
    "PNG RGBA 16-bit": Case(make=zeros(16, 6, bits=64)),
    "PNG grey 16-bit": Case(make=zeros(16, 0, bits=16)),
    "PNG grey with alpha": Case(make=zeros(8, 4, bits=16)),
    "PNG palette with alpha": Case(
        make=zeros(8, 3, png_chunk(b"PLTE", bytes(768)), png_chunk(b"tRNS", b"\x55" * 256), bits=8)
    ),
    "GIF": Case(make=drawn("GIF", "L")),
    "GIF moving": Case(make=moving("GIF")),
    "GIF of 40 bytes": Case(make=dot_on_canvas),
    "WebP lossy": Case(make=drawn("WEBP", method=0)),
    "WebP lossy with alpha": Case(make=drawn("WEBP", "RGBA", method=0)),
    "WebP lossless": Case(make=drawn("WEBP", lossless=True, method=0)),
    "WebP moving": Case(make=moving("WEBP")),
    "AVIF 4:2:0": Case(make=drawn("AVIF", speed=10)),
    "AVIF 4:4:4": Case(make=drawn("AVIF", speed=10, subsampling="4:4:4")),
    "AVIF 4:4:4 with alpha": Case(make=drawn("AVIF", "RGBA", speed=10, subsampling="4:4:4")),
    "AVIF moving": Case(make=moving("AVIF")),
    "AVIF of 64 x 64 pixels, larger inside": Case(make=box_of_another_size),
    "TIFF RGB in one strip": Case(make=drawn("TIFF", compression="tiff_adobe_deflate", strip_size=2**31 - 1)),
    "TIFF RGBA": Case(make=drawn("TIFF", "RGBA", compression="tiff_adobe_deflate")),
    "TIFF of 64 x 64 pixels in a larger tile": Case(make=one_tile),
    "BMP with alpha": Case(make=masked, divided=12),
}


def sides(num_pixels: int) -> tuple[int, int]:
    """Choose sides that every format can have."""
    width = min(WIDEST, math.isqrt(3 * num_pixels))
    return width, num_pixels // width


def estimate(data: bytes, case: Case) -> int:
    """Give what `make_picture` thinks that a picture needs."""
    kind = sniff(data)
    if isinstance(kind, Failure):
        raise TypeError(kind.detail)
    return working_bytes(read_header(kind, data), case.options, num_bytes=len(data), is_kept=case.is_kept)


def memory_mb(name: str) -> float:
    """Read one line of what the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def make(path: Path, case: Case) -> dict[str, Any]:
    """Make the picture in a file, in this very process."""
    data = path.read_bytes()
    before = memory_mb("VmRSS")
    made = make_picture(data, case.options)
    peak = memory_mb("VmHWM")
    return {
        "body_bytes": len(data),
        "grown_mb": round(peak - before, 1),
        "process_mb": round(peak, 1),
        "estimate_mb": round(estimate(data, case) / 1e6, 1),
        "result": "stored" if isinstance(made, Picture) else f"{made.reason}: {made.detail}",
    }


def child(act: str, folder: str, names: list[str], num_pixels: int) -> str:
    """Do one act in a process of its own; gives what it prints."""
    command = [sys.executable, "-m", "tests.benchmarks.picture_memory", "--act", act, folder]
    done = subprocess.run(
        [*command, "--pixels", str(num_pixels), "--cases", *names], check=True, capture_output=True, text=True
    )
    return done.stdout


def measure(name: str, num_pixels: int, *, limited: bool) -> dict[str, Any]:
    """Write a picture in one process, and make it in another."""
    with tempfile.TemporaryDirectory() as folder:
        child("write", folder, [name], num_pixels)
        (figures,) = json.loads(child("make-limited" if limited else "make", folder, [name], num_pixels))
    return {"pixels": num_pixels, **figures}


def measure_in_turn(num_pixels: dict[str, int]) -> float:
    """Write pictures, each in a process, and make them one after another in a single one, all of them twice.

    Returns:
        The peak of that process, in MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, number in num_pixels.items():
            child("write", folder, [name], number)
        figures = json.loads(child("make-limited", folder, list(num_pixels) * 2, 0))
    return max(float(each["process_mb"]) for each in figures)


def path_of(folder: str, name: str) -> Path:
    """Give the file of a case."""
    return Path(folder) / name.replace(" ", "-")


def with_limit(case: Case, max_working_bytes: int) -> Case:
    """Give a case another limit of memory."""
    return replace(case, options=replace(case.options, max_working_bytes=max_working_bytes))


def act(options: argparse.Namespace) -> None:
    """Do the part of one of the processes."""
    what, folder = options.act
    if what == "write":
        (name,) = options.cases
        path_of(folder, name).write_bytes(CASES[name].make(*sides(options.pixels)))
        return
    limit = UNLIMITED
    if what == "make-limited":
        import_module("evenshard.worker")  # what a worker holds before its first picture
        limit = ImageOptions().max_working_bytes
    cases = {
        name: replace(CASES[name], options=replace(CASES[name].options, max_working_bytes=limit)) for name in CASES
    }
    figures = [make(path_of(folder, name), cases[name]) for name in options.cases]
    print(json.dumps(figures))  # noqa: T201 - for the process that asked


def row(name: str, num_pixels: int) -> dict[str, Any]:
    """Measure one case: without a limit of memory, and the largest that the default lets through."""
    num_pixels //= CASES[name].divided
    unlimited = measure(name, num_pixels, limited=False)
    share = min(1.0, ImageOptions().max_working_bytes / 1e6 / unlimited["estimate_mb"])
    limited = measure(name, int(num_pixels * share * 0.99), limited=True)
    per_pixel = unlimited["grown_mb"] * 1e6 / num_pixels
    return {"case": name, "bytes_per_pixel": round(per_pixel, 2), "unlimited": unlimited, "default_limit": limited}


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pixels", type=int, default=ImageOptions().max_pixels)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--act", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.act:
        act(options)
        return
    rows = [row(name, options.pixels) for name in options.cases]
    made = [each[kind] for each in rows for kind in ("unlimited", "default_limit")]
    beyond_mb = max(each["grown_mb"] - each["estimate_mb"] for each in made)
    alone_mb = max(each["default_limit"]["process_mb"] for each in rows)
    in_turn_mb = measure_in_turn({each["case"]: each["default_limit"]["pixels"] for each in rows})
    worker_mb = max(alone_mb, in_turn_mb)
    # Bodies that are held beside: their limit, and one more.
    held_mb = (FetchOptions().max_held_bytes + ImageOptions().max_body_bytes) / 1e6
    limits: dict[str, tuple[float, float]] = {
        "MB of the worst worker by default, with all bodies that it may hold": (worker_mb + held_mb, MAX_WORKER_MB),
        "MB that a picture took beyond its estimate": (round(beyond_mb, 1), MAX_BEYOND_MB),
    }
    write(options.out, {"cases": rows, "all_in_turn_twice_mb": in_turn_mb, "held_mb": held_mb}, limits=limits)


if __name__ == "__main__":
    main()
