"""Where column chunks lie, as a footer says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.chunk_map import read_chunk_map

COLUMNS = {
    "url": [f"http://h.example/{row}" for row in range(50)],
    "odd.name": pa.array(range(50), pa.int64()),
    "tags": [[row, row + 1] for row in range(50)],
    "struct": [{"a": row, "b": {"c": "x"}} for row in range(50)],
}


def written(**options: Any) -> bytes:  # noqa: ANN401 - pyarrow's own
    """Write a small table."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(COLUMNS), sink, **options)
    return bytes(sink.getvalue())


def footer_in(data: bytes) -> bytes:
    """Cut the footer out of a file."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize(
    "options",
    [{}, {"row_group_size": 3}, {"use_dictionary": False}, {"write_page_index": True}, {"write_statistics": False}],
    ids=["default", "row groups", "no dictionary", "page index", "no statistics"],
)
def test_ranges_are_those_of_pyarrow_when_the_footer_is_sound(options: dict[str, Any]) -> None:
    """By row group and leaf, from the dictionary page where there is one to the end of the chunk."""
    data = written(**options)
    metadata = pq.read_metadata(pa.BufferReader(data))
    expected = []
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(leaf) for leaf in range(metadata.num_columns)]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        sizes = [chunk.total_compressed_size for chunk in chunks]
        expected.append([(start, start + size) for start, size in zip(starts, sizes, strict=True)])
    assert expected == read_chunk_map(footer_in(data))


def test_footer_is_refused_when_it_is_cut() -> None:
    """At whatever byte it ends: it is told that it is damaged, and nothing is made up."""
    footer = footer_in(written(row_group_size=20))
    for stop in range(len(footer)):
        with pytest.raises(ValueError, match="its footer is damaged"):
            read_chunk_map(footer[:stop])


@given(st.binary(max_size=200))
def test_bytes_are_refused_or_mean_something_when_they_are_no_footer(data: bytes) -> None:
    """Any bytes end soon, in ranges or in one kind of error."""
    with suppress(ValueError):
        assert all(0 <= start for group in read_chunk_map(data) for start, _ in group)
