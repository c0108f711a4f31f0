"""Memory of the whole process tree of a run: on 20,000 rows against 2,000.

Usage: python -m tests.benchmarks.memory [--out FILE] [--rows 2000 20000] [--engine processes]

Pictures come from a server in a process of its own, outside the tree. Memory is the sum of the processes'
proportional set sizes, so that shared pages count once; it is read every 0.2 s.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.benchmarks.record import write
from tests.support.pictures import jpeg
from tests.support.tables import plain_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def serve(connection: Connection) -> None:
    """Serve one picture of some 60 kB at every path, until the other end says stop."""
    picture = jpeg(1000, 750, quality=80)
    with Web(lambda _: Answer(body=picture)) as web:
        connection.send(web.address)
        connection.recv()


def tree_bytes(process: psutil.Process) -> int:
    """Add up the proportional set sizes of a process and all under it."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def run(address: str, folder: Path, *, num_rows: int, engine: str) -> dict[str, Any]:
    """Ingest a table of so many rows, and watch."""
    for part in range(4):
        count = num_rows // 4
        columns = plain_columns(count, start=part * count, address=address)
        write_table(folder / f"table/part-{part}.parquet", columns, row_group_size=500)
    command = [sys.executable, "-m", "flows.cli", "ingest", str(folder / "table"), str(folder / "set")]
    options = ["--engine", engine, "--engine-workers", "2", "--rows-per-slice", "500", "--caption-column", "caption"]
    options += ["--allow-host", "127.0.0.1"]
    began, seen = time.monotonic(), []
    child = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    while child.poll() is None:
        seen.append(tree_bytes(psutil.Process(child.pid)))
        time.sleep(0.2)
    if child.returncode:
        raise SystemExit(f"the run failed with {child.returncode}")
    seconds = time.monotonic() - began
    return {
        "rows": num_rows,
        "engine": engine,
        "peak_mb": round(max(seen) / 1e6, 1),
        "median_mb": round(sorted(seen)[len(seen) // 2] / 1e6, 1),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run both sizes on one server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, nargs=2, default=[2000, 20_000])
    parser.add_argument("--engine", default="processes")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    server.start()
    address = ours.recv()
    runs = []
    for num_rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run(address, Path(folder), num_rows=num_rows, engine=options.engine))
    ours.send(os.getpid())
    server.join()
    ratio = round(runs[1]["peak_mb"] / runs[0]["peak_mb"], 3)
    write(
        options.out, {"runs": runs, "peak_ratio": ratio}, limits={"peak of the longer run / the shorter": (ratio, 1.2)}
    )


if __name__ == "__main__":
    main()
