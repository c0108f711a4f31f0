"""How much slower is `make_picture` than the bare Pillow calls that it cannot do without?

Run it as a script; it prints a table, and writes every single time to --out. Both take turns at the same body, so
that what else the machine does meets both alike; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageChops, ImageDraw, features
from rich.console import Console
from rich.table import Table

from evenshard.adapters.image import Picture, make_picture
from evenshard.core.recipe import ImageOptions

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = ImageOptions()
"""224 x 224, squashed, JPEG of quality 90."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question.

    Args:
        name: what is measured.
        data: body of the picture.
        drafts: whether the floor decodes it at a part of its size.
        goal: ratio to the floor that is aimed at, or None where the case only informs.
    """

    name: str
    data: bytes
    drafts: bool = False
    goal: float | None = None


def scene(width: int, height: int, seed: int = 1) -> Image.Image:
    """Draw what compresses as a photo does: noise on four scales, soft slopes and sharp edges."""
    rng = random.Random(seed)
    bands = []
    for _ in range(3):
        band = Image.linear_gradient("L").resize((width, height))
        for scale, weight in ((128, 0.5), (32, 0.35), (8, 0.25), (2, 0.12)):
            small = (max(1, width // scale), max(1, height // scale))
            noise = Image.frombytes("L", small, rng.randbytes(small[0] * small[1]))
            band = ImageChops.blend(band, noise.resize((width, height), Image.Resampling.BICUBIC), weight)
        bands.append(band)
    image = Image.merge("RGB", bands)
    draw = ImageDraw.Draw(image)
    for _ in range(30):
        x, y, length = rng.randrange(width), rng.randrange(height), rng.randrange(10, width // 5)
        colour = (rng.randrange(256), rng.randrange(256), rng.randrange(256))
        draw.ellipse((x, y, x + length, y + length), outline=colour, width=3)
    return image


def encode(image: Image.Image, name: str, **settings: object) -> bytes:
    """Write a picture file."""
    with BytesIO() as file:
        image.save(file, name, **settings)
        return file.getvalue()


def cases() -> list[Case]:
    """List the frozen cases; the first is the one that the goal is about."""
    photo, large = scene(800, 600), scene(4_000, 3_000)
    return [
        Case(name="JPEG 800x600 q85", data=encode(photo, "JPEG", quality=85), drafts=True, goal=1.15),
        Case(name="JPEG 800x600 q85, against a whole decode", data=encode(photo, "JPEG", quality=85)),
        Case(
            name="JPEG 800x600 q85, progressive",
            data=encode(photo, "JPEG", quality=85, progressive=True),
            drafts=True,
        ),
        Case(name="JPEG 4000x3000 q85", data=encode(large, "JPEG", quality=85), drafts=True),
        Case(name="PNG 800x600", data=encode(photo, "PNG")),
        Case(name="WebP 800x600 q80", data=encode(photo, "WEBP", quality=80)),
        Case(name="JPEG 224x224 q85, kept", data=encode(scene(224, 224), "JPEG", quality=85)),
    ]


def floor(data: bytes, *, drafts: bool) -> bytes:
    """Do with bare Pillow what has to be done, without one check."""
    side = OPTIONS.size_px
    image: Image.Image = Image.open(BytesIO(data))
    if drafts:
        image.draft("RGB", (side, side))
    small = image.convert("RGB").resize((side, side), Image.Resampling.LANCZOS)
    return encode(small, "JPEG", quality=OPTIONS.quality)


def ours(data: bytes) -> Picture:
    """Do it as a slice does."""
    made = make_picture(data, OPTIONS)
    if not isinstance(made, Picture):
        raise TypeError(f"the benchmark's own picture failed: {made.detail}")
    return made


def measure(case: Case, *, num_rounds: int) -> dict[str, Any]:
    """Time both by turns.

    Returns:
        Every round's wall and CPU seconds of both, and what follows from them.
    """

    def seconds(act: Callable[[], object]) -> tuple[float, float]:
        wall, cpu = perf_counter(), thread_time()
        act()
        return perf_counter() - wall, thread_time() - cpu

    rounds = [
        (*seconds(lambda: floor(case.data, drafts=case.drafts)), *seconds(lambda: ours(case.data)))
        for _ in range(num_rounds + 1)
    ][1:]  # the first fills caches
    ratios = [ours_cpu / floor_cpu for _, floor_cpu, _, ours_cpu in rounds]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "case": case.name,
        "body_bytes": len(case.data),
        "goal": case.goal,
        "floor_ms": round(median(each[0] for each in rounds) * 1e3, 3),
        "ours_ms": round(median(each[2] for each in rounds) * 1e3, 3),
        "floor_cpu_ms": round(median(each[1] for each in rounds) * 1e3, 3),
        "ours_cpu_ms": round(median(each[3] for each in rounds) * 1e3, 3),
        "cpu_ratio": round(median(ratios), 3),
        "cpu_ratio_quartiles": [round(low, 3), round(high, 3)],
        "rounds_floor_wall_cpu_ours_wall_cpu_seconds": [[round(value, 6) for value in each] for each in rounds],
    }


def machine() -> dict[str, object]:
    """Say where this was measured."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "pillow": features.version("pil"),
        "libjpeg_turbo": features.version("libjpeg_turbo"),
    }


def table(results: list[dict[str, Any]]) -> Table:
    """Lay the results out for a person."""
    shown = Table(title=f"one picture to {OPTIONS.size_px} x {OPTIONS.size_px}, {OPTIONS.resize}, JPEG, one thread")
    for heading in ("case", "body kB", "floor ms", "ours ms", "floor CPU ms", "ours CPU ms", "CPU ratio", "quartiles"):
        shown.add_column(heading, justify="left" if heading == "case" else "right")
    for each in results:
        times = [f"{each[key]:.2f}" for key in ("floor_ms", "ours_ms", "floor_cpu_ms", "ours_cpu_ms", "cpu_ratio")]
        spread = " to ".join(f"{value:.2f}" for value in each["cpu_ratio_quartiles"])
        shown.add_row(each["case"], f"{each['body_bytes'] / 1e3:.0f}", *times, spread)
    return shown


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="times that each case is done, at least 1")
    parser.add_argument("--out", type=Path, help="JSON file for every single time")
    asked = parser.parse_args()
    results = [measure(case, num_rounds=asked.rounds) for case in cases()]
    Console().print(table(results))
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(each) for each in results)  # one case a line, for people and for diffs
        asked.out.write_text(f'{{"measured_on": {json.dumps(machine())},\n"results": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
