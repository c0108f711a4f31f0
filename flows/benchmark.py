"""The flow `benchmark-loader`: documents/s of the loaders over a grid of workers, as a file, a plot and artifacts."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.logging import get_run_logger

from evenshard.core.timing import Pass, Point, points_of
from evenshard.loader_benchmark import TIMINGS, PlannedPass, check_sources, plan_passes, timings_file
from flows.benchmark_config import BenchmarkOptions, check_extra
from flows.benchmark_report import benchmark_markdown, machine, point_cells
from flows.config import takes
from tasks.measure import measure_pass

if TYPE_CHECKING:
    from collections.abc import Callable

ARTIFACT = "benchmark-loader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a benchmark is.

    Args:
        planned: passes, with those to warm up.
        done: those that have ended.
        current: the one at work; None at the end.
        last: what the last one took.
    """

    planned: int
    done: int
    current: PlannedPass | None
    last: Pass | None = None

    @property
    def told_current(self) -> str:
        """Name the pass at work."""
        return _told(self.current) if self.current else "done"

    @property
    def told_last(self) -> str:
        """Name the one that has ended."""
        return _told(self.last) if self.last else ""


def _told(each: PlannedPass | Pass) -> str:
    workers = "1 worker" if each.num_workers == 1 else f"{each.num_workers} workers"
    return f"{each.kind}, {workers}, {f'pass {each.repeat}' if each.repeat else 'to warm up'}"


WATCHER: ContextVar[Callable[[Standing], None] | None] = ContextVar("WATCHER", default=None)
"""Told of each pass as it begins, and of the end."""


@flow(name="benchmark-loader", version=version("evenshard"), flow_run_name="benchmark-{source}")
@takes(BenchmarkOptions)
def benchmark_loader(options: BenchmarkOptions) -> dict[str, Any]:
    """Measure the loader of archives, and of the chunks made from them, with each number of workers.

    Returns the folder, and for each kind and number of workers the medians. Fails at the first pass that fails; the
    times before it stay in `timings.csv`.
    """
    check_extra()
    from flows.plots import write_plots  # noqa: PLC0415 - of the extra; a deployment must be there without it

    check_sources(options.sources)
    planned = plan_passes(
        options.sources,
        workers=options.workers,
        repeats=options.repeats,
        warm_ups=options.warm_ups,
        num_samples=options.samples,
        prefetch=options.prefetch,
        buffer_size=options.buffer,
    )
    folder = Path(options.out)
    points = points_of(_measure(planned, folder))
    files = [TIMINGS, *write_plots(folder, points, caption=machine())]
    _publish(options, points, folder)
    get_run_logger().info("%s are in %s", ", ".join(files), folder.absolute())
    return {"folder": str(folder.absolute()), "files": files, "points": [point_cells(point) for point in points]}


def _measure(planned: list[PlannedPass], folder: Path) -> list[Pass]:
    passes, watch = [], WATCHER.get() or (lambda _: None)
    with timings_file(folder) as write:
        last = None
        for done, each in enumerate(planned):
            watch(Standing(planned=len(planned), done=done, current=each, last=last))
            last = measure_pass(each)
            if each.repeat:
                write(last)
                passes.append(last)
        watch(Standing(planned=len(planned), done=len(planned), current=None, last=last))
    return passes


def _publish(options: BenchmarkOptions, points: list[Point], folder: Path) -> None:
    text = benchmark_markdown(options, points, folder)
    create_table_artifact(table=[point_cells(point) for point in points], key=ARTIFACT, description=text)
    create_markdown_artifact(markdown=text, key=f"{ARTIFACT}-notes")
