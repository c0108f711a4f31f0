"""Data sets that grow: what is new is added, what is there is left alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.footers import read_footers
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import BadSourcesError, DestinationError
from evenshard.generations import list_generations, read_manifest
from evenshard.inspection import verify
from flows import ingest as ingest_module
from flows.ingest import ingest
from tests.support.sets import outcomes_of, read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from evenshard.adapters.source_files import SourceFile


def run(source: Path, destination: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the flow's own
    """Append the rows of a table as they are."""
    given = {"transform": "rows", "mode": "append", "engine": "threads", "rows_per_slice": 4, **options}
    result: dict[str, Any] = ingest(source=str(source), destination=str(destination), **given)
    return result


def rows_of(folder: Path) -> list[int]:
    """Give the numbers of all rows in a set, in order; the set must be whole."""
    verify(LocalStore(folder))
    return [sample["row"] for sample in read_set(folder)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write a folder with two files, of rows 0 to 6 and 7 to 9."""
    write_table(tmp_path / "t/a.parquet", plain_columns(7))
    write_table(tmp_path / "t/b.parquet", plain_columns(3, start=7))
    return tmp_path / "t"


def test_new_files_are_added_when_there_are_some(table: Path, tmp_path: Path) -> None:
    """The first run creates; the next adds what is new, after what is there; chunks that are there stay as they are."""
    first = run(table, tmp_path / "set")
    chunks = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "set").glob("chunk-*")}
    write_table(table / "0-new.parquet", plain_columns(5, start=10))
    second = run(table, tmp_path / "set")

    assert (1, 10, 2, 15) == (first["generation"], first["stored"], second["generation"], second["stored"])
    assert list(range(15)) == rows_of(tmp_path / "set")
    assert chunks.items() <= {path.name: path.stat().st_mtime_ns for path in (tmp_path / "set").glob("chunk-*")}.items()
    sources = Counter(Path(row["source"]).stem for row in outcomes_of(tmp_path / "set"))
    assert {"a": 7, "b": 3, "0-new": 5} == sources


def test_nothing_is_done_when_nothing_is_new(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with nothing new ends well, reads no footer, writes nothing, and gives what is there."""
    first = run(table, tmp_path / "set")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}
    monkeypatch.setattr("evenshard.planning.read_footers", None)
    assert first == run(table, tmp_path / "set")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}


def test_only_new_footers_are_read_when_appending(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old footers are not read again, however many there are."""
    run(table, tmp_path / "set")
    new = write_table(table / "c.parquet", plain_columns(2, start=10))
    read: list[str] = []

    def noted(files: list[SourceFile], **options: Any) -> Any:  # noqa: ANN401 - as the function replaced
        read.extend(file.path for file in files)
        return read_footers(files, **options)

    monkeypatch.setattr("evenshard.planning.read_footers", noted)
    run(table, tmp_path / "set")
    assert [str(new)] == read


def test_changed_file_is_refused_unless_it_shall_be_taken_again(table: Path, tmp_path: Path) -> None:
    """A file changed under its name is noticed; with reingest its rows take the place of the old, all others stay."""
    run(table, tmp_path / "set")
    write_table(table / "b.parquet", plain_columns(4, start=100))
    with pytest.raises(BadSourcesError, match=r"b\.parquet: has changed since samples were made from it"):
        run(table, tmp_path / "set")
    assert list(range(10)) == rows_of(tmp_path / "set")

    result = run(table, tmp_path / "set", on_changed_source="reingest")
    assert (2, 11, 11) == (result["generation"], result["planned"], result["stored"])
    assert [*range(7), *range(100, 104)] == sorted(rows_of(tmp_path / "set"))
    assert result == run(table, tmp_path / "set")


def test_samples_stay_when_their_file_is_gone(table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A source that disappeared is reported, its rows stay."""
    run(table, tmp_path / "set")
    (table / "b.parquet").unlink()
    write_table(table / "c.parquet", plain_columns(1, start=10))
    run(table, tmp_path / "set")
    assert list(range(11)) == rows_of(tmp_path / "set")
    assert f"{table / 'b.parquet'} is gone; the samples made from it stay" in caplog.text


def test_settings_must_be_the_same_when_appending(table: Path, tmp_path: Path) -> None:
    """Samples of another shape or make are not mixed in; what differs is named."""
    run(table, tmp_path / "set")
    write_table(table / "c.parquet", plain_columns(1, start=10))
    with pytest.raises(DestinationError, match=r"made with other settings.*chunk_bytes: 64000000 -> 1000"):
        run(table, tmp_path / "set", chunk_bytes="1kB")
    assert list(range(10)) == rows_of(tmp_path / "set")


def test_append_that_was_stopped_is_finished_before_more_is_added(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped append holds up nobody: the next run, with more files by then, finishes it and goes on."""
    run(table, tmp_path / "set")
    write_table(table / "c.parquet", plain_columns(3, start=10))
    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "publish_set", None)
        with pytest.raises(TypeError):
            run(table, tmp_path / "set")
    assert 1 == read_manifest(LocalStore(tmp_path / "set")).generation
    write_table(table / "d.parquet", plain_columns(2, start=13))
    result = run(table, tmp_path / "set")
    assert 3 == result["generation"]
    assert list(range(15)) == rows_of(tmp_path / "set")


def test_overwrite_begins_anew_and_keeps_the_old(table: Path, tmp_path: Path) -> None:
    """The new samples take the place of all; the old chunks stay until they are swept, for readers that hold them."""
    run(table, tmp_path / "set")
    old = {path.name for path in (tmp_path / "set").glob("chunk-*")}
    write_table(table / "a.parquet", plain_columns(2, start=50))
    result = run(table, tmp_path / "set", mode="overwrite")
    assert (2, 5) == (result["generation"], result["stored"])
    assert [50, 51, 7, 8, 9] == rows_of(tmp_path / "set")
    assert old <= {path.name for path in (tmp_path / "set").glob("chunk-*")}
    assert [1, 2] == list_generations(LocalStore(tmp_path / "set"))


def test_same_command_ends_well_when_all_is_published(table: Path, tmp_path: Path) -> None:
    """The same plan once more is nothing to do; another is refused, and told of append and overwrite."""
    first = run(table, tmp_path / "set", mode="create")
    assert first == run(table, tmp_path / "set", mode="create")
    with pytest.raises(DestinationError, match="--mode append or overwrite"):
        run(table, tmp_path / "set", mode="create", rows_per_slice=3)
