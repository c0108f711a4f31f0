"""Whether counts are those of equal chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NORMAL_QUANTILE = 3.0902
"""Above which one normal number of a thousand lies."""


def chi_squared(counts: Sequence[int]) -> float:
    """Give how far counts are from being all the same."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


def chi_square_limit(freedom: int) -> float:
    """Give what equal chances pass once in a thousand times.

    Source: Wilson and Hilferty, "The distribution of chi-square", PNAS 17 (1931); right to 1 percent from 3 degrees on.
    """
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + _NORMAL_QUANTILE * spread**0.5) ** 3)
