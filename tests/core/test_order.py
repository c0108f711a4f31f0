"""Row order from results in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.order import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(order=st.integers(0, 60).flatmap(lambda count: st.permutations(range(count))))
def test_results_ascend_when_they_come_in_any_order(order: list[int]) -> None:
    """Whatever the order of coming, results leave by position."""
    assert [str(position) for position in range(len(order))] == list(in_order((each, str(each)) for each in order))


def test_result_leaves_as_soon_as_all_before_it_came() -> None:
    """Nothing is held back longer than needed, and nothing is asked for before it is."""
    told: list[str] = []

    def coming() -> Iterator[tuple[int, int]]:
        for position in (1, 0, 2):
            told.append(f"{position} came")
            yield position, position

    told.extend(f"{result} left" for result in in_order(coming()))
    assert ["1 came", "0 came", "0 left", "1 left", "2 came", "2 left"] == told


@pytest.mark.parametrize(
    ("order", "message"),
    [([0, 0], "position 0 came twice"), ([1, 1], "position 1 came twice"), ([0, 2], "position 1 never came")],
    ids=["late double", "early double", "hole"],
)
def test_results_are_refused_when_one_is_doubled_or_lost(order: list[int], message: str) -> None:
    """A result that comes twice or never is a broken promise, not a shift of all that follow."""
    with pytest.raises(ValueError, match=message):
        list(in_order((each, each) for each in order))
