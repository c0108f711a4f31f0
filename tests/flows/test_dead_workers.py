"""A worker process that dies takes nothing with it, and is never a quiet success."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from evenshard.core.errors import UnfinishedError
from flows.ingest import ingest
from tests.support import deadly
from tests.support.sets import read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder where deaths leave their marks."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv(deadly.MARKS, str(folder))
    return folder


def run(tmp_path: Path, transform: str) -> int:
    """Ingest 20 rows in ten slices on two worker processes; gives the stored rows."""
    source = write_table(tmp_path / "t.parquet", plain_columns(20))
    options = {"engine": "processes", "engine_workers": 2, "rows_per_slice": 2, "transform": transform}
    result = ingest(source=str(source), destination=str(tmp_path / "set"), **options)
    return int(result["stored"])


def test_slice_is_done_again_when_its_worker_is_killed(tmp_path: Path, marks: Path) -> None:
    """One `kill -9`: the slice is done again on a fresh worker, all others once, and the set is whole."""
    assert run(tmp_path, "tests.support.deadly:DiesOnce") == 20
    assert list(range(20)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    pids = [mark.name.split("-")[1] for mark in marks.iterdir()]
    assert len(pids) == len(set(pids)) == 2


def test_run_fails_with_the_slice_named_when_each_worker_is_killed(tmp_path: Path, marks: Path) -> None:
    """Killed at every attempt: the run fails by name, nothing is published, the other slices are kept."""
    with pytest.raises(UnfinishedError, match=r"slice 2: .*was ended by SIGKILL") as caught:
        run(tmp_path, "tests.support.deadly:DiesAlways")
    assert [2] == [index for index, _ in caught.value.problems]
    assert not (tmp_path / "set/index.json").exists()
    assert len(list((tmp_path / "set/.evenshard/receipts/g0001").iterdir())) == 9
    assert len(list(marks.iterdir())) == 6  # three attempts in each of two rounds
