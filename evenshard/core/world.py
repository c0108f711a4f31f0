"""The world: how many nodes with how many workers share the rows, and which rows each gets."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WORLD_SIZE: Final = 1_000_000


class Remainder(StrEnum):
    """What becomes of rows that cannot be shared equally."""

    SPREAD = "spread"
    """Ranks differ by at most one row."""
    DROP = "drop"
    """Every rank has exactly the same rows; fewer than `world_size` rows at the end are left out and named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Nodes and their workers. It is data: what executes the work is chosen at run time.

    Args:
        num_nodes: machines, 1 or more.
        workers_per_node: workers on each, 1 or more.
    """

    num_nodes: int = 1
    workers_per_node: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.num_nodes < 1:
            raise OptionError("nodes", f"{self.num_nodes} is out of range; it must be 1 or more")
        if self.workers_per_node < 1:
            raise OptionError("workers_per_node", f"{self.workers_per_node} is out of range; it must be 1 or more")
        if self.world_size > MAX_WORLD_SIZE:
            raise OptionError("nodes", f"{self.world_size} workers in all are too many; at most {MAX_WORLD_SIZE}")

    @property
    def world_size(self) -> int:
        """Count all workers of all nodes."""
        return self.num_nodes * self.workers_per_node

    def shard_range(self, rank: int, *, num_rows: int, remainder: Remainder) -> tuple[int, int]:
        """Give the half-open range of global row numbers that a rank gets.

        Args:
            rank: in [0, world_size).
            num_rows: rows of the whole table, 0 or more.
            remainder: the rule for what cannot be shared equally.

        Source: rank r of W gets [r*N//W, (r+1)*N//W): sizes differ by at most one, no state is needed.
        """
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is out of range [0, {self.world_size})")
        shared = num_rows if remainder is Remainder.SPREAD else num_rows - num_rows % self.world_size
        return rank * shared // self.world_size, (rank + 1) * shared // self.world_size

    def weighted_starts(self, weights: Sequence[int]) -> tuple[int, ...]:
        """Cut rows of different weight, in their order, into a range for each rank, as equal as can be.

        Each cut is the row boundary nearest to its ideal place, so that a rank's weight is off the equal share by the
        heaviest row at most.

        Args:
            weights: of each row, 0 or more.

        Returns:
            Where the range of each rank starts, and last the number of rows.
        """
        ends = list(accumulate(weights, initial=0))
        cuts = (self._nearest(ends, rank) for rank in range(self.world_size))
        return (*cuts, len(weights))

    def _nearest(self, ends: list[int], rank: int) -> int:
        size, target = self.world_size, rank * ends[-1]
        above = bisect_left(ends, -(-target // size))
        return above - (above > 0 and target - ends[above - 1] * size <= ends[above] * size - target)
