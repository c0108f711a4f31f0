"""The plan: which rows of which files each rank gets, cut into slices. Ranges only, never lists of rows.

A plan stores its sources and its world; shards, slices and pieces follow from them by arithmetic. So
10^9 rows in 500,000 slices weigh no more than the names of their files.

Example:
    10 rows over 1 node x 3 workers, at most 2 rows per slice: ranks get rows [0, 3), [3, 6), [6, 10),
    which are cut into slices [0, 1) [1, 3) | [3, 4) [4, 6) | [6, 8) [8, 10).
"""

from __future__ import annotations

import dataclasses
import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import OptionError
from evenshard.core.partition import Partition
from evenshard.core.recipe import Recipe
from evenshard.core.source_address import shown
from evenshard.core.text import OMITTED, to_json
from evenshard.core.world import Remainder, World

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LOTS: Final = 300
"""A mapped task costs the orchestrator about 10 ms and 20 kB, whatever it does."""


class Mode(StrEnum):
    """What a generation is made for, and so by what."""

    CREATE = "create"
    """A data set where there was none."""
    APPEND = "append"
    """Samples of new sources after those that are there."""
    OVERWRITE = "overwrite"
    """Samples in place of all that were there."""
    RETRY = "retry"
    """Failed rows once more; what they give comes after what is there."""
    REPAIR = "repair"
    """Bad slices once more, in their place."""
    ROLLBACK = "rollback"
    """An earlier state once more."""


