"""What a benchmark of the loaders found, as a person reads it: on the terminal, and in Prefect."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from flows.config import num_cores
from flows.console import printable
from flows.tables import make_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from evenshard.core.timing import Point
    from flows.benchmark_config import BenchmarkOptions


def real_cores() -> int:
    """Count the cores that this process may use, and not their threads."""
    import psutil  # noqa: PLC0415 - of the extra; a deployment must be there without it

    return min(psutil.cpu_count(logical=False) or num_cores(), num_cores())


def machine() -> str:
    """Say what the figures were measured on, in one line."""
    import psutil  # noqa: PLC0415 - see above

    memory = psutil.virtual_memory().total / 2**30
    system = f"{platform.system()} {platform.machine()}"
    return f"{real_cores()} cores, {memory:.0f} GiB, {system}, Python {sys.version.split()[0]}"


def point_cells(point: Point) -> dict[str, Any]:
    """Give a point as the cells of a row, by their names."""
    return {
        "read": str(point.kind),
        "workers": point.num_workers,
        "samples/s": round(point.samples_per_second, 1),
        "spread": f"{point.spread:.0%}",
        "MB/s": round(point.megabytes_per_second, 1),
        "CPU us/sample": round(point.cpu_seconds_per_sample * 1e6, 1),
        "elapsed s": round(point.elapsed_seconds, 2),
    }


def show_points(console: Console, points: Sequence[dict[str, Any]]) -> None:
    """Print the points as a table; the last one that has a core for each worker is marked."""
    cores = real_cores()
    table = make_table(*points[0], "")
    for cells in points:
        shown = [f"{cell:,}" if isinstance(cell, (int, float)) else cell for cell in cells.values()]
        table.add_row(*shown, _mark(cells["workers"], cores))
    console.print(table)


def _mark(workers: int, cores: int) -> str:
    if workers == cores:
        return f"<- as many as there are cores: {cores}"
    return "more than cores" if workers > cores else ""


def benchmark_markdown(options: BenchmarkOptions, points: Sequence[Point], folder: Path) -> str:
    """Write what a page in Prefect shows of it; paths come from strangers, and stay text."""
    names = list(point_cells(points[0]))
    lines = [
        f"Loaders over {_code(options.source)}"
        + (f" and over the chunks in {_code(options.chunks)}" if options.chunks else ""),
        "",
        f"{machine()}. Medians of {options.repeats} passes; spread is from the slowest to the fastest.",
        f"Raw times and plots: {_code(str(folder.absolute()))} on {_code(os.uname().nodename)}.",
        "",
        "| " + " | ".join(names) + " |",
        "|" + "---|" * len(names),
        *("| " + " | ".join(str(cell) for cell in point_cells(point).values()) + " |" for point in points),
    ]
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{printable(text).replace('`', chr(39))}`"
