"""One pass over the samples of chunks; see `evenshard.core.drawing` for its order. A place is a run of samples."""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from evenshard.core.drawing import Drawing, check_version, no_state
from evenshard.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenshard.core.chunk_list import ChunkList, Run


class ReadSample(NamedTuple):
    """A sample that was read.

    Args:
        position: in its chunk.
        num_bytes: of it, encoded.
        sample: as it is handed out.
    """

    position: int
    num_bytes: int
    sample: Any


class ReadRun(NamedTuple):
    """All samples of a run."""

    documents: Sequence[ReadSample]
    num_bytes: int
    is_last: bool = True

    @classmethod
    def of(cls, run: Run, samples: Iterable[Any], sizes: Sequence[int]) -> Self:
        """Join the samples of a run with their bytes when encoded."""
        # Without a call of a function of Python's for each: ReadSample's own costs as much as drawing it.
        made = map(tuple.__new__, repeat(ReadSample), zip(count(run.start), sizes, samples))
        return cls(list(made), sum(sizes))


class RunEpoch(Drawing[ReadSample, ReadRun]):
    """What was read and drawn so far.

    Args:
        chunks: whose samples they are.
        seed: of all epochs.
        number: of this one; another number gives another order.
        prefetch: samples to have in the pool before one is drawn.
    """

    def __init__(self, chunks: ChunkList, *, seed: int, number: int, prefetch: int) -> None:
        super().__init__(chunks.num_runs, seed=seed, number=number, prefetch=prefetch)
        self._chunks = chunks

    def runs_to_read(self) -> Iterator[Run]:
        """Give the runs that are to be added, in this order."""
        return map(self._chunks.run, self.places_to_read())

    def state(self) -> dict[str, Any]:
        """Give what `resumed` needs, as plain values that JSON can hold.

        Raises:
            UsageError: a step of it was cut off in the middle, by Ctrl-C.
        """
        return {**super().state(), "set": self._chunks.digest}

    @classmethod
    def resumed(cls, state: Mapping[str, Any], chunks: ChunkList) -> Self:
        """Go on where a state was taken: what is drawn from here on is what would have been drawn there.

        Raises:
            OptionError: it is no state, or one of another version, or of other chunks.
        """
        try:
            check_version(state)
            epoch = cls(chunks, seed=state["seed"], number=state["epoch"], prefetch=state["prefetch"])
            if state["set"] != chunks.digest:
                raise OptionError("state", "it was taken of another set, or generation; open the one it was taken of")
            epoch._go_on(state)
        except (KeyError, TypeError) as error:
            raise no_state(error) from None
        return epoch

    def _blank(self, position: int) -> ReadSample:
        return ReadSample(position, 0, None)

    def _make(self, _: int, document: ReadSample) -> Any:  # noqa: ANN401 - as it was read
        return document.sample

    def _gone(self, place: int, position: int) -> Exception:
        name = self._chunks.names[self._chunks.run(self._order[place]).chunk]
        return OptionError("state", f"it has sample {position} of chunk {name} in a run that does not hold it")
