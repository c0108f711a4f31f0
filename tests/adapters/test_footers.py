"""Footers: what planning learns of each file, and what is said of files that have none."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenshard.adapters.footers import BadFile, read_footers
from evenshard.adapters.source_files import SourceFile
from tests.support.tables import write_broken_files, write_table

if TYPE_CHECKING:
    from evenshard.core.columns import Footer
    from evenshard.core.partition import Partition


def footer_of(path: Path, partition: Partition = ()) -> Footer:
    """Read one footer that is there."""
    (footer,), bad = read_footers([SourceFile(path=str(path), partition=partition)])
    assert [] == bad
    return footer


def bad_file(path: Path) -> BadFile:
    """Read one footer that is not there."""
    footers, (bad,) = read_footers([SourceFile(path=str(path))])
    assert [] == footers
    return bad


def test_bad_files_are_named_with_what_they_are_when_planning(tmp_path: Path) -> None:
    """The public case C08: all seven bad files at once, each with its own reason; what they hold is bad."""
    folder = write_broken_files(tmp_path / "meta")
    footers, bad = read_footers([SourceFile(path=str(path)) for path in sorted(folder.iterdir())])
    assert ["a-good", "i-bad-page", "z-good"] == [Path(footer.path).stem for footer in footers]
    told = {Path(each.path).stem: each.reason for each in bad}
    expected = {
        "b-bad-magic": "cut short or overwritten at its end",
        "c-bad-footer": "its footer is damaged",
        "d-cut": "cut short or overwritten at its end",
        "e-zero-bytes": "the file is empty (0 bytes)",
        "f-text": "not a Parquet file but text",
        "g-web-page": "not a Parquet file but a web page",
        "h-gzip": "not a Parquet file but gzip data",
    }
    assert expected.keys() == told.keys()
    assert all(told[name].startswith(reason) for name, reason in expected.items())
    assert all("\n" not in reason for reason in told.values())
    assert all(each.may_be_left_out for each in bad)


def test_file_may_not_be_left_out_when_it_cannot_be_opened(tmp_path: Path) -> None:
    """A link that leads nowhere, a folder in a file's place, a name that no plan can hold: nobody knows what is in."""
    (tmp_path / "gone.parquet").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.parquet").mkdir()
    odd = tmp_path / "b\udcff.parquet"
    odd.touch()
    for name, told in {
        "gone.parquet": "cannot be opened: No such file or directory",
        "folder.parquet": "cannot be opened: ",
        odd.name: "its name is no UTF-8",
    }.items():
        bad = bad_file(tmp_path / name)
        assert (True, False) == (bad.reason.startswith(told), bad.may_be_left_out), bad


def test_column_is_unusable_when_its_name_stands_twice(tmp_path: Path) -> None:
    """Which of the two is meant cannot be told; the other columns do not mind."""
    path = tmp_path / "a.parquet"
    columns = [pa.array([1]), pa.array([2]), pa.array(["u"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "x", "url"]), path)
    assert {"x": "stands in the file more than once"} == footer_of(path).unusable


KINDS: dict[str, tuple[Any, str]] = {
    "text": (pa.array(["a"]), "str"),
    "large text": (pa.array(["a"], pa.large_string()), "str"),
    "text view": (pa.array(["a"], pa.string_view()), "str"),
    "dictionary": (pa.array(["a"]).dictionary_encode(), "str"),
    "json": (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])), "str"),
    "bytes": (pa.array([b"a"]), "bytes"),
    "uuid": (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16], pa.binary(16))), "bytes"),
    "fixed": (pa.array([b"abc"], pa.binary(3)), "bytes"),
    "half": (pa.array([1.5], pa.float16()), "float"),
    "uint64": (pa.array([2**64 - 1], pa.uint64()), "int"),
    "null": (pa.nulls(1), "null"),
    "decimal": (pa.array([decimal.Decimal(1)], pa.decimal128(5)), "decimal128(5, 0)"),
    "moment": (pa.array([1], pa.timestamp("ns")), "timestamp[ns]"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_the_field_that_holds_the_column(tmp_path: Path, kind: str) -> None:
    """Every way of storing text is text; what no field holds keeps its own name."""
    values, expected = KINDS[kind]
    assert {"x": expected} == footer_of(write_table(tmp_path / "a.parquet", {"x": values})).columns


@pytest.mark.parametrize(
    ("column", "value", "is_unusable"),
    [
        (["de", "de"], "de", False),
        (["de", "en"], "de", True),
        (["de", None], "de", True),
        ([None, None], None, False),
        ([2020, 2020], "2020", False),
        ([2020, 2021], "2020", True),
        ([], "de", False),
    ],
    ids=["agrees", "another value", "a missing one", "all missing", "numbers", "other numbers", "no rows"],
)
def test_column_is_unusable_when_its_folder_says_otherwise(
    tmp_path: Path, column: list[Any], value: str | None, is_unusable: bool
) -> None:
    """A column in the file and in its folder's name is the file's if its statistics show only that value."""
    kind = pa.int64() if column and isinstance(column[0], int) else pa.string()
    path = write_table(tmp_path / "a.parquet", {"key": pa.array(column, kind)}, row_group_size=1)
    assert is_unusable == ("key" in footer_of(path, (("key", value),)).unusable)
    path = write_table(tmp_path / "b.parquet", {"key": pa.array(column, kind)}, write_statistics=False)
    assert bool(column) == ("key" in footer_of(path, (("key", value),)).unusable)


def test_footer_is_damaged_when_its_counts_do_not_add_up(tmp_path: Path) -> None:
    """Rows of the file are those of its row groups; here the total is altered by one bit."""
    path = write_table(tmp_path / "a.parquet", {"x": list(range(70))}, compression="none")
    data = path.read_bytes()
    at = data.rindex(b"\x16\x8c\x01\x19")  # num_rows, 70 as a zigzag number, before the list of row groups
    path.write_bytes(data[: at + 1] + b"\x8e" + data[at + 2 :])
    assert "its footer is damaged: it counts 71 rows, its row groups 70" == bad_file(path).told
