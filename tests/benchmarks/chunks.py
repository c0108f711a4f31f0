"""Documents per second over published chunks, against the loader that ours grew from, which reads archives.

Usage: python -m tests.benchmarks.chunks [--out FILE] [--repeats 5]

The documents are those of `tests.benchmarks.loader`; the same ones lie in archives and in a set of 64 MB chunks. All
take turns, each in a process of its own with one worker, from the page cache, and from the making of the loader to the
last document; over chunks, in the mean of eight passes, after one that opens the set (0.1 s). They are: the peer over
archives; the loader and the reader over chunks; and, over chunks too, what the loader could do instead: a thread that
reads ahead, and processes that read runs and send them. Then the same loader over a store that takes 20 ms for each
part, which is where threads pay.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenshard import ChunkLoader, ChunkReader, OpenWebTextLoader
from evenshard.adapters.litdata import encode_sample, group_samples, pack_chunk
from evenshard.adapters.local_store import LocalStore
from evenshard.chunk_loader import ChunkIterator
from tests.benchmarks.loader import make
from tests.benchmarks.queue_loader import QueueLoader
from tests.benchmarks.record import write
from tests.support.chunk_sets import TEXTS, store_packed
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from evenshard.core.chunk_list import Run
    from evenshard.core.run_epoch import RunEpoch
    from evenshard.epochs import Held

LEAST = 20
"""Times the peer's documents per second, that the loader is to reach."""
DELAY_SECONDS = 0.02
PASSES = 8


class SlowStore(MemoryStore):
    """The objects of a folder, each part of which takes its time, as over a network."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        local = LocalStore(folder)
        self.objects = {name: local.read(name) for name in local.names()}

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read a part, later."""
        time.sleep(DELAY_SECONDS)
        return super().read_range(name, start, stop)


def publish(paths: list[str], folder: Path) -> None:
    """Make a set of the documents of archives, in their order."""
    samples = (
        encode_sample([text.encode(), b"subset.tar", member.encode(), document.encode()])
        for _, (member, document), text in OpenWebTextLoader(paths, 2, prefetch=0, random_state=1)
    )
    groups = group_samples(samples, chunk_bytes=64_000_000)
    store_packed(LocalStore(folder), TEXTS, ((len(group), b"".join(pack_chunk(group))) for group in groups))


def by_number(folder: str) -> Iterator[Any]:
    """Read all samples by their number, in random order over the whole set."""
    reader = ChunkReader(folder)
    numbers = list(range(len(reader)))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        yield (), (number,), reader[number]


class ThreadLoader(ChunkLoader):
    """Has a thread read ahead, though chunks are mapped."""

    def _iterate(self, held: Held[RunEpoch]) -> ChunkIterator:
        return ChunkIterator(held, self.reader, num_threads=1)


class ProcessIterator(ChunkIterator):
    """Has processes read runs and send them."""

    def _start(self, epoch: RunEpoch) -> None:
        pool = multiprocessing.get_context("fork").Pool(self._num_threads, _inherit, (self._reader,))
        self._held.end_reading = pool.terminate
        self._runs = pool.imap(_read, epoch.runs_to_read())  # type: ignore[arg-type]  # bytes are as good


class ProcessLoader(ChunkLoader):
    """Likewise."""

    def _iterate(self, held: Held[RunEpoch]) -> ChunkIterator:
        return ProcessIterator(held, self.reader, num_threads=self.num_workers)


_readers: list[ChunkReader] = []


def _inherit(reader: ChunkReader) -> None:
    _readers.append(reader)


def _read(run: Run) -> tuple[Run, list[bytes]]:
    return run, [bytes(data) for data in _readers[0].read(run)]


