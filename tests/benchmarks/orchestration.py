"""What it costs to have slices done by an engine, beside the slices themselves; by slice, by lot, in memory.

Usage: python -m tests.benchmarks.orchestration [--out FILE] [--quick] [--engines threads processes dask ray]

The job that counts has 100 slices of 2,048 rows at 100 rows/s per core: 20.48 s a slice. Orchestration costs by the
slice and by the lot, and not by their length, so it is measured on slices that sleep for a shorter while (`--seconds`),
as what is left of the wall time when the same slices, done by bare threads without Prefect or engine, are taken off;
and set against the 20.48 s. What does grow with the length, the reports of progress, is in the second measurement:
real slices (links on loopback, pictures of 60 kB) on an engine against the same on bare workers, in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil

import flows  # noqa: F401 - makes Prefect's settings before its first import
from evenshard.adapters.local_store import LocalStore
from evenshard.clients import Clients
from evenshard.destination import claim
from evenshard.planning import Request, make_plan
from evenshard.slices import RunSettings, make_job
from evenshard.worker import SliceWorker
from evenshard.workers import ProcessWorker, Workers
from flows.config import RunOptions, parse, quiet_prefect
from tests.benchmarks.record import write
from tests.support.pictures import jpeg
from tests.support.tables import link_columns, plain_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from evenshard.core.plan import Plan
    from flows.runners import Engine

SLICE_SECONDS = 2048 / 100
"""One slice of the job that counts."""
NUM_SLICES = 100
NUM_WORKERS = 2
LIMIT = 0.05
BYTES_PER_SLICE = 20_000
SECONDS = "EVENSHARD_BENCHMARK_SECONDS"


class Sleeps:
    """Takes its time over each slice, and costs nothing else."""

    fields: ClassVar = {"row": "int"}

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield each row."""
        time.sleep(float(os.environ.get(SECONDS, "0")))
        yield from ({"row": row} for row in frame["row"])


def planned(source: Path, destination: Path, request: Request) -> tuple[Plan, RunSettings]:
    """Plan a table, and claim a destination for it."""
    plan = make_plan(str(source), request)
    claim(LocalStore(destination), plan)
    options = RunOptions(destination=str(destination), allow_hosts=["127.0.0.1"], per_host=64, timeout=60)
    return plan, options.settings()


def on_engine(jobs: list[tuple[Plan, RunSettings]], engine: str, *, max_lots: int) -> dict[str, float]:
    """Map the slices of plans on an engine, as the flow does; gives the seconds of each stage, and this process's CPU.

    Those of mapping, and the CPU, are the last plan's; the one before it warms the workers up, which is told apart.
    """
    from prefect import flow, unmapped  # noqa: PLC0415 - after its settings

    from flows.progress import Tracker  # noqa: PLC0415 - the same
    from flows.runners import engine as start  # noqa: PLC0415
    from tasks.lots import LotRunner, run_lot  # noqa: PLC0415

    given = {"destination": jobs[0][1].destination, "engine": engine, "engine_workers": NUM_WORKERS}
    options = parse(RunOptions, given)
    stages: dict[str, float] = {}

    def map_slices(plan: Plan, settings: RunSettings, running: Engine) -> None:
        began, cpu = time.monotonic(), time.process_time()
        lots, report = list(plan.lots(max_lots=max_lots)), Tracker(plan.num_rows, lambda _: None).add
        runner = LotRunner(plan, settings.shared_out(running.num_processes), running.workers, report=report)
        for future in running.runner.map(run_lot, {"lot": lots, "runner": unmapped(runner)}):
            future.result()
        stages.update(warm=stages.get("map", 0.0), lots=len(lots))
        stages.update(map=time.monotonic() - began, cpu=time.process_time() - cpu)

    @flow(name="benchmark")
    def mapped() -> None:
        began = time.monotonic()
        with start(options) as running:
            stages["start"] = time.monotonic() - began
            for plan, settings in jobs:
                map_slices(plan, settings, running)
            done = time.monotonic()
        stages["end"] = time.monotonic() - done

    mapped()
    return stages


