"""Shuffling and taking, of any iterable."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import count, permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard import shuffle, take
from evenshard.core.errors import OptionError
from evenshard.mixing import seed_of
from tests.support.chance import chi_square_limit, chi_squared

ROOT = Path(__file__).parents[1]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(num_items=st.integers(0, 60), buffer_size=st.integers(0, 80), seed=st.integers(0))
def test_shuffle_gives_every_item_once(num_items: int, buffer_size: int, seed: int) -> None:
    """No item is lost or doubled, however large the buffer, the tail of it included."""
    assert list(range(num_items)) == sorted(shuffle(range(num_items), buffer_size, seed))
    assert list(range(num_items)) == sorted(shuffle(list(range(num_items)), buffer_size, seed))


@pytest.mark.parametrize("buffer_size", [0, 1])
def test_shuffle_keeps_the_order_when_there_is_no_buffer(buffer_size: int) -> None:
    """With nothing to choose from, the order stays."""
    assert list(range(9)) == list(shuffle(range(9), buffer_size))


def test_shuffle_makes_every_order_when_the_buffer_holds_all() -> None:
    """All 24 orders of four items come alike often."""
    seen = Counter(tuple(shuffle(range(4), 4, seed)) for seed in range(12_000))
    assert chi_squared([seen[each] for each in permutations(range(4))]) < chi_square_limit(23)


def test_shuffle_draws_from_as_many_as_asked_for() -> None:
    """The first item is any of the first five, alike often; it is given when a sixth was read."""
    seen = Counter(next(shuffle(range(50), 5, seed)) for seed in range(5_000))
    assert set(range(5)) == set(seen)
    assert chi_squared(list(seen.values())) < chi_square_limit(4)
    numbers = count()
    next(shuffle(numbers, 5, 0))
    assert 6 == next(numbers)


def test_shuffle_reads_nothing_before_it_is_asked() -> None:
    """Making it and dropping it changes nothing, of a list either."""
    numbers, listed = count(), [3, 1, 2]
    shuffle(numbers)
    shuffle(listed)
    assert (0, [3, 1, 2]) == (next(numbers), listed)


def test_take_gives_so_many_and_asks_for_no_more() -> None:
    """What is behind the last one taken is still there."""
    numbers = iter(range(10))
    assert [0, 1, 2] == list(take(numbers, 3))
    assert [] == list(take(numbers, 0))
    assert [3, 4, 5, 6, 7, 8, 9] == list(take(numbers, 99))


class OnlyBytes:
    """A generator that gives bytes, and nothing else."""

    def bytes(self, length: int) -> bytes:
        """Give bytes."""
        return b"\7" * length


STATES: dict[str, Any] = {
    "number": lambda: 5,
    "large-number": lambda: 2**200,
    "numpy-number": lambda: np.int64(5),
    "numpy-generator": lambda: np.random.default_rng(5),
    "numpy-random-state": lambda: np.random.RandomState(5),
    "random": lambda: Random(5),
    "anything-that-gives-bytes": OnlyBytes,
}


@pytest.mark.parametrize("make", STATES.values(), ids=STATES.keys())
def test_same_state_gives_the_same_order(make: Any) -> None:  # noqa: ANN401 - of any library
    """A number or a generator in the same state decides the order."""
    orders = [list(shuffle(range(99), 50, make())) for _ in range(2)]
    assert orders[0] == orders[1]
    assert orders[0] != list(shuffle(range(99), 50, 6))


def test_generator_goes_on_when_it_is_used_again() -> None:
    """One generator for two things makes two orders, as its owner expects."""
    rng = np.random.default_rng(5)
    assert list(shuffle(range(99), 50, rng)) != list(shuffle(range(99), 50, rng))


def test_order_is_another_one_each_time_when_no_state_is_given() -> None:
    """Without a seed nothing repeats."""
    assert list(shuffle(range(99), 50)) != list(shuffle(range(99), 50))


BAD: dict[str, tuple[Any, str]] = {
    "buffer-negative": (lambda: shuffle([], -1), "buffer_size: -1 is too small"),
    "buffer-not-a-number": (lambda: shuffle([], "9"), "buffer_size: '9' is no whole number"),  # type: ignore[arg-type]
    "buffer-fraction": (lambda: shuffle([], 1.5), "buffer_size: 1.5 is no whole number"),  # type: ignore[arg-type]
    "take-negative": (lambda: take([], -1), "n: -1 is too small"),
    "state-text": (lambda: shuffle([], 9, "seed"), "random_state: str is neither"),
    "state-fraction": (lambda: seed_of(0.5), "random_state: float is neither"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_option_is_refused_at_once_when_it_cannot_be_used(call: Any, message: str) -> None:  # noqa: ANN401 - see above
    """A wrong option is an error where it is given, and not at the first item."""
    with pytest.raises(OptionError, match=f"^{message}"):
        call()


def test_public_names_are_cheap_and_need_no_numpy() -> None:
    """`import evenshard` loads nothing of it, and the loader neither NumPy nor Prefect, Polars or Pillow."""
    code = (
        "import sys, evenshard\n"
        "assert not {'evenshard.loader', 'lzma'} & set(sys.modules)\n"
        "sys.modules['numpy'] = None\n"
        "from evenshard import OpenWebTextLoader, shuffle, take\n"
        "assert [3] == list(take(shuffle([3], 9, 1), 5))\n"
        "assert [] == list(OpenWebTextLoader([], 2, random_state=1))\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"prefect", "polars", "PIL", "pyarrow", "httpx", "pydantic"} & set(done.stdout.split())
