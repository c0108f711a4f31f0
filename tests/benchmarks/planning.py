"""How long planning takes, and how large a plan is: 10^9 rows in 500,000 slices, and 10,000 real footers.

Usage: python -m tests.benchmarks.planning [--out FILE]
"""

from __future__ import annotations

import argparse
import gzip
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from evenshard.core.plan import Plan, Source
from evenshard.core.recipe import Column, Kind, Recipe
from evenshard.core.text import from_json, to_json
from evenshard.core.world import World
from evenshard.planning import Request, make_plan
from tests.benchmarks.record import write
from tests.support.tables import plain_columns, write_table

NUM_FILES = 10_000


def billion_rows() -> dict[str, Any]:
    """Plan 10^9 rows, look at every slice and its pieces, write the plan and read it back."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    sources = tuple(
        Source(path=f"/data/laion/part-{i:05d}.parquet", num_rows=100_000, num_bytes=10**7, version="1")
        for i in range(NUM_FILES)
    )
    recipe = Recipe(columns=(Column(name="url", kind=Kind.STR, required=True),), url_column="url")
    plan = Plan(sources=sources, world=World(num_nodes=10, workers_per_node=100), recipe=recipe, rows_per_slice=2000)
    made = time.perf_counter()
    rows = sum(piece.num_rows for each in plan.slices() for piece in plan.pieces(each.start, each.stop))
    walked = time.perf_counter()
    text = to_json(plan, indent=1)
    same = from_json(Plan, text).fingerprint == plan.fingerprint
    return {
        "rows": rows,
        "slices": plan.num_slices,
        "seconds_to_plan": round(made - began, 3),
        "seconds_to_plan_and_walk_every_piece": round(walked - began, 3),
        "plan_bytes": len(text),
        "plan_bytes_gzipped": len(gzip.compress(text)),
        "read_back_equal": same,
        "peak_growth_mb": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000, 1),
    }


def real_footers(repeats: int = 5) -> dict[str, Any]:
    """Plan a folder of 10,000 real files, several times; the first is after they were written, so they are cached."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(NUM_FILES):
            write_table(Path(folder, f"{number // 100:02d}/part-{number:05d}.parquet"), plain_columns(3))
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            plan = make_plan(folder, Request(caption_column="caption"))
            seconds.append(round(time.perf_counter() - began, 3))
    return {"files": len(plan.sources), "median_seconds": statistics.median(seconds), "all_seconds": seconds}


def main() -> None:
    """Run both cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    billion, footers = billion_rows(), real_footers()
    limits = {
        "seconds to plan 10^9 rows and walk every piece": (billion["seconds_to_plan_and_walk_every_piece"], 5.0),
        "MB that the process grew": (billion["peak_growth_mb"], 300.0),
        "bytes of the plan's file": (billion["plan_bytes"], 20_000_000),
        "seconds for 10,000 footers": (footers["median_seconds"], 15.0),
    }
    write(parser.parse_args().out, {"billion_rows": billion, "real_footers": footers}, limits=limits)


if __name__ == "__main__":
    main()
