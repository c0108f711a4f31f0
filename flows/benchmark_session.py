"""A benchmark started from the command line: Prefect started if need be, passes shown, the table printed."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evenshard.core.source_address import shown
from evenshard.loader_benchmark import check_out, check_sources
from flows.config import quiet_prefect
from flows.console import make_console, printable
from flows.session import start_prefect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from flows.benchmark import Standing
    from flows.benchmark_config import BenchmarkOptions


def run_benchmark(options: BenchmarkOptions) -> None:
    """Run the flow `benchmark-loader` and show it to a person.

    Raises:
        EvenshardError: whatever made it fail.
    """
    console = make_console()
    check_out(Path(options.out))
    quiet_prefect()
    wait_until_ready = start_prefect(console)
    check_sources(options.sources)
    wait_until_ready()
    from flows.benchmark import WATCHER, benchmark_loader  # noqa: PLC0415 - Prefect's settings come first
    from flows.benchmark_report import show_points  # noqa: PLC0415 - see above

    with _passes_shown(console) as watch:
        token = WATCHER.set(watch)
        try:
            result = benchmark_loader(**options.model_dump(exclude_unset=True))
        finally:
            WATCHER.reset(token)
    show_points(console, result["points"])
    console.print(printable(f"evenshard: {', '.join(result['files'])} are in {shown(result['folder'])}"))


@contextmanager
def _passes_shown(console: Console) -> Iterator[Callable[[Standing], None]]:
    """Show passes as they come: a line for each, and on a terminal a bar."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("passes", total=None)

        def watch(standing: Standing) -> None:
            if standing.last is not None:
                rate, took = standing.last.samples_per_second, standing.last.load_seconds
                console.print(f"evenshard: {standing.told_last}: {rate:,.0f} samples/s in {took:.1f} s")
            bar.update(task, total=standing.planned, completed=standing.done, description=standing.told_current)

        yield watch
