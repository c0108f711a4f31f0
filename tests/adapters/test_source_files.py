"""Which files a source means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evenshard.adapters.source_files import SourceFile, find_files
from evenshard.core.errors import OptionError

FILES = (
    "b.parquet",
    "a.parquet",
    "C.PARQUET",
    "x/a.parquet",
    "x y.ü/[1].parquet",
    "odd/100%.parquet",
    "odd/a b?#*.parquet",
    "odd/a\nb.parquet",
    "notes.txt",
    "no-ending",
    "_SUCCESS",
    "_metadata",
    "_common_metadata",
    "stats.json",
    "x/part.json",
    "a.parquet.crc",
    ".a.parquet.crc",
    ".hidden.parquet",
    "_temporary/z.parquet",
    "x/_spark_metadata/0.parquet",
    ".git/a.parquet",
)
TABLES = ["C.PARQUET", "a.parquet", "b.parquet"]
ODD = ["odd/100%.parquet", "odd/a\nb.parquet", "odd/a b?#*.parquet"]
DEEP = ["x/a.parquet", "x y.ü/[1].parquet"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with tables, folders with odd names, and side files."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def paths_of(source: str) -> list[str]:
    """Give the paths of what a source means."""
    return [file.path for file in find_files(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".", [*TABLES, *ODD, *DEEP]),
        ("a.parquet", ["a.parquet"]),
        ("notes.txt", ["notes.txt"]),
        ("_metadata", ["_metadata"]),
        ("_temporary", ["_temporary/z.parquet"]),
        (".hidden.parquet", [".hidden.parquet"]),
        ("x y.ü/[1].parquet", ["x y.ü/[1].parquet"]),
        ("odd/a b?#*.parquet", ["odd/a b?#*.parquet"]),
        ("odd/a\nb.parquet", ["odd/a\nb.parquet"]),
        ("*.parquet", ["a.parquet", "b.parquet"]),
        ("**/a.parquet", ["a.parquet", "x/a.parquet"]),
        ("?.parquet", ["a.parquet", "b.parquet"]),
        ("*", [*TABLES, *ODD, *DEEP, "no-ending", "notes.txt"]),
        ("**", [*TABLES, *ODD, *DEEP, "no-ending", "notes.txt"]),
        ("x*", DEEP),
        ("_meta*", ["_metadata"]),
        ("*.json", ["stats.json"]),
        ("_*/*.parquet", ["_temporary/z.parquet"]),
    ],
    ids=repr,
)
def test_files_are_found_sorted_when_a_source_means_them(folder: Path, source: str, expected: list[str]) -> None:
    """Files as given; folders through and through, side files left alone; patterns; always absolute and sorted."""
    found = paths_of(f"{folder}/{source}")
    assert sorted(str(folder / name) for name in expected) == found
    assert all(Path(path).is_absolute() for path in found)


def test_path_is_absolute_when_the_source_is_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan holds absolute paths, since workers may stand elsewhere."""
    monkeypatch.chdir(folder)
    assert [str(folder / "a.parquet")] == paths_of("a.parquet")
    assert [str(folder / "a.parquet"), str(folder / "b.parquet")] == paths_of("*.parquet") == paths_of("./?.parquet")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("t", [(("lang", "de"), ("year", "2020")), (("lang", None), ("year", "2021"))]),
        ("t/*/*/*.parquet", [(("lang", "de"), ("year", "2020")), (("lang", None), ("year", "2021"))]),
        ("t/lang=*", [(("lang", "de"), ("year", "2020")), (("lang", None), ("year", "2021"))]),
        ("t/lang=de", [(("year", "2020"),)]),
        ("t/lang=de/year=*/*.parquet", [(("year", "2020"),)]),
        ("t/lang=de/year=2020/a=b.parquet", [()]),
    ],
    ids=["folder", "pattern", "folders by pattern", "inner folder", "inner pattern", "file"],
)
def test_folders_are_columns_when_they_lie_below_the_source(
    tmp_path: Path, source: str, expected: list[tuple[tuple[str, str | None], ...]]
) -> None:
    """Below a folder, and below the fixed part of a pattern; above it names are just names, as is a file's own."""
    for name in ("lang=de/year=2020/a=b.parquet", "lang=__HIVE_DEFAULT_PARTITION__/year=2021/c.parquet"):
        path = tmp_path / "above=1/t" / name
        path.parent.mkdir(parents=True)
        path.touch()
    found = find_files(f"{tmp_path}/above=1/{source}")
    assert sorted(expected, key=repr) == sorted((file.partition for file in found), key=repr)


def test_folder_is_no_side_folder_when_it_is_a_column(tmp_path: Path) -> None:
    """Other programs take `_key=value` for a column too, though it begins as side folders do."""
    path = tmp_path / "_key=1/_temporary/a.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "_key=1/b.parquet").touch()
    assert [(("_key", "1"),)] == [file.partition for file in find_files(str(tmp_path))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("http://h.example/a b.parquet", SourceFile(path="http://h.example/a%20b.parquet")),
        ("HTTPS://H.example:443/x?q=*", SourceFile(path="https://h.example/x?q=*")),
        ("http://me:pw@h.example/x", SourceFile(path="http://h.example/x", login="me:pw")),
    ],
    ids=["blank", "spelling", "login"],
)
def test_address_is_one_file_when_it_is_http(source: str, expected: SourceFile) -> None:
    """No sign in it is a pattern; the login is kept apart."""
    assert [expected] == find_files(source)


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
        "empty/*": "no file matches",
        "x" * 300: "cannot be looked for: OSError",
        "x" * 5000 + "*": "no file matches|cannot be looked for",
        "a\0b": "does not exist",
    }.items():
        with pytest.raises(OptionError, match=told):
            find_files(f"{tmp_path}/{source}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("s3://me:SECRET@bucket/x", r"s3://\*\*\*@bucket/x holds a login; credentials come from boto3's chain"),
        ("http://[::1/x?sig=SECRET", r"http://\[::1/x\?sig=\.\.\. is no address: "),
        ("http:///x", r"http:///x is no address: the link has no host"),
    ],
)
def test_address_is_refused_in_words_without_secrets(source: str, told: str) -> None:
    """Another scheme, or what no address can be; login and signature are not repeated."""
    with pytest.raises(OptionError, match=told) as caught:
        find_files(source)
    assert "SECRET" not in str(caught.value)


def test_file_is_named_when_it_is_a_link_to_nowhere(tmp_path: Path) -> None:
    """Such a file is found, so that its planning says what is wrong with it; a pipe is not, it would be waited for."""
    (tmp_path / "a.parquet").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "b.parquet")
    assert [str(tmp_path / "a.parquet")] == paths_of(str(tmp_path)) == paths_of(f"{tmp_path}/*")
