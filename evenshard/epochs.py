"""What the loaders have in common: epochs one after another, each an iterator that can be gone on with."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from evenshard.core.drawing import Drawing
from evenshard.mixing import check_count, seed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Epoch = TypeVar("_Epoch", bound=Drawing[Any, Any])


def _nothing() -> None:
    """End nothing."""


class Held(Generic[_Epoch]):
    """An epoch and what reads for it. It knows no iterator, so that it can outlive it.

    Args:
        begin: makes the epoch.
    """

    def __init__(self, begin: Callable[[], _Epoch]) -> None:
        self._begin = begin
        self.epoch: _Epoch | None = None
        self.end_reading: Callable[[], None] = _nothing

    def begun(self) -> _Epoch:
        """Give the epoch, made at the first call."""
        if self.epoch is None:
            self.epoch = self._begin()
        return self.epoch

    def release(self) -> None:
        """End what reads, and forget texts that nobody can ask for."""
        self.end_reading()
        self.end_reading = _nothing
        if self.epoch is not None:
            self.epoch.drop_texts()


class EpochIterator(ABC, Generic[_Epoch]):
    """One epoch of a loader, or the rest of one. It is for one thread at a time, and for the process that made it.

    After an error, and after `close`, it is at its end.

    Args:
        held: what makes the epoch, when the first document is asked for.
    """

    def __init__(self, held: Held[_Epoch]) -> None:
        self._held = held
        self._epoch: _Epoch | None = None
        self._is_closed = False
        # At garbage collection and at the interpreter's end, too.
        self._release = weakref.finalize(self, held.release)

    @abstractmethod
    def _start(self, epoch: _Epoch) -> None:
        """Begin to read."""

    @abstractmethod
    def _add(self, epoch: _Epoch) -> None:
        """Have the epoch take in one part."""

    def _finish(self, epoch: _Epoch) -> None:
        """Take note of the end, after the last document was handed out."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - of the loader's own shape
        """Give the next document."""
        if self._is_closed:
            raise StopIteration
        try:
            epoch = self._epoch or self._begun()
            while epoch.wants_more:
                self._add(epoch)
            sample = epoch.draw()
        except BaseException:  # Ctrl-C, too: whatever it was, nothing stays behind
            self.close()
            raise
        if sample is None:
            self.close()
            self._finish(epoch)
            raise StopIteration
        return sample

    def _begun(self) -> _Epoch:
        epoch = self._held.begun()
        self._start(epoch)
        self._epoch = epoch
        return epoch

    def state_dict(self) -> dict[str, Any]:
        """Give where it stands, for the loader's `load_state_dict`."""
        return self._held.begun().state()

    def close(self) -> None:
        """End it and what reads for it; again it does nothing."""
        self._is_closed = True
        self._release()


_Iterator = TypeVar("_Iterator", bound=EpochIterator[Any])


class EpochLoader(ABC, Generic[_Epoch, _Iterator]):
    """Gives epochs, one after another; which order each has, its seed and its number decide.

    Args:
        num_workers: who read beside this process; with 0, none does.
        prefetch: documents to draw the next one from.
        random_state: seed or generator, see `evenshard.mixing.seed_of`; None is another order in each loader.

    Raises:
        OptionError: an option cannot be used.
    """

    def __init__(self, num_workers: int, prefetch: int, random_state: Any) -> None:  # noqa: ANN401 - see seed_of
        check_count("num_workers", num_workers, at_least=0)
        check_count("prefetch", prefetch, at_least=0)
        self.num_workers = num_workers
        self.prefetch = prefetch
        self.seed = seed_of(random_state)
        """What decides all orders, of whatever it was made."""
        self._epoch_number = 0
        self._resume: Mapping[str, Any] | None = None
        self._latest: Held[_Epoch] | None = None
        self._iterators: weakref.WeakSet[_Iterator] = weakref.WeakSet()

    @abstractmethod
    def _begin(self, number: int, state: Mapping[str, Any] | None) -> _Epoch:
        """Make an epoch, anew or from a state.

        Raises:
            OptionError: the state is none, or of something else.
        """

    @abstractmethod
    def _iterate(self, held: Held[_Epoch]) -> _Iterator:
        """Make an iterator over it."""

    def __iter__(self) -> _Iterator:
        """Begin the next epoch, or the rest of one that was stopped. Nothing is read yet."""
        number, self._epoch_number = self._epoch_number, self._epoch_number + 1
        state, self._resume = self._resume, None
        self._latest = Held(lambda: self._begin(number, state))
        iterator = self._iterate(self._latest)
        self._iterators.add(iterator)
        return iterator

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next `iter` begins. If a state was loaded of another one, it is forgotten.

        Raises:
            OptionError: it is no number from 0.
        """
        check_count("epoch", epoch, at_least=0)
        self._epoch_number = epoch
        if self._resume is not None and self._resume["epoch"] != epoch:
            self._resume = None

    def state_dict(self) -> dict[str, Any]:
        """Give where the epoch that began last stands, for `load_state_dict`: plain values, some 30 kB as JSON.

        Documents that a `shuffle` behind the loader has in its buffer count as handed out.
        """
        epoch = self._latest.begun() if self._latest else self._begin(self._epoch_number, self._resume)
        return epoch.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next `iter` go on where the state was taken: with the very documents that would have come there.

        The seed is taken over, too. The number of workers may be another one.

        Raises:
            OptionError: it is no state, or one of something else.
        """
        self._epoch_number = self._begin(0, state).number
        self._resume, self._latest = dict(state), None
        self.seed, self.prefetch = state["seed"], state["prefetch"]

    def close(self) -> None:
        """End all iterators and what reads for them."""
        for iterator in list(self._iterators):
            iterator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process: a copy begins with the epoch that would be the next one here."""
        return {**self.__dict__, "_iterators": None, "_latest": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._iterators = weakref.WeakSet()
