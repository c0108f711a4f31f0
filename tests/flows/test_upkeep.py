"""The upkeep of a data set: history, rolling back, sweeping."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.local_store import PART, LocalStore
from evenshard.core.layout import OUTCOMES
from evenshard.generations import list_generations, read_generation
from evenshard.inspection import verify
from flows import ingest as ingest_module
from flows.ingest import ingest
from tests.support.commands import ended
from tests.support.sets import read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from pathlib import Path


def grow(folder: Path, rows: range, *, mode: str = "append") -> None:
    """Write a file with such rows, and make a generation of it."""
    write_table(folder / f"t{mode}/{rows.start}.parquet", plain_columns(len(rows), start=rows.start))
    given = {"transform": "rows", "mode": mode, "engine": "threads", "rows_per_slice": 4}
    ingest(source=str(folder / f"t{mode}"), destination=str(folder / "set"), **given)


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """Make a set of three generations: 5 rows, 8 rows, and 2 rows in place of all."""
    grow(tmp_path, range(5))
    grow(tmp_path, range(5, 8))
    grow(tmp_path, range(90, 92), mode="overwrite")
    return tmp_path / "set"


def rows_of(folder: Path) -> list[int]:
    """Give the numbers of all rows of a set that must be whole."""
    verify(LocalStore(folder))
    return [sample["row"] for sample in read_set(folder)]


def test_history_lists_all_generations(grown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with what made it, its rows, chunks, sources; the current one is marked."""
    assert ended(["history", str(grown)]) == 0
    lines = [line.split()[:-2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [["1", "create", "5", "5", "2"], ["2", "append", "8", "8", "3"], ["*", "3", "overwrite", "2", "2", "1"]] == [
        line[: 6 if line[0] == "*" else 5] for line in lines
    ]


def test_earlier_state_is_back_when_rolled_back_to(grown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rolling back publishes the old list as a new generation, without a request; appending goes on from there."""
    assert ended(["rollback", str(grown), "2"]) == 0
    assert "generation 4 in" in capsys.readouterr().out
    assert list(range(8)) == rows_of(grown)
    grow(grown.parent, range(8, 9))
    assert list(range(9)) == rows_of(grown)
    assert [1, 2, 3, 4, 5] == list_generations(LocalStore(grown))
    assert ended(["rollback", str(grown), "9"]) == 2
    assert "9 cannot be rolled back to; earlier generations are: 1, 2, 3, 4" in capsys.readouterr().err


def test_old_states_go_when_asked(grown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sweeping spares every kept generation; with --old-generations only the current one and its chunks are left."""
    before = sorted(path for path in grown.rglob("*") if path.is_file())
    assert ended(["sweep", str(grown), "--older-than", "0s"]) == 0
    assert before == sorted(path for path in grown.rglob("*") if path.is_file())
    assert "0 objects" in capsys.readouterr().out
    assert ended(["sweep", str(grown), "--older-than", "0s", "--old-generations", "--dry-run"]) == 0
    assert before == sorted(path for path in grown.rglob("*") if path.is_file())
    assert ended(["sweep", str(grown), "--older-than", "0s", "--old-generations"]) == 0
    assert [90, 91] == rows_of(grown)
    assert [3] == list_generations(LocalStore(grown))
    assert 1 == len(list(grown.glob("chunk-*")))
    assert ended(["rollback", str(grown), "1"]) == 2


def test_litter_goes_when_it_is_old_enough(grown: Path) -> None:
    """Chunks and outcomes that no receipt names, and half-written files, go; what is younger than the span stays."""
    litter = ["chunk-g0003-s000000-000-aaaaaaaaaaaa.bin", f"{OUTCOMES}g0002-s000000-bbbbbbbbbbbb.parquet"]
    for name in [*litter, f".chunk.1{PART}"]:
        (grown / name).write_bytes(b"left")
    for span, is_left in (("1h", True), ("0s", False)):
        assert ended(["sweep", str(grown), "--older-than", span]) == 0
        assert [is_left] * 3 == [(grown / name).exists() for name in [*litter, f".chunk.1{PART}"]]
    assert [90, 91] == rows_of(grown)


def test_attempts_that_lost_are_gone_when_a_run_is_published(tmp_path: Path) -> None:
    """A chunk of a killed attempt, of this generation, does not outlive the publishing."""
    (tmp_path / "set").mkdir()
    stale = tmp_path / "set/chunk-g0001-s000000-000-aaaaaaaaaaaa.bin"
    stale.write_bytes(b"left")
    grow(tmp_path, range(5))
    assert not stale.exists()


def test_unfinished_run_is_given_up_when_asked(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a stopped run has done is spared, unless it shall be given up; then another plan may begin."""
    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "publish_set", None)
        with pytest.raises(TypeError):
            grow(tmp_path, range(20, 25))
    count = len([path for path in grown.rglob("*") if path.is_file()])
    assert ended(["sweep", str(grown), "--older-than", "0s"]) == 0
    assert count == len([path for path in grown.rglob("*") if path.is_file()])
    assert ended(["rollback", str(grown), "1"]) == 2
    assert "holds an unfinished run; finish it, or sweep it with --unfinished" in capsys.readouterr().err
    assert ended(["sweep", str(grown), "--older-than", "0s", "--unfinished"]) == 0
    assert ended(["rollback", str(grown), "1"]) == 0
    assert list(range(5)) == rows_of(grown)


@pytest.mark.parametrize("span", ["1", "1w", "-1d", "d", ""])
def test_span_of_time_is_refused_when_it_is_none(grown: Path, capsys: pytest.CaptureFixture[str], span: str) -> None:
    """A wrong span is a misuse, in one line."""
    assert ended(["sweep", str(grown), "--older-than", span]) == 2
    assert "--older-than: " in capsys.readouterr().err


def test_reader_of_an_old_generation_keeps_its_chunks(grown: Path) -> None:
    """Whoever opened generation 1 finds all its chunks while later ones are published."""
    store = LocalStore(grown)
    for number in (1, 2):
        for chunk in read_generation(store, number).chunks:
            assert os.path.getsize(grown / chunk.name) == chunk.num_bytes  # noqa: PTH202 - as a reader would
