"""Rows of odd tables: texts that are none, damaged pages, odd columns, odd names, by both of the readers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenshard.adapters.at_hand import AtHand, local_source
from evenshard.adapters.footers import read_footers
from evenshard.adapters.parquet import Rows, UnreadableError, read_rows, series_of
from evenshard.adapters.source_files import SourceFile
from evenshard.core.outcome import Reason
from evenshard.core.plan import Piece, Source
from evenshard.core.recipe import Column, Kind, OnBadFile
from tests.support.odd_columns import ODD_KINDS, write_odd_column
from tests.support.tables import flipped, plain_columns, write_damaged_page, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Reach: TypeAlias = Callable[[Source], AbstractContextManager[AtHand]]

URL = Column(name="url", kind=Kind.STR, required=True)


@contextmanager
def far(source: Source) -> Iterator[AtHand]:
    """Lend a local file as if its parts had to be fetched: it is read through pyarrow."""
    with local_source(source) as at_hand:
        yield AtHand(path=at_hand.path, facts=at_hand.facts, fetch=lambda _: None)


READERS: dict[str, Reach] = {"near": local_source, "far": far}


@pytest.fixture(params=READERS)
def reach(request: pytest.FixtureRequest) -> Reach:
    """Read as a near file is read, by polars if it may, and as a far one, by pyarrow: the same comes out."""
    return READERS[request.param]


def piece_of(path: Path, start: int, stop: int, **given: Any) -> Piece:  # noqa: ANN401 - fields of a source
    """Plan a range of a file's rows."""
    (footer,), _ = read_footers([SourceFile(path=str(path))])
    facts = {"num_rows": footer.num_rows, "num_bytes": footer.num_bytes, "version": footer.version}
    return Piece(source=Source(path=footer.path, **{**facts, **given}), start=start, stop=stop)


def read_one(path: Path, stop: int, column: Column, *, reach: Reach) -> tuple[list[Any], dict[int, Reason]]:
    """Read one column from the first row on; gives its values, and the reasons of rows at fault."""
    read = read_rows([piece_of(path, 0, stop)], [column], reach=reach)
    return series_of(read.frame, column.name).to_list(), {row: each.reason for row, each in read.faults.items()}


