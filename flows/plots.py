"""Plots of benchmarks, as PNG and SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from evenshard.core.timing import Kind
from flows.benchmark_report import real_cores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from evenshard.core.timing import Point

NAMES: Final = ("throughput.png", "throughput.svg")
TITLES: Final = {Kind.ARCHIVES: "OpenWebTextLoader, from archives", Kind.CHUNKS: "ChunkLoader, from their chunks"}


def write_plots(folder: Path, points: Sequence[Point], *, caption: str) -> tuple[str, ...]:
    """Draw samples/s against workers, a panel for each kind; gives the names of the files.

    Args:
        folder: that holds the timings.
        points: sorted by kind and workers.
        caption: what they were measured on.
    """
    kinds = sorted({point.kind for point in points})
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "evenshard", "text.usetex": False}):
        figure = Figure(figsize=(7.5, 1 + 3.1 * len(kinds)), layout="constrained")
        for axes, kind in zip(figure.subplots(len(kinds), squeeze=False)[:, 0], kinds, strict=True):
            _draw(axes, [point for point in points if point.kind is kind])
            axes.set_title(TITLES[kind], loc="left", fontsize=11)
        figure.supxlabel(caption, fontsize=8, color="0.35")
        for name in NAMES:
            given = {"metadata": {"Date": None}} if name.endswith(".svg") else {"dpi": 150}
            figure.savefig(folder / name, **given)
    return NAMES


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    workers, medians = [point.num_workers for point in points], [point.samples_per_second for point in points]
    below = [point.samples_per_second - point.slowest for point in points]
    above = [point.fastest - point.samples_per_second for point in points]
    axes.errorbar(workers, medians, yerr=[below, above], marker="o", capsize=3, color="C0")
    cores = real_cores()
    if cores <= max(workers):
        axes.axvline(cores, color="0.5", linestyle="--", linewidth=1, zorder=0)
        axes.annotate(
            f"{cores} cores", (cores, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
            textcoords="offset points", fontsize=8, color="0.35",
        )  # fmt: skip
    axes.set_xticks(workers)
    axes.set_xlabel("workers")
    axes.set_ylabel("samples/s, median and range")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
