"""One loader from its first sample to its last one, measured: a program, so that each pass has its own processes.

Usage: python -P -m evenshard.load {archives,chunks} SOURCE [--workers N] [--samples N] [--prefetch N] [--buffer N]

Prints one line of JSON: samples, bytes of text, seconds and CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from evenshard.core.errors import EvenshardError
from evenshard.core.timing import Kind
from evenshard.mixing import shuffle, take

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAMPLES = 500_000
PREFETCH = 2048
BUFFER = 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; what the loader refuses, or cannot read, is one line and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m evenshard.load", description="Time one pass of a loader.")
    parser.add_argument("kind", choices=list(map(str, Kind)))
    parser.add_argument("source")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="at most")
    parser.add_argument("--prefetch", type=int, default=PREFETCH)
    parser.add_argument("--buffer", type=int, default=BUFFER, help="of the shuffle behind the loader; 0 leaves it out")
    given = parser.parse_args(arguments)
    try:
        made = _loader(Kind(given.kind), given.source, num_workers=given.workers, prefetch=given.prefetch)
        measured = measure(made, num_samples=given.samples, buffer_size=given.buffer)
    except (EvenshardError, OSError) as error:
        sys.exit(f"evenshard: {error}")
    sys.stdout.write(json.dumps(measured) + "\n")


def measure(loader: Any, *, num_samples: int, buffer_size: int) -> dict[str, Any]:  # noqa: ANN401 - of either kind
    """Take samples from a loader until they end; gives what it took.

    Args:
        loader: of texts, or of any samples; of those that are no texts, no bytes are counted.
        num_samples: at most.
        buffer_size: of the shuffle behind it; 0 leaves it out.
    """
    before, start = _cpu_seconds(), time.perf_counter()
    samples = iter(loader)
    taken = _count(take(shuffle(samples, buffer_size) if buffer_size else samples, num_samples))
    samples.close()  # its workers end here, and with that their time is known
    return {
        "num_samples": taken[0],
        "num_bytes": taken[1],
        "load_seconds": time.perf_counter() - start,
        "cpu_seconds": _cpu_seconds() - before,
    }


def _count(samples: Iterable[Any]) -> tuple[int, int]:
    number = num_bytes = 0
    for sample in samples:
        number += 1
        text = sample[2]
        num_bytes += len(text) if text.isascii() else len(text.encode())
    return number, num_bytes


_BOTH = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in _BOTH]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _loader(kind: Kind, source: str, *, num_workers: int, prefetch: int) -> Any:  # noqa: ANN401 - of either kind
    if kind is Kind.ARCHIVES:
        from evenshard.loader import OpenWebTextLoader  # noqa: PLC0415 - only what is measured is imported
        from evenshard.text_planning import find_archives  # noqa: PLC0415 - see above

        return OpenWebTextLoader([file.path for file in find_archives(source)], num_workers, prefetch)
    from evenshard.chunk_loader import ChunkLoader  # noqa: PLC0415 - see above

    return ChunkLoader(source, num_workers, prefetch)


if __name__ == "__main__":
    main()
