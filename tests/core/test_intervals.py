"""Ranges of positions, against sets of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.intervals import Interval, joined, without

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def positions(intervals: list[Interval]) -> set[int]:
    """List the positions that ranges cover."""
    return {position for start, stop in intervals for position in range(start, stop)}


@given(intervals=INTERVALS, gap=st.integers(0, 5))
def test_positions_are_the_same_when_ranges_are_joined(intervals: list[Interval], gap: int) -> None:
    """Joined ranges cover what they covered, ascending; what they cover more are gaps of the size given at most."""
    found = joined(intervals, gap=gap)
    assert positions(intervals) <= positions(found)
    assert all(before[1] + gap < after[0] for before, after in pairwise(found))
    assert all(start < stop for start, stop in found)
    more = joined([(position, position + 1) for position in positions(found) - positions(intervals)])
    assert all(stop - start <= gap for start, stop in more)


@given(wanted=INTERVALS, held=INTERVALS)
def test_missing_is_what_is_wanted_and_not_held(wanted: list[Interval], held: list[Interval]) -> None:
    """As with sets of positions; ascending, and in one piece where it is."""
    found = without(wanted, held)
    assert positions(wanted) - positions(held) == positions(found)
    assert joined(found) == found
