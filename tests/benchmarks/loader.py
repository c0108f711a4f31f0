"""Documents per second, CPU per document and memory of the loader, against its peer and against bare liblzma.

Usage: python -m tests.benchmarks.loader [--out FILE] [--repeats 5] [--workers 2] [--corpus FOLDER]

Archives are made of the paragraphs of Python's own modules, in the shape of OpenWebText's: some 389 documents of 5 kB
in each packed member. They take turns, each in a process of its own: ours, the peer (`queue_loader`), and the
floor, which unpacks the same members one after another and throws them away, once with Python's `lzma` and once with
the liblzma that the loader decodes with. Distinct documents are counted. CPU is
that of the process and of all under it, from the first import of the loader to the end of the last worker.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import random
import resource
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.benchmarks.record import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = ("lzma", "liblzma", "evenshard", "queues")
"""The floor with Python's own module, and with the library that the loader decodes with; the loader; its peer."""
CPU_LIMIT = 1.4
"""Of the CPU of Python's `lzma`, that the loader may take."""
SPEED_LIMIT = 3.0
"""Times the peer's documents/s, that the loader gives at least."""


def paragraphs() -> list[str]:
    """Collect text that compresses as prose does, from what every machine with Python has."""
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [part for part in text.split("\n\n") if 80 < len(part) < 2_000]
    return found


def documents(rng: random.Random, pool: list[str], count: int) -> Iterator[bytes]:
    """Make documents of some 5 kB, most of them shorter and a few much longer."""
    for _ in range(count):
        wanted = min(50_000, rng.lognormvariate(8.15, 0.8))
        parts: list[str] = []
        while sum(map(len, parts)) < wanted:
            parts.append(rng.choice(pool))
        yield "\n\n".join(parts).encode()


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file to a tar."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def make(folder: Path, *, archives: int, members: int, count: int) -> list[str]:
    """Write the archives; gives their paths."""
    rng, pool, number, paths = random.Random(20), paragraphs(), 0, []
    for index in range(archives):
        paths.append(str(folder / f"subset{index:02d}.tar"))
        with tarfile.open(paths[-1], "w") as outer:
            for member in range(members):
                with io.BytesIO() as packed:
                    with tarfile.open(fileobj=packed, mode="w") as inner:
                        for data in documents(rng, pool, count):
                            add(inner, f"{number:07d}-{rng.getrandbits(128):032x}.txt", data)
                            number += 1
                    data = lzma.compress(packed.getvalue(), preset=3)
                add(outer, f"openwebtext/subset{index:02d}-{member}_data.xz", data)
    return paths


class Watch:
    """Reads the memory of all processes under this one, ten times a second."""

    def __init__(self) -> None:
        self.peak_mb: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                try:
                    memory = process.memory_full_info()
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
                self.peak_mb[process.pid] = max(self.peak_mb.get(process.pid, 0), memory.uss / 1e6)

    def __enter__(self) -> dict[int, float]:
        """Begin."""
        self._thread.start()
        return self.peak_mb

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()


def unpack(paths: list[str], decompress: Callable[[bytes], bytes] = lzma.decompress) -> int:
    """Do what no loader can do without; gives the number of bytes."""
    total = 0
    for path in paths:
        with tarfile.open(path) as outer:
            for info in outer:
                member = outer.extractfile(info)
                total += len(decompress(member.read())) if member else 0
    return total


def decompress_here(data: bytes) -> bytes:
    """Decode one stream with the library that the loader has."""
    from evenshard.adapters.xz import xz_decoder  # noqa: PLC0415 - only the one that is measured is imported

    decoder, found = xz_decoder(2**27), []
    while not decoder.eof:
        found.append(decoder.decompress(data, 2**16))
        data = b""
    return b"".join(found)


def read(name: str, paths: list[str], workers: int) -> int:
    """Read all documents once; gives how many distinct ones there were."""
    if name in ("lzma", "liblzma"):
        return unpack(paths, decompress_here if name == "liblzma" else lzma.decompress)
    samples: Any
    if name == "evenshard":
        from evenshard import OpenWebTextLoader  # noqa: PLC0415 - likewise

        samples = OpenWebTextLoader(paths, workers)
    else:
        from tests.benchmarks.queue_loader import QueueLoader  # noqa: PLC0415 - likewise

        samples = QueueLoader(paths, workers)
    return len({names for _, names, _ in samples})