class OnChangedSource(StrEnum):
    """What becomes of a file that has changed since samples were made from it."""

    ERROR = "error"
    """The run is refused, and names it."""
    REINGEST = "reingest"
    """Its rows are taken again, in place of the old ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of the table, as it was when planned.

    Args:
        path: where it is: an absolute path, or an address without a login.
        num_rows: rows in it, from its footer.
        num_bytes: its size.
        version: changes when the content does: modification time in ns for local files, ETag or date over HTTP.
        partition: columns that its folders' names hold, `key=value`, with their values; see `core.partition`.
    """

    path: str
    num_rows: int
    num_bytes: int
    version: str
    partition: Partition = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One file of the table that no row is taken from, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Half-open row range [start, stop) inside one source file."""

    source: Source
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        """Rows of the piece."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Half-open range [start, stop) of global row numbers inside the shard of one rank.

    Args:
        index: position in the plan; slices in this order give the table back in row order.
        rank: whose shard it belongs to.
    """

    index: int
    rank: int
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        """Rows of the slice."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """What one mapped task does: the slices [start, stop) of one rank, by their index."""

    rank: int
    start: int
    stop: int

    @property
    def last(self) -> int:
        """Position of the lot's last slice."""
        return self.stop - 1

    @property
    def slice_indexes(self) -> range:
        """Positions of the lot's slices in the plan."""
        return range(self.start, self.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sources, world, slices and recipe of one generation of a data set.

    Args:
        sources: files in stated order; it decides the global row numbers.
        world: nodes and workers that share the rows.
        recipe: every other setting that changes the output.
        rows_per_slice: upper limit of a slice, 1 or more.
        remainder: what becomes of rows that cannot be shared equally.
        generation: which published state of the data set this makes, from 1.
        mode: what it is for.
        base: generation whose samples stay before those of this plan; None for a set of its own.
        replaces: slices of the base that do not stay, since their rows are planned again: (generation of
            their plan, slice).
        superseded: failed rows of the base that are planned again, by the reason they had.
        ranges: what is planned of the sources, half-open row ranges (position in `sources`, start, stop) in
            order; all of their rows if None.
        left_out: bad files, which `on_bad_file=skip` leaves out, in stated order.
        shard_starts: where the shard of each rank starts, and last the number of rows, where rows differ in weight;
            equal by their number if None.
    """

    sources: tuple[Source, ...]
    world: World
    recipe: Recipe
    rows_per_slice: int = 2048
    remainder: Remainder = Remainder.SPREAD
    generation: int = 1
    mode: Mode = Mode.CREATE
    base: int | None = None
    replaces: tuple[tuple[int, int], ...] = ()
    superseded: Mapping[str, int] = field(default_factory=dict)
    ranges: tuple[tuple[int, int, int], ...] | None = None
    left_out: tuple[LeftOut, ...] = ()
    shard_starts: tuple[int, ...] | None = field(default=None, metadata=OMITTED)
    _row_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _slice_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the ranges and add up what the look-ups need."""
        if self.rows_per_slice < 1:
            raise OptionError("rows_per_slice", f"{self.rows_per_slice} is out of range; it must be 1 or more")
        if self.generation < 1 or (self.base or 0) >= self.generation:
            raise ValueError(f"generation {self.generation} on {self.base} is out of range; it must be 1 or more")
        rows = accumulate((stop - start for _, start, stop in self._all_ranges()), initial=0)
        object.__setattr__(self, "_row_starts", tuple(rows))
        self._check_shards()
        counts = (-(-(stop - start) // self.rows_per_slice) for start, stop in map(self.shard, self.ranks))
        object.__setattr__(self, "_slice_starts", tuple(accumulate(counts, initial=0)))

    def _check_shards(self) -> None:
        starts = self.shard_starts
        if starts is None:
            return
        ends = (0, self.num_source_rows)
        if len(starts) != len(self.ranks) + 1 or (starts[0], starts[-1]) != ends or list(starts) != sorted(starts):
            raise ValueError(f"shard_starts {starts[:3]}... do not cut {ends[1]} rows for {len(self.ranks)} ranks")

    def _all_ranges(self) -> Iterator[tuple[int, int, int]]:
        if self.ranges is not None:
            return iter(self.ranges)
        return ((index, 0, source.num_rows) for index, source in enumerate(self.sources))

    def _range(self, index: int) -> tuple[int, int, int]:
        return self.ranges[index] if self.ranges is not None else (index, 0, self.sources[index].num_rows)

    @property
    def ranks(self) -> range:
        """All ranks."""
        return range(self.world.world_size)

    @property
    def num_source_rows(self) -> int:
        """Rows of all sources, or of the ranges that are planned of them."""
        return self._row_starts[-1]

    @property
    def num_rows(self) -> int:
        """Rows that are planned: those of all shards."""
        return self.shard(self.world.world_size - 1)[1]

    @property
    def num_slices(self) -> int:
        """Slices of all shards."""
        return self._slice_starts[-1]

    def shard(self, rank: int) -> tuple[int, int]:
        """Give the half-open range of global row numbers of a rank."""
        if self.shard_starts is not None:
            return self.shard_starts[rank], self.shard_starts[rank + 1]
        return self.world.shard_range(rank, num_rows=self.num_source_rows, remainder=self.remainder)

    def slices_of(self, rank: int) -> range:
        """Give the indexes of a rank's slices."""
        return range(self._slice_starts[rank], self._slice_starts[rank + 1])

    def slices_of_node(self, node: int) -> range:
        """Give the indexes of the slices of a node's ranks, which follow one another."""
        if not 0 <= node < self.world.num_nodes:
            raise OptionError("node", f"{node} is out of range; the plan is for {self.world.num_nodes} nodes, from 0")
        per_node = self.world.workers_per_node
        return range(self._slice_starts[node * per_node], self._slice_starts[(node + 1) * per_node])

    def slice_at(self, index: int) -> Slice:
        """Give one slice. The slices of a rank differ by at most one row."""
        if not 0 <= index < self.num_slices:
            raise IndexError(f"slice {index} is out of range [0, {self.num_slices})")
        rank = bisect_right(self._slice_starts, index) - 1
        return next(self._cut(rank, range(index, index + 1)))

    def slices(self) -> Iterator[Slice]:
        """Give all slices in row order."""
        return chain.from_iterable(self._cut(rank, self.slices_of(rank)) for rank in self.ranks)

    def _cut(self, rank: int, indexes: range) -> Iterator[Slice]:
        """Cut slices out of a rank's shard; what they have in common is worked out once."""
        shard_start, shard_stop = self.shard(rank)
        of_rank, num_rows = self.slices_of(rank), shard_stop - shard_start
        first, num_slices = of_rank.start, len(of_rank)
        for index in indexes:
            k = index - first
            start, stop = k * num_rows // num_slices, (k + 1) * num_rows // num_slices
            yield Slice(index=index, rank=rank, start=shard_start + start, stop=shard_start + stop)

    def pieces(self, start: int, stop: int) -> tuple[Piece, ...]:
        """Give the file ranges behind global rows [start, stop), in row order; no piece is empty."""
        found: list[Piece] = []
        index = bisect_right(self._row_starts, start) - 1
        while start < stop:
            first, end = self._row_starts[index], min(stop, self._row_starts[index + 1])
            if end > start:
                source, offset, _ = self._range(index)
                piece = Piece(source=self.sources[source], start=start - first + offset, stop=end - first + offset)
                found.append(piece)
                start = end
            index += 1
        return tuple(found)

    @property
    def dropped(self) -> tuple[Piece, ...]:
        """Name the rows that `remainder=drop` leaves out: the last ones, fewer than `world_size`."""
        return self.pieces(self.num_rows, self.num_source_rows)

    def lots(self, indexes: range | tuple[int, ...] | None = None, *, max_lots: int = MAX_LOTS) -> tuple[Lot, ...]:
        """Group slices into what one mapped task does: consecutive slices of one rank.

        Args:
            indexes: slices to do, ascending; all by default.
            max_lots: tasks wanted at most; there may be up to one more for each rank and each gap.
        """
        wanted = range(self.num_slices) if indexes is None else indexes
        size = max(1, -(-len(wanted) // max_lots))
        found: list[Lot] = []
        for index in wanted:
            rank = bisect_right(self._slice_starts, index) - 1
            last = found[-1] if found else None
            if last and last.stop == index and last.rank == rank and last.stop - last.start < size:
                found[-1] = Lot(rank=rank, start=last.start, stop=index + 1)
            else:
                found.append(Lot(rank=rank, start=index, stop=index + 1))
        return tuple(found)

    @property
    def fingerprint(self) -> str:
        """Hash everything that changes the output, and nothing that does not: 64 hex digits.

        Source: SHA-256 over the plan's own JSON text, whose keys are sorted.
        """
        return hashlib.sha256(to_json(self)).hexdigest()


def differences(old: Plan, new: Plan) -> list[str]:
    """Say in what two plans differ, each as `name: old -> new`; files by how many are new, gone or changed."""
    found = [*_source_differences(old, new)]
    found += _field_differences(old, new, ("world", "rows_per_slice", "remainder", "mode", "generation", "base"))
    if old.ranges != new.ranges:
        found.append(f"rows planned: {old.num_rows} -> {new.num_rows}")
    if old.left_out != new.left_out:
        found.append(f"files left out: {len(old.left_out)} -> {len(new.left_out)}")
    found += _field_differences(old.recipe, new.recipe, tuple(each.name for each in dataclasses.fields(Recipe)))
    return found


def _field_differences(old: object, new: object, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name}: {before} -> {after}"


def _source_differences(old: Plan, new: Plan) -> Iterator[str]:
    before, after = ({source.path: source for source in plan.sources} for plan in (old, new))
    changed = [path for path in before.keys() & after.keys() if before[path] != after[path]]
    for what, paths in (
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
        ("changed", changed),
    ):
        if paths:
            yield f"{len(paths)} source files {what}, such as {shown(min(paths))}"
    if before == after and old.sources != new.sources:
        yield "order of the source files"
