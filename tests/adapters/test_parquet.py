"""Footers for planning, and the rows of a slice: only the bytes that they need."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenshard.adapters.footers import read_footers
from evenshard.adapters.parquet import UnreadableError, read_rows, series_of
from evenshard.adapters.ranged import FileChangedError
from evenshard.adapters.source_files import SourceFile
from evenshard.core.outcome import Reason
from evenshard.core.plan import Piece, Source
from evenshard.core.recipe import Column, Kind
from tests.support.tables import write_damaged_page, write_table, write_tiny_row_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = Column(name="url", kind=Kind.STR, required=True)
ROW = Column(name="row", kind=Kind.INT, required=False)


def source_of(path: Path) -> Source:
    """Plan one file as it is now."""
    (footer,), _ = read_footers([SourceFile(path=str(path))])
    return Source(path=footer.path, num_rows=footer.num_rows, num_bytes=footer.num_bytes, version=footer.version)


def piece_of(path: Path, start: int, stop: int) -> Piece:
    """Give a range of a file's rows."""
    return Piece(source=source_of(path), start=start, stop=stop)


def bytes_read() -> int:
    """Count the bytes that this process has read by system calls, as the kernel accounts them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def peak_bytes() -> int:
    """Give the largest resident size of this process so far."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three row groups of 1,000,000 rows, of which one column is not wanted."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    rows = 1_000_000
    writer = None
    for group in range(3):
        table = pa.table(
            {
                "url": [f"http://h{group}.example/{row:08d}.jpg" for row in range(rows)],
                "row": pa.array(range(group * rows, (group + 1) * rows), pa.int64()),
                "other": pa.array([row * 0.37 for row in range(rows)], pa.float64()),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=rows)
    assert writer is not None
    writer.close()
    return path


def test_only_one_row_group_is_read_when_a_slice_lies_in_it(large: Path) -> None:
    """2,048 rows out of 1,000,000: the bytes read are the wanted columns of that row group, and the footer."""
    piece, metadata = piece_of(large, 1_500_000, 1_502_048), pq.read_metadata(large)
    wanted = sum(metadata.row_group(1).column(index).total_compressed_size for index in (0, 1))
    read_rows([piece_of(large, 0, 1)], [URL])  # the library's own files are read once
    before = bytes_read()
    frame = read_rows([piece], [URL, ROW]).frame
    read = bytes_read() - before

    assert [1_500_000, 1_502_047] == [frame["row"][0], frame["row"][-1]]
    assert frame["url"][0] == "http://h1.example/00500000.jpg"
    assert wanted * 0.9 <= read <= wanted + metadata.serialized_size + 200_000
    assert read < wanted * 1.2


def test_other_row_groups_may_be_garbage_when_a_slice_is_read(large: Path, tmp_path: Path) -> None:
    """Nothing of other row groups, or of unwanted columns, is looked at: here their bytes are noise."""
    metadata, data = pq.read_metadata(large), bytearray(large.read_bytes())
    for group, columns in ((0, (0, 1, 2)), (1, (2,)), (2, (0, 1, 2))):
        for index in columns:
            column = metadata.row_group(group).column(index)
            start = column.data_page_offset
            data[start : start + column.total_compressed_size] = os.urandom(column.total_compressed_size)
    path = tmp_path / "noise.parquet"
    path.write_bytes(data)
    frame = read_rows([piece_of(path, 1_999_000, 2_000_000)], [URL, ROW]).frame
    assert list(range(1_999_000, 2_000_000)) == frame["row"].to_list()


def test_memory_is_that_of_the_wanted_columns_when_a_slice_is_read(large: Path) -> None:
    """Peak memory grows by no more than the wanted columns of the one row group, packed and unpacked."""
    metadata, piece = pq.read_metadata(large), piece_of(large, 1_500_000, 1_502_048)
    columns = [metadata.row_group(1).column(index) for index in (0, 1)]
    allowed = sum(column.total_compressed_size + column.total_uncompressed_size for column in columns)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.adapters.test_parquet import *\n"
        "path, far = Path(sys.argv[1]), piece_of(Path(sys.argv[1]), 1_500_000, 1_502_048)\n"
        "small = write_table(Path(sys.argv[2]) / 'small.parquet', {'url': ['a'], 'row': [1]})\n"
        "read_rows([piece_of(small, 0, 1)], [URL, ROW])\n"
        "before = peak_bytes()\n"
        "read_rows([far], [URL, ROW])\n"
        "print(peak_bytes() - before)\n"
    )
    grown = int(run_python(code, str(large), str(large.parent)))
    assert piece.num_rows == 2048
    assert grown <= allowed + 16_000_000  # and what an allocator keeps for itself