CELLS: dict[str, tuple[int, Callable[[list[str], str], Iterable[Any]]]] = {
    "archives, queues": (0, lambda paths, _: QueueLoader(paths, 1)),
    "archives, evenshard": (0, lambda paths, _: OpenWebTextLoader(paths, 1)),
    "chunks, loader": (PASSES, lambda _, folder: ChunkLoader(folder, 1)),
    "chunks, reader by number": (PASSES, lambda _, folder: by_number(folder)),
    "chunks, loader with a thread": (PASSES, lambda _, folder: ThreadLoader(folder)),
    "chunks, loader with 1 process": (PASSES, lambda _, folder: ProcessLoader(folder, 1)),
    "chunks, loader with 2 processes": (PASSES, lambda _, folder: ProcessLoader(folder, 2)),
    "20 ms a part, loader without threads": (0, lambda _, folder: ChunkLoader(SlowStore(folder), 0)),
    "20 ms a part, loader with 8 threads": (0, lambda _, folder: ChunkLoader(SlowStore(folder), 8)),
}
"""Name to (passes, what makes the samples). One pass over archives takes many seconds, and is measured while distinct
documents are counted; one over chunks takes a fraction of one, so that some are measured after that."""


def cell(name: str, paths: list[str], folder: str) -> dict[str, float]:
    """Measure one of them in this process."""
    passes, make_samples = CELLS[name]
    began, used = time.perf_counter(), _cpu_seconds()
    count = len({names for _, names, _ in make_samples(paths, folder)})
    if passes:
        began, used = time.perf_counter(), _cpu_seconds()
        if passes * count != sum(1 for _ in range(passes) for _ in make_samples(paths, folder)):
            raise SystemExit(f"{name} gave another number of documents in another pass")
    status = Path("/proc/self/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return {
        "count": count,
        "seconds": (time.perf_counter() - began) / (passes or 1),
        "cpu_seconds": (_cpu_seconds() - used) / (passes or 1),
        "own_mb": own / 1e3,
    }


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def turn(paths: list[str], folder: str, *, total: int) -> dict[str, dict[str, float]]:
    """Measure each of them once."""
    found = {}
    for name in CELLS:
        command = [sys.executable, "-m", "tests.benchmarks.chunks", "--cell", name, "--folder", folder, *paths]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[name] = json.loads(done.stdout)
        if found[name]["count"] != total:
            raise SystemExit(f"{name} gave {found[name]['count']} distinct documents of {total}")
    return found


def _spread(values: Iterable[float]) -> list[float]:
    found = sorted(values)
    return [round(each, 3) for each in (found[0], statistics.median(found), found[-1])]


def figures_of(turns: list[dict[str, dict[str, float]]], *, total: int) -> dict[str, Any]:
    """Give least, median and most of each figure, and the ratios of each turn."""
    rows = [
        {
            "who": name,
            "documents_per_second": _spread(total / each[name]["seconds"] for each in turns),
            "cpu_us_per_document": _spread(1e6 * each[name]["cpu_seconds"] / total for each in turns),
            "memory of its own at the end, MB": _spread(each[name]["own_mb"] for each in turns),
        }
        for name in CELLS
    ]
    ratio = [each["archives, queues"]["seconds"] / each["chunks, loader"]["seconds"] for each in turns]
    best = [min(each[name]["seconds"] for each in turns) for name in ("archives, queues", "chunks, loader")]
    return {
        "rows": rows,
        "documents/s, chunks / queues": _spread(ratio),
        "documents/s, chunks / queues, the best of each": round(best[0] / best[1], 3),
    }


def main() -> None:
    """Run all, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(options.cell, options.paths, options.folder)))  # noqa: T201
        return
    with tempfile.TemporaryDirectory() as place:
        paths = make(Path(place), archives=4, members=options.members, count=389)
        folder, total = Path(place) / "set", 4 * options.members * 389
        publish(paths, folder)
        turns = [turn(paths, str(folder), total=total) for _ in range(options.repeats)]
        figures = {
            "distinct documents": total,
            "chunks": len(ChunkReader(folder).chunks),
            "chunks MB": round(sum(path.stat().st_size for path in folder.glob("chunk-*")) / 1e6, 1),
            "workers": 1,
            "least, median and most of": options.repeats,
            **figures_of(turns, total=total),
        }
    limits = {
        "20 x documents/s of the peer / those of the loader, median": (
            LEAST / figures["documents/s, chunks / queues"][1],
            1.0,
        )
    }
    write(options.out, figures, limits=limits)


if __name__ == "__main__":
    main()
