"""The peer of the loader's benchmark: how the loader that ours grew from does its work, in other words.

One worker process reads one archive at a time with `tarfile` and puts each document into a queue of its own; whoever
iterates draws a queue at random, each with the same chance, and takes its next document.
"""

from __future__ import annotations

import codecs
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from tarfile import TarFile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_queues: list[Any] = []


def read_archive(path: str) -> Iterator[tuple[tuple[int, int], tuple[str, str], str]]:
    """Read all documents of one archive."""
    make_reader = codecs.getreader("utf-8")
    with TarFile(path) as outer:
        for i, member in enumerate(outer.getmembers()):
            packed = outer.extractfile(member)
            with TarFile.xzopen(member.name, fileobj=packed) as inner:
                for j, entry in enumerate(inner):
                    file = inner.extractfile(entry)
                    if file is None:
                        raise TypeError(f"{entry.name} is no file")
                    yield (i, j), (Path(member.name).name, entry.name), make_reader(file).read()


def _inherit(queues: list[Any]) -> None:
    _queues[:] = queues


def _produce(worker: int, path: str) -> int:
    queue, count = _queues[worker], 0
    for sample in read_archive(path):
        queue.put(sample)
        count += 1
    queue.put(None)
    queue.join()
    return count


class QueueLoader:
    """Merges the documents of archives that worker processes read.

    Args:
        paths: of the archives, at least as many as workers.
        num_workers: processes.
        prefetch: documents that a queue holds at most.
    """

    def __init__(self, paths: Sequence[str], num_workers: int, prefetch: int = 2048) -> None:
        self._left = list(paths)
        self._num_workers = num_workers
        self._prefetch = prefetch
        self._random = np.random.RandomState()

    def __iter__(self) -> Iterator[Any]:
        """Give all documents once."""
        queues: list[Any] = [multiprocessing.JoinableQueue(self._prefetch) for _ in range(self._num_workers)]
        with ProcessPoolExecutor(self._num_workers, initializer=_inherit, initargs=(queues,)) as pool:
            futures: dict[int, Future[int]] = {}
            for worker in range(self._num_workers):
                futures[worker] = pool.submit(_produce, worker, self._left.pop(0))
            open_queues = list(futures)
            while open_queues:
                worker = self._random.choice(open_queues)
                sample = queues[worker].get()
                queues[worker].task_done()
                if sample is not None:
                    yield sample
                elif self._left:
                    futures[worker].result()
                    futures[worker] = pool.submit(_produce, worker, self._left.pop(0))
                else:
                    open_queues.remove(worker)