def test_memory_is_that_of_a_few_batches_when_a_text_is_no_utf8(tmp_path: Path) -> None:
    """One bad text among 1,000,000 in a row group: the way to it takes no more memory than some batches of rows."""
    code = (
        "import sys\n"
        "from tests.adapters.test_parquet import *\n"
        "texts = [b'http://h.example/%08d.jpg' % row for row in range(1_000_000)]\n"
        "texts[900_000] = b'\\xff'\n"
        "values = pa.array(texts).view(pa.string())\n"
        "path = write_table(Path(sys.argv[1]) / 'a.parquet', {'url': values}, use_dictionary=False)\n"
        "del texts, values\n"
        "print(path)\n"
    )
    path = Path(run_python(code, str(tmp_path)).strip())
    code = (
        "import sys\n"
        "from tests.adapters.test_parquet import *\n"
        "far = piece_of(Path(sys.argv[1]), 899_000, 901_048)\n"
        "small = write_table(Path(sys.argv[2]) / 'small.parquet', {'url': pa.array([b'\\xff']).view(pa.string())})\n"
        "read_rows([piece_of(small, 0, 1)], [URL])\n"
        "before = peak_bytes()\n"
        "assert [1_000] == list(read_rows([far], [URL]).faults)\n"
        "print(peak_bytes() - before)\n"
    )
    grown = int(run_python(code, str(path), str(tmp_path)))
    (chunk,) = [pq.read_metadata(path).row_group(0).column(0)]
    assert grown <= chunk.total_compressed_size + chunk.total_uncompressed_size + 16_000_000


def run_python(code: str, *arguments: str) -> str:
    """Run code in a fresh interpreter, whose peak memory is its own."""
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=root
    ).stdout


@pytest.mark.parametrize("cuts", [(0, 85, 170, 1022), (0, 1, 2, 1008, 1010, 1022), (0, 511, 1022)])
def test_rows_are_in_order_when_row_groups_are_tiny(tmp_path: Path, cuts: Sequence[int]) -> None:
    """The public case C02: 281 row groups of 1 to 7 rows; slices across them lose and repeat nothing."""
    folder = write_tiny_row_groups(tmp_path / "meta")
    first, second = source_of(folder / "part-0.parquet"), source_of(folder / "part-1.parquet")
    found: list[int] = []
    for start, stop in pairwise(cuts):
        pieces = [Piece(source=first, start=min(start, 1009), stop=min(stop, 1009))]
        pieces.append(Piece(source=second, start=max(start, 1009) - 1009, stop=max(stop, 1009) - 1009))
        found += read_rows([piece for piece in pieces if piece.num_rows], [ROW, URL]).frame["row"].to_list()
    assert list(range(1022)) == found


def test_rows_are_named_when_a_page_is_damaged(tmp_path: Path) -> None:
    """The eighth file of C08 is sound up to row 19; what lies beyond is named with file and rows."""
    path = write_damaged_page(tmp_path / "bad-page.parquet")
    assert 20 == read_rows([piece_of(path, 0, 20)], [URL]).frame.height
    with pytest.raises(UnreadableError, match=r"bad-page\.parquet, rows 20 to 39: "):
        read_rows([piece_of(path, 20, 40)], [URL])


