"""Which files a source means."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenshard.adapters.source_files import find_files
from evenshard.core.errors import OptionError

FILES = (
    "b.parquet",
    "a.parquet",
    "x/a.parquet",
    "x y.ü/[1].parquet",
    "notes.txt",
    "_temporary/z.parquet",
    ".hidden.parquet",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with tables, folders with odd names, and side files."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".", ["a.parquet", "b.parquet", "x/a.parquet", "x y.ü/[1].parquet"]),
        ("a.parquet", ["a.parquet"]),
        ("notes.txt", ["notes.txt"]),
        ("x y.ü/[1].parquet", ["x y.ü/[1].parquet"]),
        ("*.parquet", ["a.parquet", "b.parquet"]),
        ("**/a.parquet", ["a.parquet", "x/a.parquet"]),
        ("?.parquet", ["a.parquet", "b.parquet"]),
    ],
    ids=["folder", "file", "any ending", "magic in a name", "glob", "deep glob", "one letter"],
)
def test_files_are_found_sorted_when_a_source_means_them(folder: Path, source: str, expected: list[str]) -> None:
    """Files as given; folders through and through, side files left alone; patterns; always absolute and sorted."""
    found = find_files(f"{folder}/{source}")
    assert sorted(str(folder / name) for name in expected) == found
    assert all(Path(path).is_absolute() for path in found)


def test_path_is_absolute_when_the_source_is_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan holds absolute paths, since workers may stand elsewhere."""
    monkeypatch.chdir(folder)
    assert [str(folder / "a.parquet")] == find_files("a.parquet")


def test_source_is_refused_when_it_means_nothing(tmp_path: Path) -> None:
    """A missing path, an empty folder, a folder of other things, a pattern without a match: each says what it is."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    for number in range(5):
        (tmp_path / f"other/{number}.csv").touch()
    for source, told in {
        "none": "does not exist",
        "empty": "the folder is empty",
        "other": r"no \.parquet file in the folder, only 0\.csv, 1\.csv, 2\.csv, \.\.\.",
        "*.nothing": "no file matches",
        "x" * 300: "cannot be looked for: OSError",
        "x" * 5000 + "*": "no file matches|cannot be looked for",
        "a\0b": "does not exist",
    }.items():
        with pytest.raises(OptionError, match=told):
            find_files(f"{tmp_path}/{source}")
