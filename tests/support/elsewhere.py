"""What tests have another process do; it imports little, so that a new process starts soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenshard import ChunkLoader, ChunkReader


def sum_rows(reader: ChunkReader, answers: Any) -> None:  # noqa: ANN401 - a queue of any context
    """Add up the numbers of all samples."""
    answers.put(sum(sample["row"] for sample in reader))


def send_places(loader: ChunkLoader, answers: Any) -> None:  # noqa: ANN401 - a queue of any context
    """Send where the samples of an epoch are."""
    answers.put([place for place, _, _ in loader])