def cell(name: str, paths: list[str], *, workers: int, watches: bool) -> dict[str, float]:
    """Measure one of them in this process."""
    began, before = time.perf_counter(), _cpu_seconds()
    peaks: dict[int, float] = {}
    if watches:
        with Watch() as peaks:
            count = read(name, paths, workers)
    else:
        count = read(name, paths, workers)
    return {
        "count": count,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": _cpu_seconds() - before,
        "worker_mb": max(peaks.values(), default=0.0),
        "parent_mb": _peak_mb(),
    }


def _peak_mb() -> float:
    """Give the most memory that this program held; `getrusage` would count what started it, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _in_own_process(name: str, paths: list[str], *, workers: int, watches: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.loader", "--cell", name, "--workers", str(workers)]
    command += ["--watch"] if watches else []
    done = subprocess.run([*command, *paths], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(paths: list[str], *, total: int, workers: int, repeats: int) -> dict[str, Any]:
    """Measure by turns; least, median and most of each figure, and the ratios of each turn."""
    turns = []
    for _ in range(repeats):
        turns.append({name: _in_own_process(name, paths, workers=workers) for name in NAMES})
        for name in NAMES[2:]:
            if turns[-1][name]["count"] != total:
                raise SystemExit(f"{name} gave {turns[-1][name]['count']} distinct documents of {total}")
    rows = []
    for name in NAMES:
        memory = _in_own_process(name, paths, workers=workers, watches=True)
        rows.append(
            {
                "who": name,
                "documents_per_second": _spread(total / turn[name]["seconds"] for turn in turns),
                "cpu_us_per_document": _spread(1e6 * turn[name]["cpu_seconds"] / total for turn in turns),
                "worker_peak_mb": round(memory["worker_mb"], 1),
                "parent_peak_mb": round(memory["parent_mb"], 1),
            }
        )
    return {
        "rows": rows,
        "cpu, evenshard / lzma": _spread(_ratio(turn, "evenshard", "lzma", "cpu_seconds") for turn in turns),
        "cpu, evenshard / liblzma": _spread(_ratio(turn, "evenshard", "liblzma", "cpu_seconds") for turn in turns),
        "cpu, queues / evenshard": _spread(_ratio(turn, "queues", "evenshard", "cpu_seconds") for turn in turns),
        "seconds, queues / evenshard": _spread(_ratio(turn, "queues", "evenshard", "seconds") for turn in turns),
    }


def _ratio(turn: dict[str, dict[str, float]], one: str, other: str, figure: str) -> float:
    return turn[one][figure] / turn[other][figure]


def _spread(values: Iterator[float]) -> list[float]:
    found = sorted(values)
    return [round(each, 3) for each in (found[0], statistics.median(found), found[-1])]


def main() -> None:
    """Run all, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--archives", type=int, default=4)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--documents", type=int, default=389)
    parser.add_argument("--corpus", type=Path, help="take the tars of this folder instead")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        found = cell(options.cell, options.paths, workers=options.workers, watches=options.watch)
        print(json.dumps(found))  # noqa: T201
        return
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        if options.corpus:
            paths = sorted(map(str, options.corpus.glob("*.tar")))
            total = int(_in_own_process("queues", paths, workers=options.workers)["count"])
        else:
            paths = make(Path(folder), archives=options.archives, members=options.members, count=options.documents)
            total = options.archives * options.members * options.documents
        packed_bytes = sum(Path(path).stat().st_size for path in paths)
        figures = {
            "corpus": options.corpus.name if options.corpus else "made of Python's own modules",
            "distinct documents": total,
            "archives": len(paths),
            "packed MB": round(packed_bytes / 1e6, 1),
            "text and headers MB": round(unpack(paths) / 1e6, 1),
            "workers": options.workers,
            "least, median and most of": options.repeats,
            **measured(paths, total=total, workers=options.workers, repeats=options.repeats),
            "load before and after": [load, os.getloadavg()],
        }
    limits = {
        "CPU of the loader / of Python's lzma, median": (figures["cpu, evenshard / lzma"][1], CPU_LIMIT),
        "seconds of the loader / of the peer, median": (1 / figures["seconds, queues / evenshard"][1], 1 / SPEED_LIMIT),
    }
    write(options.out, figures, limits=limits)


if __name__ == "__main__":
    main()
