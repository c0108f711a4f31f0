"""Samples of a published set, handed out at random at the speed of memory."""

from __future__ import annotations

import os
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final

from evenshard.chunk_reader import ChunkReader
from evenshard.core.errors import UsageError
from evenshard.core.recipe import Container
from evenshard.core.run_epoch import ReadRun, RunEpoch
from evenshard.core.text_schema import TEXT_SCHEMA
from evenshard.epochs import EpochIterator, EpochLoader
from evenshard.read_ahead import ReadAhead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from evenshard.core.chunk_list import Run
    from evenshard.core.epoch import Sample
    from evenshard.core.recipe import SampleSchema
    from evenshard.core.store import Store
    from evenshard.epochs import Held

TEXT_FIELDS: Final = TEXT_SCHEMA.fields
"""What a sample of a set of texts has, in any order, and maybe more."""


class ChunkIterator(EpochIterator[RunEpoch]):
    """One epoch of a loader, or the rest of one.

    Args:
        held: what makes the epoch, when the first sample is asked for.
        reader: of the set.
        num_threads: who read ahead.
    """

    def __init__(self, held: Held[RunEpoch], reader: ChunkReader, *, num_threads: int) -> None:
        super().__init__(held)
        self._reader = reader
        self._num_threads = num_threads
        self._runs: Iterator[tuple[Run, list[memoryview]]] = iter(())
        self._make = sample_maker(reader)
        self._owner = os.getpid()

    def _start(self, epoch: RunEpoch) -> None:
        runs = ReadAhead(self._reader.read, epoch.runs_to_read(), num_threads=self._num_threads)
        self._held.end_reading = runs.close
        self._runs = runs

    def _add(self, epoch: RunEpoch) -> None:
        if self._owner != os.getpid():  # threads are not copied by a fork
            raise UsageError("an iterator belongs to the process that began it; call iter(loader) in this one")
        run, encoded = next(self._runs)
        samples = map(self._make, repeat(run.chunk), count(run.start), self._reader.decoded(run, encoded))
        epoch.add(ReadRun.of(run, samples, list(map(len, encoded))))


class ChunkLoader(EpochLoader[RunEpoch, ChunkIterator]):
    """The samples of a published set, with the interface of `OpenWebTextLoader`.

    Each `iter(loader)` is an epoch of its own, with every sample once, in an order that the seed and the number of the
    epoch decide, whatever the workers and the kind of store. In how far it is random: see `evenshard.core.drawing`; a
    place is a run of some 1 MiB and at most 256 samples that follow each other in a chunk, so that 2,048 texts of 5 kB
    are drawn from ten places of the set.

    Samples of a set of texts, whose fields include `text`, `archive`, `member` and `document` as texts, are what
    `OpenWebTextLoader` gives: `((i, j), (member, document), text)`, with the base name of the member; but `(i, j)` is
    where the sample is here: number of its chunk, and position in it. All others are what `ChunkReader` gives.

    Chunks of a folder are mapped into memory, and read by this process alone, whatever `num_workers` is: processes and
    threads were measured to cost more than they take off it (see `tests/benchmarks`). In other stores that many threads
    read ahead. Memory is bounded by bytes: 64 MiB of samples to draw from and one run, and two runs a thread; counted
    as they are stored, and a text takes two or four times that where a sign of it is beyond Latin-1.

    Args:
        address: of the set, as for the command line; or a store.
        num_workers: threads that read ahead where the store is no folder.
        prefetch: samples to draw the next one from.
        random_state: seed or generator, see `evenshard.mixing.seed_of`; None is another order in each loader.
        generation: which state of the set; the current one by default.
        memory_map: whether chunks of a folder are mapped; if not, they are read as of other stores.

    Raises:
        OptionError: an option cannot be used.
        ObjectMissingError: no set is there.
        VerificationError: its manifest is damaged.
    """

    def __init__(  # noqa: PLR0913 - that of the archive loader, and which state of the set, and how it is read
        self,
        address: str | os.PathLike[str] | Store,
        num_workers: int = 1,
        prefetch: int = 2048,
        random_state: Any = None,  # noqa: ANN401 - a seed or a generator of any library
        *,
        generation: int | None = None,
        memory_map: bool = True,
    ) -> None:
        super().__init__(num_workers, prefetch, random_state)
        self.reader = ChunkReader(address, generation, memory_map=memory_map)

    def __len__(self) -> int:
        """Give the samples of an epoch."""
        return len(self.reader)

    def __bool__(self) -> bool:
        """Say yes: that a set has no samples makes it no less a loader."""
        return True

    def _begin(self, number: int, state: Mapping[str, Any] | None) -> RunEpoch:
        chunks = self.reader.chunk_list
        if state is None:
            return RunEpoch(chunks, seed=self.seed, number=number, prefetch=self.prefetch)
        return RunEpoch.resumed(state, chunks)

    def _iterate(self, held: Held[RunEpoch]) -> ChunkIterator:
        return ChunkIterator(held, self.reader, num_threads=0 if self.reader.is_mapped else self.num_workers)


def sample_maker(reader: ChunkReader) -> Callable[[int, int, list[Any]], Any]:
    """Give what makes a sample of its chunk, its position there, and its fields."""
    schema, joined = reader.schema, reader.joined
    if schema is None or not is_of_texts(schema):
        return lambda _chunk, _position, values: joined(values)
    text, _, member, document = map(schema.fields.index, TEXT_FIELDS)

    def make(chunk: int, position: int, values: list[Any]) -> Sample:
        name = values[member]
        base_name = name.rstrip("/").rpartition("/")[2] if "/" in name else name
        return (chunk, position), (base_name, values[document]), values[text]

    return make


def is_of_texts(schema: SampleSchema) -> bool:
    """Say whether samples are what `evenshard text` writes."""
    return schema.container is Container.DICT and set(TEXT_FIELDS) <= set(schema.fields)
