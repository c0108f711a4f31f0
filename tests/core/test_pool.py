"""Drawing at random."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest

from evenshard.core.pool import Pool
from tests.support.chance import chi_square_limit, chi_squared


def test_every_order_is_equally_likely() -> None:
    """Of four items all 24 orders come alike often: chi-square of 24,000 trials below the 0.1 percent limit."""
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(24_000):
        pool = Pool(Random(seed), range(4))
        seen[tuple(pool.draw() for _ in range(4))] += 1
    assert set(permutations(range(4))) == set(seen)
    assert chi_squared([seen[each] for each in permutations(range(4))]) < chi_square_limit(23)


def test_draws_are_the_same_in_every_version_of_python() -> None:
    """The order of a seed is written down here; only `random()` decides, which Python promises to keep."""
    pool = Pool(Random("evenshard"), range(10))
    pool.add(range(10, 13))
    assert [9, 8, 0, 5, 2, 1, 6, 12, 7, 4, 3, 11, 10] == [pool.draw() for _ in range(13)]


def test_empty_pool_has_nothing_to_draw() -> None:
    """Drawing from nothing is an error."""
    with pytest.raises(IndexError):
        Pool[int](Random(0)).draw()
