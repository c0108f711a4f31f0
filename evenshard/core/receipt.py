"""The receipt: the record that a slice is finished. What has no receipt is not there."""

from __future__ import annotations

from dataclasses import dataclass

from evenshard.core.outcome import Counts
from evenshard.core.recipe import SampleSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One output file, immutable once written.

    Args:
        name: inside the data set folder.
        num_samples: as its header says.
        num_bytes: of the whole file.
        sha256: of the whole file, hex.
    """

    name: str
    num_samples: int
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomesPart:
    """The Parquet file with one outcome for each row of a slice."""

    name: str
    num_rows: int
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Written once, when all of a slice's files are in the store; equal work gives an equal receipt.

    Args:
        fingerprint: of the plan that the slice belongs to.
        generation: of that plan.
        slice_index: position in that plan.
        rank: whose shard the slice belongs to.
        start, stop: half-open range of global row numbers.
        counts: rows by what became of them.
        chunks: in row order; none if no row was stored.
        outcomes: where each row's outcome is.
        schema: shape of the samples; None if there are none and the plan declares none.
    """

    fingerprint: str
    generation: int
    slice_index: int
    rank: int
    start: int
    stop: int
    counts: Counts
    chunks: tuple[Chunk, ...]
    outcomes: OutcomesPart
    schema: SampleSchema | None

    @property
    def num_samples(self) -> int:
        """Samples in all chunks of the slice."""
        return sum(chunk.num_samples for chunk in self.chunks)
