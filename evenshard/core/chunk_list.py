"""The chunks of a published state, and which sample is where; numbers for each chunk, none for each sample."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from evenshard.core.receipt import Chunk

RUN_BYTES: Final = 2**20
RUN_SAMPLES: Final = 256
"""About as much, and at most as many, is read at once of samples that follow each other: enough that asking for it
does not count, and so little that the samples in a pool come from many places."""


class Run(NamedTuple):
    """Samples that follow each other in one chunk: positions [start, stop)."""

    chunk: int
    start: int
    stop: int


class ChunkList:
    """Names and sizes of chunks, in the order of their samples.

    Args:
        chunks: as the manifest has them.

    Raises:
        ValueError: no chunks can have such sizes.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        if any(chunk.num_samples < 0 or chunk.num_bytes < 0 for chunk in chunks):
            raise ValueError("a chunk cannot have fewer than no samples, or bytes")
        self.names = tuple(chunk.name for chunk in chunks)
        self.num_bytes = array("Q", (chunk.num_bytes for chunk in chunks))
        self.digest = sha256("\n".join(chunk.sha256 for chunk in chunks).encode()).hexdigest()
        """Of all content, wherever it lies."""
        self._sample_starts = _added_up(chunk.num_samples for chunk in chunks)
        self._run_starts = _added_up(map(_runs_in, chunks))

    @property
    def num_samples(self) -> int:
        """Samples of all chunks."""
        return self._sample_starts[-1]

    @property
    def num_runs(self) -> int:
        """Runs of all chunks."""
        return self._run_starts[-1]

    def samples_in(self, chunk: int) -> int:
        """Give the samples of one chunk."""
        return self._sample_starts[chunk + 1] - self._sample_starts[chunk]

    def locate(self, index: int) -> tuple[int, int]:
        """Give chunk and position in it of a sample.

        Raises:
            IndexError: there is no such sample.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"sample {index} is out of range [0, {self.num_samples})")
        chunk = bisect_right(self._sample_starts, index) - 1
        return chunk, index - self._sample_starts[chunk]

    def runs_of(self, chunk: int) -> Iterator[Run]:
        """Give the runs of one chunk, in order."""
        return map(self.run, range(self._run_starts[chunk], self._run_starts[chunk + 1]))

    def run(self, number: int) -> Run:
        """Give a run by its number. Those of a chunk differ by at most one sample; none is empty."""
        chunk = bisect_right(self._run_starts, number) - 1
        first, count = self._run_starts[chunk], self._run_starts[chunk + 1] - self._run_starts[chunk]
        num_samples, k = self.samples_in(chunk), number - first
        return Run(chunk, k * num_samples // count, (k + 1) * num_samples // count)


def _runs_in(chunk: Chunk) -> int:
    wanted = max(-(-chunk.num_bytes // RUN_BYTES), -(-chunk.num_samples // RUN_SAMPLES))
    return min(wanted, chunk.num_samples)


def _added_up(numbers: Iterable[int]) -> array[int]:
    return array("Q", accumulate(numbers, initial=0))
