"""`optimize`: what it takes, and what it refuses before any work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import OptionError
from evenshard.generations import read_manifest
from flows.optimize import _files_in, optimize
from tests.support.sets import read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl


@pytest.mark.parametrize(
    ("inputs", "files"),
    [
        ("a.parquet", ["a.parquet"]),
        (Path("t/a.parquet"), ["t/a.parquet"]),
        (["a.parquet", Path("b.parquet")], ["a.parquet", "b.parquet"]),
        ((f"{part}.parquet" for part in "ab"), ["a.parquet", "b.parquet"]),
    ],
    ids=["text", "path", "list", "generator"],
)
def test_files_are_those_that_are_named(inputs: object, files: list[str]) -> None:
    """One path is one file, and not its letters."""
    assert files == _files_in(inputs)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"fn": 5}, "fn: 5 cannot be called; give a function of a polars DataFrame"),
        ({"inputs": 5}, "inputs: 5 is no list of paths: "),
        ({"inputs": [5]}, r"inputs: \[5\] is no list of paths: "),
        ({"inputs": None}, "inputs: None is no list of paths: "),
        ({"mode": "merge"}, "mode: input should be 'create', 'append' or 'overwrite', not 'merge'"),
        ({"inputs": "ftp://h/a.parquet"}, "source: ftp://h/a.parquet: files are read from folders"),
    ],
    ids=["fn", "number", "numbers", "nothing", "mode", "scheme"],
)
def test_call_is_refused_in_one_line_when_it_cannot_be_done(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    """The option is named, and nothing is begun."""
    fn: Callable[..., Any] = list
    with pytest.raises(OptionError, match=told) as caught:
        optimize(**{"fn": fn, "inputs": ["a.parquet"], "output_dir": tmp_path / "set", **given})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "set").exists()


class Numbers:
    """Yields a number of its own beside the row's."""

    def __init__(self, added: int) -> None:
        self.added = added

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield one sample a row."""
        for row in frame["row"]:
            yield {"row": row, "sum": row + self.added}


def test_what_is_new_is_added_when_a_callable_is_asked_to_append(tmp_path: Path) -> None:
    """The same callable adds the new files, and nothing new ends well; so does a later version, which is recorded."""
    files, folder = [write_table(tmp_path / "a.parquet", plain_columns(5))], tmp_path / "set"
    optimize(Numbers(100), files, folder, mode="append")
    files.append(write_table(tmp_path / "b.parquet", plain_columns(3, start=5)))
    for added in (100, 7):  # with nothing new, nobody asks for the version
        assert 2 == optimize(Numbers(added), files, folder, mode="append")["generation"]
    files.append(write_table(tmp_path / "c.parquet", plain_columns(3, start=8)))
    optimize(Numbers(7), files, folder, mode="append")

    sums = [*range(100, 108), *range(15, 18)]
    assert [{"row": row, "sum": sums[row]} for row in range(11)] == read_set(folder)
    versions = [part.plan.recipe.transform_version for part in read_manifest(LocalStore(folder)).parts]
    assert versions[0] == versions[1] != versions[2]