@pytest.mark.parametrize("kind", ODD_KINDS)
def test_odd_column_does_no_harm_when_it_is_not_wanted(
    tmp_path: Path,
    reach: Reach,
    kind: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whatever stands beside the link is not looked at: no row fails, and no library complains."""
    path = write_odd_column(tmp_path / "a.parquet", kind, beside={"url": ["x", "y"]})
    assert (["x", "y"], {}) == read_one(path, 2, URL, reach=reach)
    assert ("", "") == capfd.readouterr()


TEXTS = [b"a", b"\xc3\xa9", None, b"\xff\xfe", b"ok\xe2\x82", b"z"]
GOOD = ["a", "é", None, None, None, "z"]
TEXT_KINDS: dict[str, Any] = {
    "text": pa.array(TEXTS).view(pa.string()),
    "large text": pa.array(TEXTS, pa.large_binary()).view(pa.large_string()),
    "text view": pa.array(TEXTS).view(pa.string()).cast(pa.string_view()),
    "dictionary": pa.array(TEXTS).view(pa.string()).dictionary_encode(),
    "bytes": pa.array(TEXTS),
    "large bytes": pa.array(TEXTS, pa.large_binary()),
    "dictionary of bytes": pa.array(TEXTS).dictionary_encode(),
}


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_row_is_at_fault_when_its_text_is_no_utf8(tmp_path: Path, reach: Reach, kind: str) -> None:
    """One such value fails its row and says why; the others come as they are, however texts are stored."""
    path = write_table(tmp_path / "a.parquet", {"url": TEXT_KINDS[kind], "n": list(range(6))})
    number = Column(name="n", kind=Kind.INT, required=True)
    pieces = [piece_of(path, 1, 4), piece_of(path, 4, 6)]
    read = read_rows(pieces, [URL, number], reach=reach)
    assert (GOOD[1:], [1, 2, 3, 4, 5]) == (read.frame["url"].to_list(), read.frame["n"].to_list())
    assert {
        2: "column 'url': invalid start byte at byte 0 of 2",
        3: "column 'url': unexpected end of data at byte 2 of 4",
    } == {row: failure.detail for row, failure in read.faults.items()}
    assert {Reason.BAD_TEXT} == {failure.reason for failure in read.faults.values()}


@pytest.mark.parametrize("kind", ["enum", "bson", "annotated json", "unknown annotation"])
def test_text_is_read_when_it_is_annotated_otherwise(tmp_path: Path, reach: Reach, kind: str) -> None:
    """A column that must be text is text whatever its file calls it."""
    path = write_odd_column(tmp_path / "a.parquet", kind, beside={"url": ["x", "y"]})
    assert (["p", "q"], {}) == read_one(path, 2, Column(name="odd", kind=Kind.STR, required=True), reach=reach)


NAMES = ["", *["a.b", "a", "a b", " x ", "^x$", "x", "*", ".*", "ü 図", "a\nb", "'\"", "URL", "url", "values"]]


def test_columns_are_read_by_their_very_names_when_they_are_odd(tmp_path: Path, reach: Reach) -> None:
    """Blanks, dots, patterns, signs of any script, nothing at all: a name is a name; so is that of a nested field."""
    columns: dict[str, Any] = {name: [number, number + 100] for number, name in enumerate(NAMES)}
    columns["a"] = pa.array([{"b": 1, "c.d": {"a": 7}}, None])  # its field is `a.b` to those who write paths so
    path = write_table(tmp_path / "a.parquet", columns)
    wanted = [Column(name=name, kind=Kind.INT, required=True) for name in NAMES if name != "a"]
    frame = read_rows([piece_of(path, 0, 2)], wanted, reach=reach).frame
    assert {name: columns[name] for name in NAMES if name != "a"} == {
        name: series_of(frame, name).to_list() for name in frame.columns
    }


FILE_NAMES = [
    "a b",
    "x.y.z",
    "100%",
    "a%20b",
    "#1",
    "q?a=1",
    "[a-z]",
    "*",
    "ü 図",
    "a\nb",
    "a=b",
    "~",
    "-x",
    "_x",
    ".x",
]


@pytest.mark.parametrize("name", [*FILE_NAMES, "a:b", "file:", "$HOME", "'"])
def test_file_is_read_under_its_very_name(tmp_path: Path, reach: Reach, name: str) -> None:
    """What looks like a pattern, an address or an escape in a file's or folder's name is a name."""
    path = write_table(tmp_path / name / f"{name}.parquet", {"url": [name]})
    assert ([name], {}) == read_one(path, 1, URL, reach=reach)


def test_file_is_read_when_a_column_that_is_not_wanted_stands_twice(tmp_path: Path, reach: Reach) -> None:
    """Two columns of one name do no harm to others."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array(["u"])], names=["x", "x", "url"]), path)
    assert (["u"], {}) == read_one(path, 1, URL, reach=reach)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [(Kind.STR, "07", "07"), (Kind.INT, "7", 7), (Kind.FLOAT, "7", 7.0), (Kind.STR, None, None)],
)
def test_column_has_one_value_when_it_stands_in_the_folders_name(
    tmp_path: Path,
    reach: Reach,
    kind: Kind,
    value: str | None,
    expected: object,
) -> None:
    """Every row of the file has it, in the column's type; alone, and beside columns of the file."""
    piece = piece_of(write_table(tmp_path / "a.parquet", {"url": ["x", "y", "z"]}), 1, 3, partition=(("key", value),))
    key = Column(name="key", kind=kind, required=True)
    assert [expected] * 2 == read_rows([piece], [key], reach=reach).frame["key"].to_list()
    frame = read_rows([piece], [key, URL], reach=reach).frame
    assert {"key": [expected] * 2, "url": ["y", "z"]} == frame.to_dict(as_series=False)


