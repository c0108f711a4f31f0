"""Whatever the table: planned, cut and read, it comes back as it was."""

from __future__ import annotations

import math
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.adapters.at_hand import AtHand, local_source
from evenshard.adapters.parquet import read_rows, series_of
from evenshard.core.world import World
from evenshard.planning import Request, make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.plan import Source

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KINDS: dict[str, tuple[list[pa.DataType], st.SearchStrategy[Any]]] = {
    "int": ([pa.int16(), pa.int32(), pa.int64()], st.integers(-(2**15), 2**15 - 1)),
    "float": ([pa.float64()], st.floats(width=64)),
    "str": ([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], TEXTS),
    "bytes": ([pa.binary(), pa.large_binary(), pa.binary_view()], st.binary(max_size=12)),
    "bool": ([pa.bool_()], st.booleans()),
}
"""Types of one column that may differ from file to file, and values that all of them hold."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Files with their columns, as written and as they must come back.

    Args:
        files: columns of each file.
        names: of all columns, in the order of their first appearance.
        rows: what must come back, None where a file has no such column.
        options: how each file is written.
    """

    files: list[dict[str, pa.Array]]
    names: list[str]
    rows: dict[str, list[Any]]
    options: list[dict[str, Any]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw up to three files of up to 30 rows, with columns that some of them lack."""
    names = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    kinds = {name: draw(st.sampled_from(sorted(KINDS))) for name in names}
    files: list[dict[str, pa.Array]] = []
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(draw(st.integers(1, 3))):
        num_rows = draw(st.integers(0, 30))
        there = [name for name in names if number == 0 or draw(st.booleans())]
        columns = {}
        for name in names:
            types, values = KINDS[kinds[name]]
            drawn = draw(st.lists(st.none() | values, min_size=num_rows, max_size=num_rows))
            if name in there:
                columns[name] = pa.array(drawn, draw(st.sampled_from(types)))
            rows[name] += drawn if name in there else [None] * num_rows
        files.append(columns or {"beside": pa.array([0] * num_rows)})
    return Table(files=files, names=names, rows=rows, options=[draw(OPTIONS) for _ in files])


OPTIONS = st.fixed_dictionaries(
    {
        "row_group_size": st.integers(1, 12),
        "compression": st.sampled_from(["none", "snappy", "zstd"]),
        "use_dictionary": st.booleans(),
        "write_page_checksum": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "data_page_size": st.sampled_from([16, 1_000_000]),
        "store_schema": st.booleans(),
    }
)


@contextmanager
def far(source: Source) -> Iterator[AtHand]:
    """Lend a local file as a far one, which is read through pyarrow."""
    with local_source(source) as at_hand:
        yield AtHand(path=at_hand.path, facts=at_hand.facts, fetch=lambda _: None)


def same(expected: list[Any], found: list[Any]) -> bool:
    """Compare values, not-a-number being itself."""
    pairs = zip(expected, found, strict=True)
    return all(a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a + b)) for a, b in pairs)


@settings(deadline=None, max_examples=80)
@given(table=tables(), workers=st.integers(1, 4), rows_per_slice=st.integers(1, 20))
def test_table_comes_back_when_it_is_planned_and_read(table: Table, workers: int, rows_per_slice: int) -> None:
    """Any types, missing values, row groups, files and names: all slices joined are the table, near and far."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (columns, options) in enumerate(zip(table.files, table.options, strict=True)):
            pq.write_table(pa.table(columns), Path(folder) / f"{number}.parquet", **options)
        world = World(workers_per_node=workers)
        request = Request(transform="rows", columns=tuple(table.names), rows_per_slice=rows_per_slice, world=world)
        plan = make_plan(folder, request)
        for reach in (local_source, far):
            pieces = [plan.pieces(each.start, each.stop) for each in plan.slices()]
            reads = [read_rows(each, plan.recipe.columns, reach=reach) for each in pieces]
            assert not any(read.faults for read in reads)
            for name in table.names:
                found = [value for read in reads for value in series_of(read.frame, name).to_list()]
                assert same(table.rows[name], found), (name, table.rows[name], found)
