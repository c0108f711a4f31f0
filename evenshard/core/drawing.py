"""Drawing from many places at random, in an order that does not hang on who reads when.

The order of the places is drawn first. Parts of places are added to a pool in that order, while it holds fewer than
`prefetch` documents; each document is drawn from all that are in the pool, with the same chance for each. So where
there are no more than `prefetch` documents, every order of them is equally likely; where there are more, a document
comes about as far from its place as `prefetch` documents reach.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from itertools import chain, repeat
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from evenshard.core.errors import OptionError, UsageError
from evenshard.core.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Drawn(Protocol):
    """What is drawn: a document."""

    @property
    def position(self) -> int:
        """Which one of its place it is."""

    @property
    def num_bytes(self) -> int:
        """How much it holds."""


class DrawnPart(Protocol):
    """Some documents of a place, in its order."""

    @property
    def documents(self) -> Sequence[Any]:
        """Which ones."""

    @property
    def num_bytes(self) -> int:
        """How much they hold."""

    @property
    def is_last(self) -> bool:
        """Say whether nothing more of the place follows."""


_Document = TypeVar("_Document", bound=Drawn)
_Part = TypeVar("_Part", bound=DrawnPart)

MAX_POOL_BYTES: Final = 2**26
"""Of documents. With more than that in the pool none is added, however few they are."""
STATE_VERSION: Final = 1
"""Of how an order follows from a seed, and of how places are cut into parts."""


class Drawing(ABC, Generic[_Document, _Part]):
    """What was read and drawn so far. Pure: parts are handed in, samples come out.

    Args:
        num_places: how many there are.
        seed: of all epochs.
        number: of this one; another number gives another order.
        prefetch: documents to have in the pool before one is drawn.
    """

    def __init__(self, num_places: int, *, seed: int, number: int, prefetch: int) -> None:
        self.number = number
        self.num_drawn = 0
        self._seed = seed
        self._prefetch = prefetch
        # By `random()` alone, see Pool.
        everything = Pool(Random(f"evenshard members {seed} {number}"), range(num_places))  # noqa: S311 - no secret
        self._order = array("Q", (everything.draw() for _ in range(num_places)))
        """The places, as they are read. Below, a place is told by its position here."""
        self._rng = Random(f"evenshard documents {seed} {number}")  # noqa: S311 - no secret
        self._pool: Pool[tuple[int, _Document]] = Pool(self._rng)
        self._pool_bytes = 0
        self._reading, self._parts_read = 0, 0
        self._again: list[int] = []
        self._missing: dict[tuple[int, int], int] = {}
        self._parts_to_pass = 0
        self._is_whole = True

    @abstractmethod
    def _blank(self, position: int) -> _Document:
        """Make a document that holds nothing."""

    @abstractmethod
    def _make(self, place: int, document: _Document) -> Any:  # noqa: ANN401 - a sample of any shape
        """Make a sample of what was drawn."""

    @abstractmethod
    def _gone(self, place: int, position: int) -> Exception:
        """Make the error that a document, which a state has in its pool, is not there."""

    def _count(self, part: _Part) -> None:
        """Take note of a part that is new."""

    @property
    def is_begun(self) -> bool:
        """Say whether anything was read."""
        return self._reading > 0 or self._parts_read > 0

    @property
    def is_read(self) -> bool:
        """Say whether every part was added."""
        return not self._again and self._reading == len(self._order)

    @property
    def wants_more(self) -> bool:
        """Say whether a part is to be added before the next draw."""
        if self._again or self._parts_to_pass:
            return True
        if self._reading == len(self._order):
            return False
        num_waiting = len(self._pool.items)
        return not num_waiting or (num_waiting < self._prefetch and self._pool_bytes < MAX_POOL_BYTES)

    def places_to_read(self) -> Iterator[int]:
        """Give the places whose parts are to be added, in this order."""
        return (self._order[at] for at in chain(tuple(self._again), range(self._reading, len(self._order))))

    def add(self, part: _Part) -> bool:
        """Take in the next part.

        Returns:
            Whether it is new, and not read once more after a restart.
        """
        if self._again:
            self._fill_in(self._again[0], part)
            if part.is_last:
                self._again.pop(0)
                self._check_filled()
            return False
        if self._parts_to_pass:
            self._parts_to_pass -= 1
            self._fill_in(self._reading, part)
            self._check_filled()
            return False
        self._is_whole = False
        self._pool.add(zip(repeat(self._reading), part.documents))
        self._pool_bytes += part.num_bytes
        self._count(part)
        self._parts_read += 1
        if part.is_last:
            self._reading, self._parts_read = self._reading + 1, 0
        self._is_whole = True
        return True

    def draw(self) -> Any:  # noqa: ANN401 - a sample of any shape
        """Take the next document, or None at the end."""
        if not self._pool.items:
            return None
        self._is_whole = False
        place, document = self._pool.draw()
        self.num_drawn += 1
        self._pool_bytes -= document.num_bytes
        sample = self._make(place, document)
        self._is_whole = True
        return sample

    def drop_texts(self) -> None:
        """Keep of the documents in the pool only which they are: enough for `state`."""
        self._pool.items = [(place, self._blank(document.position)) for place, document in self._pool.items]

    def state(self) -> dict[str, Any]:
        """Give what `_go_on` needs, as plain values that JSON can hold.

        Raises:
            UsageError: a step of it was cut off in the middle, by Ctrl-C.
        """
        if not self._is_whole:
            raise UsageError("the epoch was interrupted in the middle of a step; take a state that was made before")
        version, numbers, _ = self._rng.getstate()
        return {
            "version": STATE_VERSION,
            "seed": self._seed,
            "epoch": self.number,
            "prefetch": self._prefetch,
            "num_drawn": self.num_drawn,
            "reading": self._reading,
            "parts_read": self._parts_read,
            "pool": [[place, document.position] for place, document in self._pool.items],
            "random": [version, list(numbers)],
        }

    def _go_on(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken: what is drawn from here on is what would have been drawn there."""
        version, numbers = state["random"]
        self._rng.setstate((version, tuple(numbers), None))
        self.num_drawn = state["num_drawn"]
        self._reading, self._parts_read = state["reading"], state["parts_read"]
        pool = [(place, position) for place, position in state["pool"]]
        self._pool.items = [(place, self._blank(position)) for place, position in pool]
        self._missing = {key: index for index, key in enumerate(pool)}
        self._again = sorted({place for place, _ in pool if place != self._reading})
        self._parts_to_pass = self._parts_read

    def _fill_in(self, place: int, part: _Part) -> None:
        """Put texts in the places of the pool that wait for them."""
        for document in part.documents:
            index = self._missing.pop((place, document.position), None)
            if index is not None:
                self._pool.items[index] = (place, document)
                self._pool_bytes += document.num_bytes

    def _check_filled(self) -> None:
        done = not self._again and not self._parts_to_pass
        if done and self._missing:
            raise self._gone(*next(iter(self._missing)))


def check_version(state: Mapping[str, Any]) -> None:
    """Refuse a state of another version.

    Raises:
        OptionError: it is one.
    """
    if state["version"] != STATE_VERSION:
        raise OptionError("state", f"it is of version {state['version']}, and this is {STATE_VERSION}")


def no_state(error: Exception) -> OptionError:
    """Make the error that something is no state at all."""
    return OptionError("state", f"it is not what `state_dict` gives: {error!r}")
