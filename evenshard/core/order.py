"""Row order from results that come in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Result = TypeVar("_Result")


def in_order(results: Iterable[tuple[int, _Result]]) -> Iterator[_Result]:
    """Give results by ascending position, each as soon as all before it have come.

    Args:
        results: (position, result) pairs in any order; positions 0, 1, 2, ... once each.

    Raises:
        ValueError: a position came twice, or is missing at the end.
    """
    waiting: dict[int, _Result] = {}
    following = 0
    for position, result in results:
        if position < following or position in waiting:
            raise ValueError(f"position {position} came twice")
        waiting[position] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    if waiting:
        raise ValueError(f"position {following} never came")