def on_bare_workers(jobs: list[tuple[Plan, RunSettings]], *, processes: bool) -> float:
    """Do the slices of plans on threads, or processes, with nothing else around; gives the seconds of the last."""
    with ExitStack() as ends:
        clients = ends.enter_context(Clients())
        workers = ends.enter_context(Workers(ProcessWorker if processes else lambda: SliceWorker(clients)))
        pool = ends.enter_context(ThreadPoolExecutor(NUM_WORKERS))
        for plan, settings in jobs:
            began = time.monotonic()
            share, fingerprint = settings.shared_out(NUM_WORKERS if processes else 1), plan.fingerprint
            slices = (make_job(plan, index, share, fingerprint=fingerprint) for index in range(plan.num_slices))
            list(pool.map(lambda job: workers.run(job, lambda _: None), slices))
        return time.monotonic() - began


def sleeping(folder: Path, engines: list[str], *, seconds: float) -> dict[str, Any]:
    """Measure slices that sleep: in as many lots as slices, and in ten."""
    os.environ[SECONDS] = str(seconds)
    source = write_table(folder / "t.parquet", plain_columns(NUM_SLICES))
    request = Request(transform=f"{__name__}:Sleeps", rows_per_slice=1)
    if __name__ == "__main__":
        request = Request(transform="tests.benchmarks.orchestration:Sleeps", rows_per_slice=1)
    few_rows = write_table(folder / "few.parquet", plain_columns(NUM_WORKERS))

    def jobs(name: str) -> list[tuple[Plan, RunSettings]]:
        return [planned(few_rows, folder / f"{name}-warm", request), planned(source, folder / name, request)]

    bare = on_bare_workers(jobs("bare"), processes=False)
    found: dict[str, Any] = {"seconds_a_slice_sleeps": seconds, "bare_threads_seconds": round(bare, 3)}
    for engine in engines:
        many = on_engine(jobs(f"{engine}-many"), engine, max_lots=NUM_SLICES)
        few = on_engine(jobs(f"{engine}-few"), engine, max_lots=10)
        found[engine] = overheads(many, few, bare=bare)
    return found


def overheads(many: dict[str, float], few: dict[str, float], *, bare: float) -> dict[str, Any]:
    """Part the cost into what a slice and what a lot adds, and set it against the job that counts.

    Wall milliseconds are those of one warm worker, which waits for both; the share has cold ones, start and end in.
    """
    per_lot = (many["map"] - few["map"]) * NUM_WORKERS / (many["lots"] - few["lots"])
    all_lots = (many["map"] - bare) * NUM_WORKERS / NUM_SLICES
    over = many["start"] + many["warm"] + many["map"] - bare + many["end"]
    whole = NUM_SLICES * SLICE_SECONDS / NUM_WORKERS
    return {
        "start_seconds": round(many["start"] + many["warm"], 2),
        "end_seconds": round(many["end"], 2),
        "ms_per_lot": round(per_lot * 1000, 2),
        "ms_per_slice": round((all_lots - per_lot) * 1000, 2),
        "flow_cpu_ms_per_lot_of_one_slice": round(many["cpu"] / many["lots"] * 1000, 2),
        "share_of_100_slices_of_20_s": round(over / (whole + over), 4),
        "stages": {name: {key: round(value, 3) for key, value in each.items()} for name, each in
                   (("many lots", many), ("few lots", few))},
    }  # fmt: skip


def real(folder: Path, engines: list[str], *, slices: int, rows: int, repeats: int) -> dict[str, Any]:
    """Measure slices of links: each engine against bare workers, both warm, in turns."""
    picture = jpeg(1000, 750, quality=80)
    found: dict[str, Any] = {"slices": slices, "rows_per_slice": rows, "bytes_per_picture": len(picture)}
    with served(picture) as address:
        links = [f"{address}/{row}.jpg" for row in range(slices * rows)]
        source = write_table(folder / "links.parquet", link_columns(links))
        few = write_table(folder / "few.parquet", link_columns(links[: 2 * NUM_WORKERS]))

        def jobs(place: Path) -> list[tuple[Plan, RunSettings]]:
            warm = planned(few, place / "warm", Request(rows_per_slice=1))
            return [warm, planned(source, place / "set", Request(rows_per_slice=rows))]

        for engine in engines:
            turns = []
            for turn in range(repeats):
                bare = on_bare_workers(jobs(folder / f"{engine}-{turn}-bare"), processes=engine != "threads")
                ours = on_engine(jobs(folder / f"{engine}-{turn}"), engine, max_lots=300)["map"]
                turns.append({"bare": round(bare, 3), "engine": round(ours, 3)})
            ratios = sorted(turn["engine"] / turn["bare"] for turn in turns)
            found[engine] = {"turns": turns, "ratio_median": round(statistics.median(ratios), 3)}
    return found


