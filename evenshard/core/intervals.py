"""Half-open ranges of byte positions: which of them are missing, and which are near enough to be asked for at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Interval: TypeAlias = tuple[int, int]
"""Half-open range [start, stop) of positions."""


def joined(intervals: Iterable[Interval], *, gap: int = 0) -> list[Interval]:
    """Give the same positions in as few ranges as may be, ascending.

    Args:
        intervals: in any order; empty ones count for nothing.
        gap: positions between two ranges, at most, that are taken along to make one of them.
    """
    found: list[Interval] = []
    for start, stop in sorted(each for each in intervals if each[0] < each[1]):
        if found and start <= found[-1][1] + gap:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return found


def without(wanted: Iterable[Interval], held: Iterable[Interval]) -> list[Interval]:
    """Give what of the wanted positions is not held, ascending."""
    there = joined(held)
    missing: list[Interval] = []
    for start, stop in joined(wanted):
        position = start
        for held_start, held_stop in there:
            if held_stop <= position or held_start >= stop:
                continue
            missing.append((position, held_start))
            position = held_stop
        missing.append((position, stop))
    return [each for each in missing if each[0] < each[1]]
