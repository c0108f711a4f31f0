"""Verifying a published set against a bare hash pass over the same files, both on all cores.

Usage: python -m tests.benchmarks.verify [--out FILE] [--mb 1000] [--repeats 5]

The two take turns; files are in the page cache, so it is the hashing that counts, not the disk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenshard.adapters.local_store import LocalStore
from evenshard.core.plan import Mode
from evenshard.inspection import verify
from evenshard.planning import Request
from tests.benchmarks.record import write
from tests.support.rows_set import append_rows
from tests.support.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Callable

ROW_BYTES = 1_000_000
LIMIT = 2.0
"""Seconds of a verification / seconds of a bare pass, at most."""


def bare_pass(folder: Path) -> None:
    """Hash every chunk, several at once."""
    chunks = sorted(folder.glob("chunk-*"))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(_hash, chunks))


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def seconds_of(act: Callable[[], object]) -> float:
    """Time one act."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


def measure(folder: Path, *, num_mb: int, repeats: int) -> dict[str, Any]:
    """Make a set of so many megabytes, and time both in turns."""
    for number in range(num_mb // 50):
        columns = {"row": list(range(50)), "data": [os.urandom(ROW_BYTES) for _ in range(50)]}
        write_table(folder / f"t/{number:04d}.parquet", columns, row_group_size=10)
    append_rows(folder / "t", folder / "set", Request(transform="rows", rows_per_slice=100, mode=Mode.APPEND))
    times = [
        (seconds_of(lambda: bare_pass(folder / "set")), seconds_of(lambda: verify(LocalStore(folder / "set"))))
        for _ in range(repeats)
    ]
    ratios = sorted(ours / bare for bare, ours in times)
    return {
        "mb": sum(path.stat().st_size for path in (folder / "set").glob("chunk-*")) // 1_000_000,
        "seconds_bare_and_verify": times,
        "ratio_median": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--mb", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), num_mb=given.mb, repeats=given.repeats)
    limits = {"seconds of a verification / those of a bare pass": (figures["ratio_median"], LIMIT)}
    write(given.out, figures, limits=limits)


if __name__ == "__main__":
    main()
