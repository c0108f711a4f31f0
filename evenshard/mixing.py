"""Samples in random order, and only so many of them: for any iterable."""

from __future__ import annotations

import operator
import secrets
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from evenshard.core.errors import OptionError
from evenshard.core.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Item = TypeVar("_Item")
_SEED_BYTES: Final = 16


def shuffle(iterable: Iterable[_Item], buffer_size: int = 1024, random_state: Any = None) -> Iterator[_Item]:  # noqa: ANN401 - see seed_of
    """Give all items of an iterable, each drawn from the next `buffer_size` ones that are left.

    Args:
        iterable: of any length; it is begun when the first item is asked for, and read ahead by the buffer.
        buffer_size: items in memory; with 0 or 1 the order stays.
        random_state: seed or generator, see `seed_of`; None is another order each time.

    Raises:
        OptionError: `buffer_size` or `random_state` cannot be used.
    """
    check_count("buffer_size", buffer_size, at_least=0)
    return _shuffled(iterable, buffer_size, Random(seed_of(random_state)))  # noqa: S311 - no secret


def _shuffled(iterable: Iterable[_Item], buffer_size: int, rng: Random) -> Iterator[_Item]:
    pool: Pool[_Item] = Pool(rng)
    for item in iterable:
        if len(pool.items) < buffer_size:
            pool.items.append(item)
        elif buffer_size == 0:
            yield item
        else:
            drawn = pool.draw()
            pool.items.append(item)
            yield drawn
    while pool.items:
        yield pool.draw()


def take(iterable: Iterable[_Item], n: int) -> Iterator[_Item]:
    """Give the first `n` items of an iterable, or all if there are fewer; no item beyond them is asked for.

    Raises:
        OptionError: `n` is no count.
    """
    check_count("n", n, at_least=0)
    return islice(iterable, n)


def seed_of(random_state: Any) -> int:  # noqa: ANN401 - generators of any library
    """Make a seed of what decides an order.

    Args:
        random_state: a whole number; a generator of NumPy (old or new) or of `random`, of which 16 bytes are drawn
            here, so that its own seed decides; or None, for a seed that nobody knows.

    Raises:
        OptionError: it is something else.
    """
    if random_state is None:
        return secrets.randbits(8 * _SEED_BYTES)
    try:
        return operator.index(random_state)
    except TypeError:
        draw = getattr(random_state, "bytes", None) or getattr(random_state, "randbytes", None)
    if not callable(draw):
        problem = f"{type(random_state).__name__} is neither a whole number nor a generator of NumPy or `random`"
        raise OptionError("random_state", problem)
    return int.from_bytes(draw(_SEED_BYTES))


def check_count(option: str, value: Any, *, at_least: int) -> None:  # noqa: ANN401 - it is checked here
    """Refuse what is not a whole number, or too small.

    Raises:
        OptionError: it is.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(option, f"{value!r} is no whole number") from None
    if number < at_least:
        raise OptionError(option, f"{number} is too small; give {at_least} or more")
