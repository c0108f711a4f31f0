"""100 lots that have nothing to do: over Prefect's thread runner with a local Dask cluster, and over prefect-dask's.

Usage: python -m tests.benchmarks.runners [--out FILE] [--lots 100] [--repeats 3]

Needs prefect-dask, which nothing else here does: pip install prefect-dask in an environment that may be thrown away.
Ours do more: each lot has a worker of the cluster look for the receipt and the files of a slice that is done.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenshard.planning import Request
from flows.config import RunOptions, parse, quiet_prefect
from tests.benchmarks.orchestration import NUM_WORKERS, planned
from tests.benchmarks.record import write
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_of(map_lots: Callable[[int], list[Any]], num_lots: int) -> dict[str, float]:
    """Time so many lots, after a few that start the workers."""
    for future in map_lots(NUM_WORKERS):
        future.result()
    began = time.monotonic()
    futures = map_lots(num_lots)
    submitted = time.monotonic()
    for future in futures:
        future.result()
    return {"submitted": round(submitted - began, 3), "done": round(time.monotonic() - began, 3)}


def ours(folder: Path, num_lots: int) -> dict[str, float]:
    """Map lots of slices that are done."""
    from prefect import flow, unmapped  # noqa: PLC0415 - after its settings

    from flows.runners import engine  # noqa: PLC0415 - the same
    from tasks.lots import LotRunner, run_lot  # noqa: PLC0415

    source = write_table(folder / "t.parquet", plain_columns(NUM_WORKERS))
    plan, settings = planned(source, folder / "set", Request(transform="rows", rows_per_slice=1))
    options = parse(RunOptions, {"destination": settings.destination, "engine": "dask", "engine_workers": NUM_WORKERS})

    @flow(name="ours")
    def run() -> dict[str, float]:
        with engine(options) as running:
            runner = LotRunner(plan, settings, running.workers, report=lambda _: None)

            def map_lots(number: int) -> list[Any]:
                lots = [plan.lots()[index % NUM_WORKERS] for index in range(number)]
                return list(running.runner.map(run_lot, {"lot": lots, "runner": unmapped(runner)}))

            return seconds_of(map_lots, num_lots)

    return run()


def theirs(num_lots: int) -> dict[str, float]:
    """Map a task that does nothing."""
    from distributed import LocalCluster  # noqa: PLC0415 - a library of this case alone
    from prefect import flow, task  # noqa: PLC0415 - after its settings

    runner = import_module("prefect_dask").DaskTaskRunner

    @task
    def nothing(number: int) -> int:
        return number

    with LocalCluster(n_workers=NUM_WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:

        @flow(name="theirs", task_runner=runner(address=cluster.scheduler_address))
        def run() -> dict[str, float]:
            return seconds_of(lambda number: list(nothing.map(range(number))), num_lots)

        return run()


def main() -> None:
    """Measure in turns, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--lots", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    quiet_prefect()
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415 - after its settings

    with tempfile.TemporaryDirectory() as name, prefect_test_harness(server_startup_timeout=180):
        turns = [
            {"ours": ours(Path(name, str(turn)), given.lots), "prefect_dask": theirs(given.lots)}
            for turn in range(given.repeats)
        ]
    ratios = sorted(turn["prefect_dask"]["done"] / turn["ours"]["done"] for turn in turns)
    figures = {"lots": given.lots, "turns": turns, "ratio_median": round(statistics.median(ratios), 2)}
    write(given.out, {**figures, "ratios": [round(ratio, 2) for ratio in ratios]})


if __name__ == "__main__":
    main()