def test_file_is_refused_when_it_changed_after_planning(tmp_path: Path) -> None:
    """Another size, another time, or no file at all: the slice is not read from it."""
    path = write_table(tmp_path / "a.parquet", {"url": ["x", "y"]})
    piece = piece_of(path, 0, 2)
    os.utime(path, ns=(1, 1))
    with pytest.raises(FileChangedError, match=r"a\.parquet has changed since it was planned"):
        read_rows([piece], [URL])
    path.unlink()
    with pytest.raises(FileChangedError, match=r"a\.parquet is gone"):
        read_rows([piece], [URL])


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (Kind.STR, pa.array(["é", None], pa.large_string()), ["é", None]),
        (Kind.STR, pa.array(["é", None], pa.string_view()), ["é", None]),
        (Kind.STR, pa.array(["é", None]).dictionary_encode(), ["é", None]),
        (Kind.STR, pa.nulls(2), [None, None]),
        (Kind.INT, pa.array([1, None], pa.uint8()), [1, None]),
        (Kind.FLOAT, pa.array([1, None], pa.int32()), [1.0, None]),
        (Kind.FLOAT, pa.array([0.5, None], pa.float32()), [0.5, None]),
        (Kind.FLOAT, pa.array([0.5, None], pa.float16()), [0.5, None]),
        (Kind.INT, pa.array([5, None]).dictionary_encode(), [5, None]),
        (Kind.BYTES, pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
        (Kind.BYTES, pa.array([b"ab", None]).dictionary_encode(), [b"ab", None]),
        (Kind.STR, pa.array(["{}", None], pa.json_()), ["{}", None]),
        (Kind.BOOL, pa.array([True, None]), [True, None]),
    ],
    ids=[
        "large",
        "view",
        "dictionary",
        "null",
        "uint8",
        "int as float",
        "float32",
        "half",
        "ints",
        "fixed",
        "packed",
        "json",
        "bool",
    ],
)
def test_values_have_one_type_when_files_store_them_otherwise(
    tmp_path: Path, kind: Kind, values: pa.Array, expected: list[object]
) -> None:
    """Whatever Parquet type a column has, the wanted one comes out."""
    path = write_table(tmp_path / "a.parquet", {"x": values})
    read = read_rows([piece_of(path, 0, 2)], [Column(name="x", kind=kind, required=True)])
    assert (expected, {}) == (read.frame["x"].to_list(), read.faults)


@pytest.mark.parametrize(
    ("kind", "values", "flags"),
    [
        (Kind.INT, pa.array([1, 2**63, None], pa.uint64()), [False, True, False]),
        (Kind.FLOAT, pa.array([1, 2**53 + 1, None], pa.int64()), [False, True, False]),
        (Kind.FLOAT, pa.array([1, 2**63, None], pa.uint64()), [False, False, False]),
        (Kind.FLOAT, pa.array([-1, 2**53, None], pa.int64()), [False, False, False]),
    ],
    ids=["beyond 64 bits", "inexact float", "exact large float", "exact float"],
)
def test_number_is_flagged_when_it_does_not_fit(
    tmp_path: Path, kind: Kind, values: pa.Array, flags: list[bool]
) -> None:
    """A whole number that does not come out as it went in is flagged in its row, not rounded in silence."""
    path = write_table(tmp_path / "a.parquet", {"x": values})
    faults = read_rows([piece_of(path, 0, 3)], [Column(name="x", kind=kind, required=True)]).faults
    assert flags == [row in faults for row in range(3)]
    assert {Reason.VALUE_OUT_OF_RANGE} >= {fault.reason for fault in faults.values()}


def test_missing_column_is_none_when_it_is_optional(tmp_path: Path) -> None:
    """A file without an optional column, even without any wanted one, still gives its rows."""
    path = write_table(tmp_path / "a.parquet", {"url": ["x", "y"]})
    caption = Column(name="caption", kind=Kind.STR, required=False)
    assert [None, None] == read_rows([piece_of(path, 0, 2)], [URL, caption]).frame["caption"].to_list()
    alone = read_rows([piece_of(path, 0, 2)], [caption]).frame
    assert (2, "String") == (alone.height, str(alone.schema["caption"]))


def test_odd_columns_do_no_harm_when_they_are_not_wanted(tmp_path: Path) -> None:
    """A nested list, a decimal and a map beside the link are never looked at."""
    columns = {
        "url": ["x"],
        "nested": pa.array([[[1, 2], []]]),
        "price": pa.array([None], pa.decimal128(38, 10)),
        "labels": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    path = write_table(tmp_path / "a b.ü.parquet", columns)
    assert ["x"] == read_rows([piece_of(path, 0, 1)], [URL]).frame["url"].to_list()


def test_columns_are_read_by_their_very_names(tmp_path: Path) -> None:
    """A name that looks like a pattern is a name."""
    columns = {"^x$": [5, 6], "x": [7, 8], "*": [9, 10]}
    path = write_table(tmp_path / "a.parquet", columns)
    wanted = [Column(name=name, kind=Kind.INT, required=False) for name in columns]
    frame = read_rows([piece_of(path, 0, 2)], wanted).frame
    assert columns == {name: series_of(frame, name).to_list() for name in columns}