@contextmanager
def served(picture: bytes) -> Iterator[str]:
    """Serve a picture at every path."""
    with Web(lambda _: Answer(body=picture)) as web:
        yield web.address


def memory(folder: Path, engines: list[str], *, slices: int) -> dict[str, Any]:
    """Run very many tiny slices, and see how much their orchestration grows between a fifth of them and all."""
    source = write_table(folder / "many.parquet", plain_columns(slices))
    found: dict[str, Any] = {"slices": slices}
    for engine in engines:
        began = time.monotonic()
        seen = growth(source, folder / f"many-{engine}", engine)
        grown = (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])
        found[engine] = {"bytes_per_slice": round(grown), "seconds": round(time.monotonic() - began, 1)}
    return found


def orchestration_bytes() -> int:
    """Add up the resident bytes of this process and of the one that holds a cluster."""
    process = psutil.Process()
    held = [each for each in process.children() if "evenshard.cluster" in each.cmdline()]
    return sum(each.memory_info().rss for each in [process, *held])


def growth(source: Path, destination: Path, engine: str) -> list[tuple[int, int]]:
    """Ingest a table, a slice for each row; gives (slices done, resident bytes) from a fifth of the way on."""
    from flows.ingest import ingest  # noqa: PLC0415 - after Prefect's settings
    from flows.progress import LISTENER, Snapshot  # noqa: PLC0415 - the same

    seen: list[tuple[int, int]] = []

    def listen(snapshot: Snapshot) -> None:
        if snapshot.num_ended * 5 >= snapshot.planned:
            seen.append((snapshot.num_ended, orchestration_bytes()))
            del seen[1:-1]

    token = LISTENER.set(listen)
    try:
        options = {"transform": "rows", "rows_per_slice": 1, "engine": engine, "engine_workers": NUM_WORKERS}
        ingest(source=str(source), destination=str(destination), **options)
    finally:
        LISTENER.reset(token)
    return seen


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few minutes; the limits are of the whole form")
    parser.add_argument("--engines", nargs="+", default=["threads", "processes", "dask", "ray"])
    parser.add_argument("--seconds", type=float, help="how long a slice sleeps; 1 by default, 0.1 with --quick")
    given = parser.parse_args()
    quiet_prefect()
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415 - after Prefect's settings

    quick, engines = given.quick, given.engines
    with tempfile.TemporaryDirectory() as name, prefect_test_harness(server_startup_timeout=180):
        folder = Path(name)
        figures = {
            "sleeping": sleeping(folder, engines, seconds=given.seconds or (0.1 if quick else 1.0)),
            "real": real(folder, engines, slices=4 if quick else 16, rows=64 if quick else 256,
                         repeats=1 if quick else 3),
            "memory": memory(folder, engines, slices=500 if quick else 5_000),
        }  # fmt: skip
    shares = {
        f"share of 100 slices of 20.48 s, {each}": (figures["sleeping"][each]["share_of_100_slices_of_20_s"], LIMIT)
        for each in engines
    }
    real_limits = {
        f"real slices on {each} / on bare workers": (figures["real"][each]["ratio_median"], 1 + LIMIT)
        for each in engines
    }
    grown = {
        f"bytes per slice, {each}": (float(figures["memory"][each]["bytes_per_slice"]), float(BYTES_PER_SLICE))
        for each in engines
    }
    write(given.out, figures, limits={**shares, **({} if quick else real_limits), **grown})


if __name__ == "__main__":
    main()
