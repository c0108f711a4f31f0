"""Drawing at random from what is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

_Item = TypeVar("_Item")


class Pool(Generic[_Item]):
    """Items of which any is drawn next, each with the same chance.

    Of a generator only `random()` is used, which by its documentation gives the same numbers for the same seed in
    every version of Python. A product's rounding favours no item by more than 2^-53 of its length.

    Args:
        rng: decides.
        items: what is there at the start.
    """

    def __init__(self, rng: Random, items: Iterable[_Item] = ()) -> None:
        self._random = rng.random
        self.items = list(items)

    def add(self, items: Iterable[_Item]) -> None:
        """Put more in."""
        self.items.extend(items)

    def draw(self) -> _Item:
        """Take one out.

        Raises:
            IndexError: there is none.
        """
        items = self.items
        place = int(self._random() * len(items))
        last = items.pop()
        if place == len(items):
            return last
        drawn, items[place] = items[place], last
        return drawn
