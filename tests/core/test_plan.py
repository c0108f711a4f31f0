"""The plan: every row once, equal shards, equal slices, small and fast."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.errors import OptionError
from evenshard.core.plan import Plan, Source
from evenshard.core.recipe import Column, ImageOptions, Kind, Recipe
from evenshard.core.text import from_json, to_json
from evenshard.core.world import Remainder, World

RECIPE = Recipe(columns=(Column(name="url", kind=Kind.STR, required=True),), url_column="url")
IMAGES = (
    ImageOptions(min_side_px=2),
    ImageOptions(min_area_px=2),
    ImageOptions(max_aspect=2),
    ImageOptions(max_pixels=2),
    ImageOptions(max_working_bytes=2),
)
"""What decides which pictures are stored."""
ROWS = (0, 1, 7, 1_022, 1_000_003)
WORLDS = ((1, 1), (1, 7), (3, 4), (5, 2), (8, 8))


def make_plan(
    sizes: list[int],
    *,
    world: tuple[int, int] = (1, 1),
    rows_per_slice: int = 2048,
    remainder: Remainder = Remainder.SPREAD,
) -> Plan:
    """Plan files of the given row counts."""
    sources = tuple(
        Source(path=f"/t/{i:05d}.parquet", num_rows=n, num_bytes=100 * n, version="1") for i, n in enumerate(sizes)
    )
    return Plan(
        sources=sources,
        world=World(num_nodes=world[0], workers_per_node=world[1]),
        recipe=RECIPE,
        rows_per_slice=rows_per_slice,
        remainder=remainder,
    )


def shard_sizes(plan: Plan) -> list[int]:
    """Rows of each rank."""
    return [stop - start for start, stop in map(plan.shard, plan.ranks)]


@pytest.mark.parametrize("remainder", Remainder)
@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"{w[0]}x{w[1]}")
@pytest.mark.parametrize("num_rows", ROWS)
def test_every_row_is_in_one_slice_when_shared_over_a_world(
    num_rows: int, world: tuple[int, int], remainder: Remainder
) -> None:
    """Slices joined in order give the planned rows back, none twice, none missing; the rest is named."""
    third = num_rows // 3
    plan = make_plan([third, 0, num_rows - third], world=world, remainder=remainder)

    ends = [(piece.start, piece.stop) for piece in plan.slices()]
    assert (plan.num_slices, plan.num_rows) == (len(ends), sum(stop - start for start, stop in ends))
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert not ends or (ends[0][0], ends[-1][1]) == (0, plan.num_rows)
    assert num_rows == plan.num_rows + sum(piece.num_rows for piece in plan.dropped)


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"{w[0]}x{w[1]}")
@pytest.mark.parametrize("num_rows", ROWS)
def test_ranks_differ_by_at_most_one_row_when_spread(num_rows: int, world: tuple[int, int]) -> None:
    """Spread: no rank has two rows more than another."""
    sizes = shard_sizes(make_plan([num_rows], world=world))
    assert num_rows == sum(sizes)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"{w[0]}x{w[1]}")
@pytest.mark.parametrize("num_rows", ROWS)
def test_ranks_are_equal_when_the_remainder_is_dropped(num_rows: int, world: tuple[int, int]) -> None:
    """Drop: all ranks have the same rows, and what is left out is named and smaller than the world."""
    plan = make_plan([num_rows], world=world, remainder=Remainder.DROP)
    left_out = [(piece.source.path, piece.start, piece.stop) for piece in plan.dropped]

    size = plan.world.world_size
    rest = num_rows % size
    assert {num_rows // size} == set(shard_sizes(plan))
    assert ([("/t/00000.parquet", num_rows - rest, num_rows)] if rest else []) == left_out


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"{w[0]}x{w[1]}")
@pytest.mark.parametrize("num_rows", ROWS)
def test_slices_of_a_rank_are_equal_and_small_when_cut(num_rows: int, world: tuple[int, int]) -> None:
    """Slices of one rank differ by at most one row, hold at most `rows_per_slice`, and are never empty."""
    plan = make_plan([num_rows], world=world, rows_per_slice=100)
    for rank in plan.ranks:
        sizes = [plan.slice_at(index).num_rows for index in plan.slices_of(rank)]
        assert all(plan.slice_at(index).rank == rank for index in plan.slices_of(rank))
        assert not sizes or (max(sizes) - min(sizes) <= 1 and min(sizes) >= 1 and max(sizes) <= 100)


@given(
    sizes=st.lists(st.integers(0, 40), max_size=12),
    nodes=st.integers(1, 5),
    workers=st.integers(1, 5),
    rows_per_slice=st.integers(1, 30),
    remainder=st.sampled_from(Remainder),
)
def test_pieces_give_the_table_back_when_joined(
    sizes: list[int], nodes: int, workers: int, rows_per_slice: int, remainder: Remainder
) -> None:
    """Whatever the files, world and slices: the pieces of all slices and the dropped rows are the table, in order."""
    plan = make_plan(sizes, world=(nodes, workers), rows_per_slice=rows_per_slice, remainder=remainder)
    joined = [
        (piece.source.path, row)
        for start, stop in [*((each.start, each.stop) for each in plan.slices()), (plan.num_rows, plan.num_source_rows)]
        for piece in plan.pieces(start, stop)
        for row in range(piece.start, piece.stop)
    ]
    assert [(source.path, row) for source in plan.sources for row in range(source.num_rows)] == joined


@given(
    sizes=st.lists(st.integers(0, 200), max_size=5),
    workers=st.integers(1, 6),
    max_lots=st.integers(1, 20),
    data=st.data(),
)
def test_lots_hold_each_slice_once_when_grouped(
    sizes: list[int], workers: int, max_lots: int, data: st.DataObject
) -> None:
    """Lots hold the wanted slices once each, never those of two ranks, and are few."""
    plan = make_plan(sizes, world=(1, workers), rows_per_slice=7)
    flags = data.draw(st.lists(st.booleans(), min_size=plan.num_slices, max_size=plan.num_slices))
    wanted = tuple(index for index, flag in enumerate(flags) if flag)
    lots = plan.lots(wanted, max_lots=max_lots)

    assert list(wanted) == [index for lot in lots for index in lot.slice_indexes]
    assert all(plan.slice_at(index).rank == lot.rank for lot in lots for index in lot.slice_indexes)
    assert len(plan.lots(max_lots=max_lots)) <= max_lots + workers


@given(weights=st.lists(st.integers(0, 1_000), max_size=40), nodes=st.integers(1, 4), workers=st.integers(1, 4))
def test_ranks_are_equal_to_within_one_row_when_rows_have_weights(weights: list[int], nodes: int, workers: int) -> None:
    """Whatever the weights: every row once, and no rank is off the equal share by more than the heaviest row."""
    world = World(num_nodes=nodes, workers_per_node=workers)
    plan = replace(make_plan([len(weights)]), world=world, shard_starts=world.weighted_starts(weights))
    shares = [sum(weights[start:stop]) for start, stop in map(plan.shard, plan.ranks)]
    assert list(range(len(weights))) == [row for each in plan.slices() for row in range(each.start, each.stop)]
    assert all(abs(share * len(shares) - sum(weights)) <= max(weights) * len(shares) for share in shares if weights)


@pytest.mark.parametrize("starts", [(0, 5), (1, 5, 10), (0, 5, 9), (0, 11, 10)], ids=str)
def test_shard_starts_that_cut_no_whole_are_refused(starts: tuple[int, ...]) -> None:
    """Shards that leave rows out, or hold them twice, make no plan."""
    with pytest.raises(ValueError, match="do not cut 10 rows for 2 ranks"):
        replace(make_plan([10], world=(1, 2)), shard_starts=starts)


def test_plan_is_written_as_before_when_rows_have_no_weights() -> None:
    """The field is there only where it says something, and comes back; so old plans keep their fingerprints."""
    plan = make_plan([10], world=(1, 2))
    weighted = replace(plan, shard_starts=(0, 3, 10))
    assert b"shard_starts" not in to_json(plan)
    assert [plan, weighted] == [from_json(Plan, to_json(each)) for each in (plan, weighted)]
    assert plan.fingerprint != weighted.fingerprint


def test_slices_have_85_or_86_rows_when_1022_rows_meet_12_workers() -> None:
    """The public case C02: ten slices of 85 rows and two of 86 over 3 nodes x 4 workers."""
    plan = make_plan([1009, 13], world=(3, 4))
    assert {85: 10, 86: 2} == dict(Counter(each.num_rows for each in plan.slices()))


def test_ranks_have_one_row_or_none_when_seven_rows_meet_twelve_workers() -> None:
    """The public case C01: seven slices of one row; five ranks without a slice."""
    plan = make_plan([0, 5, 0, 0, 2], world=(3, 4))
    assert [1] * 7 == [each.num_rows for each in plan.slices()]
    assert 5 == sum(not plan.slices_of(rank) for rank in plan.ranks)


def test_plan_file_is_small_when_a_billion_rows_are_planned() -> None:
    """10^9 rows in 500,000 slices: the text stays under 20 MB, gzipped or not, and gives the plan back."""
    plan = make_plan([100_000] * 10_000, world=(10, 100), rows_per_slice=2000)
    text = to_json(plan)
    assert 500_000 == plan.num_slices
    assert max(len(text), len(gzip.compress(text))) < 20_000_000
    assert plan == from_json(Plan, text)


def test_fingerprint_changes_when_the_output_would() -> None:
    """Each thing that changes the output changes the fingerprint; equal plans have one."""
    base = make_plan([5, 5], world=(1, 2))
    others = [
        make_plan([5, 6], world=(1, 2)),
        make_plan([5, 5], world=(2, 1)),
        make_plan([5, 5], world=(1, 2), rows_per_slice=3),
        make_plan([5, 5], world=(1, 2), remainder=Remainder.DROP),
        Plan(sources=base.sources, world=base.world, recipe=Recipe(columns=RECIPE.columns, chunk_bytes=5)),
        Plan(sources=base.sources[::-1], world=base.world, recipe=RECIPE, generation=2),
        *(Plan(sources=base.sources, world=base.world, recipe=replace(RECIPE, image=image)) for image in IMAGES),
    ]
    prints = [plan.fingerprint for plan in [base, *others]]
    assert len(prints) == len(set(prints))
    assert base.fingerprint == make_plan([5, 5], world=(1, 2)).fingerprint


def test_plan_is_whole_when_pickled() -> None:
    """Plans cross to other processes."""
    plan = make_plan([3, 9], world=(2, 2))
    copy = pickle.loads(pickle.dumps(plan))  # noqa: S301 - made one line above
    assert (plan, plan.slice_at(3)) == (copy, copy.slice_at(3))


@pytest.mark.parametrize(
    ("build", "option"),
    [
        (lambda: make_plan([1], rows_per_slice=0), "rows_per_slice"),
        (lambda: World(num_nodes=0), "nodes"),
        (lambda: World(workers_per_node=-1), "workers_per_node"),
        (lambda: Recipe(columns=(), chunk_bytes=2**32), "chunk_bytes"),
    ],
    ids=["rows_per_slice", "nodes", "workers_per_node", "chunk_bytes"],
)
def test_values_are_refused_when_out_of_range(build: object, option: str) -> None:
    """A value out of range names its option and the range."""
    assert callable(build)
    with pytest.raises(OptionError, match="out of range") as caught:
        build()
    assert option == caught.value.option


def test_slice_is_refused_when_there_is_none() -> None:
    """An index past the end is an error, not a slice without rows."""
    with pytest.raises(IndexError, match="slice 1 is out of range"):
        make_plan([5]).slice_at(1)