def test_file_has_the_last_word_when_a_column_stands_in_both(tmp_path: Path, reach: Reach) -> None:
    """Planning has seen to it that they agree; what is read is the file's column, in the file's type."""
    piece = piece_of(write_table(tmp_path / "a.parquet", {"key": [7, 7]}), 0, 2, partition=(("key", "7"),))
    frame = read_rows([piece], [Column(name="key", kind=Kind.INT, required=True)], reach=reach).frame
    assert [7, 7] == frame["key"].to_list()


def test_rows_are_counted_when_no_column_is_wanted(tmp_path: Path, reach: Reach) -> None:
    """A frame without columns has as many rows as the slice, over files and row groups."""
    path = write_table(tmp_path / "a.parquet", {"url": list("abcdef")}, row_group_size=2)
    assert 7 == read_rows([piece_of(path, 1, 5), piece_of(path, 0, 3)], [], reach=reach).frame.height


def test_rows_are_named_when_a_page_is_damaged(tmp_path: Path, reach: Reach) -> None:
    """The eighth file of C08, strictly: of a slice across both row groups, the rows of the damaged one are named."""
    path = write_damaged_page(tmp_path / "i-bad-page.parquet")
    with pytest.raises(UnreadableError, match=r"i-bad-page\.parquet, rows 20 to 29: "):
        read_rows([piece_of(path, 10, 30)], [URL], reach=reach)


@pytest.mark.parametrize("cut", [1, 7, 10, 20, 40])
def test_rows_are_at_fault_when_their_row_group_cannot_be_read(tmp_path: Path, reach: Reach, cut: int) -> None:
    """The eighth file of C08 with files skipped: 20 rows are read, 20 are at fault, however the slices lie."""
    path = write_damaged_page(tmp_path / "a.parquet")
    texts: list[str | None] = []
    faults: dict[int, Reason] = {}
    for start in range(0, 40, cut):
        read = read_slice_of(path, start, min(start + cut, 40), reach=reach)
        texts += read.frame["url"].to_list()
        faults |= {start + row: failure.reason for row, failure in read.faults.items()}
    assert [f"http://127.0.0.1:9/ok.jpg?row={200 + row}" for row in range(20)] + [None] * 20 == texts
    assert dict.fromkeys(range(20, 40), Reason.UNREADABLE_ROWS) == faults


def read_slice_of(path: Path, start: int, stop: int, *, reach: Reach) -> Rows:
    """Read a range of rows, damaged parts failing row by row."""
    return read_rows([piece_of(path, start, stop)], [URL], on_bad_file=OnBadFile.SKIP, reach=reach)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_no_row_is_false_when_pages_have_checksums(tmp_path: Path, reach: Reach, compression: str) -> None:
    """One byte altered, anywhere in a page with a checksum: the rows are as written, or the damage is told."""
    path = tmp_path / "a.parquet"
    write_table(path, plain_columns(20), use_dictionary=False, write_page_checksum=True, compression=compression)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    data, whole, found = path.read_bytes(), read_one(path, 20, URL, reach=reach), []
    for at in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size, 5):
        path.write_bytes(flipped(data, at, 1))
        read = read_slice_of(path, 0, 20, reach=reach)
        found.append((read.frame["url"].to_list(), dict.fromkeys(read.faults, Reason.UNREADABLE_ROWS)))
    told = ([None] * 20, dict.fromkeys(range(20), Reason.UNREADABLE_ROWS))
    assert [] == [each for each in found if each not in (whole, told)]
    assert len(found) - 15 <= found.count(told)  # some bytes of a page's head, its statistics, mean nothing here
    path.write_bytes(data)
    assert whole == read_one(path, 20, URL, reach=reach)
