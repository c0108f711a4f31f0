"""What the demo's server answers: pictures of many kinds, drawn, and some faults of the web."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from typing import Final

from PIL import Image, ImageDraw

TIMEOUT_SECONDS: Final = 2.0
"""What the demo waits for an answer; one page takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the demo's server answers at one path.

    Args:
        body: what it sends.
        busy: how many times it answers 503 before.
        seconds: how long it waits before it answers.
        status: what it answers in the end.
    """

    body: bytes
    busy: int = 0
    seconds: float = 0.0
    status: int = 200


def draw_pages(count: int) -> dict[str, Page]:
    """Draw what the server serves, by path: pictures of many kinds, and some faults."""
    rng = random.Random(20)  # noqa: S311 - the same pictures each time
    pages = {f"/{number:03d}": Page(body=_picture(rng, number)) for number in range(count)}
    body = {number: pages[f"/{number:03d}"].body for number in range(count)}
    faults = {
        40: Page(body=b"gone", status=404),
        41: Page(body=body[41][: len(body[41]) // 2]),
        42: Page(body=b"<!doctype html><title>Sign in</title><p>Please sign in to see this picture.</p>"),
        44: Page(body=body[44], seconds=3 * TIMEOUT_SECONDS),
        **{number: Page(body=b"gone", status=404) for number in range(60, count, 70)},
        **{number: Page(body=body[number], busy=1) for number in range(7, count, 50)},
    }
    return pages | {f"/{number:03d}": page for number, page in faults.items()}


def _picture(rng: random.Random, number: int) -> bytes:
    """Draw one picture; the number decides its kind, so that every kind is there."""
    size = (rng.randint(80, 640), rng.randint(80, 480))
    image = Image.new("RGB", size, _colour(rng))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randint(4, 12)):
        x, y, radius = rng.randrange(size[0]), rng.randrange(size[1]), rng.randint(5, 120)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(rng))
    match number % 10:
        case 1:
            image.putalpha(Image.linear_gradient("L").resize(size))
            return _saved(image, "PNG")
        case 2:
            return _saved(image, "WEBP", quality=80)
        case 3:
            return _saved(image.convert("CMYK"), "JPEG")
        case 4:
            exif = Image.Exif()
            exif[0x0112] = rng.randint(2, 8)  # the EXIF tag of orientation
            return _saved(image, "JPEG", exif=exif.tobytes())
        case 5:
            return _saved(image.quantize(32), "PNG")
    return _saved(image, "JPEG", quality=rng.choice([75, 85, 92]), progressive=number % 4 == 0)


def _colour(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
