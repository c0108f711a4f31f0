"""The command `outcomes`: counts by reason and host, rows on the screen or in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from flows.ingest import ingest
from tests.support.commands import ended
from tests.support.pictures import jpeg
from tests.support.tables import link_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a data set of 40 rows, of which some failed, and give its folder."""
    folder = tmp_path_factory.mktemp("made")
    picture = jpeg()
    with Web(lambda _: Answer(body=picture)) as web, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENSHARD_ALLOW_HOSTS", "127.0.0.1")
        web.answers = {f"/{row}.jpg": Answer(status=404) for row in range(0, 40, 4)} | {"/1.jpg": Answer()}
        links: list[str | None] = [f"{web.address}/{row}.jpg" for row in range(40)]
        links[2], links[3], links[5] = None, "http://10.0.0.1/\x1b[31mred.jpg", "HTTP://User@[fd00::1]:80/x.jpg"
        source = write_table(folder / "a.parquet", link_columns(links))
        ingest(source=str(source), destination=str(folder / "set"), rows_per_slice=7, engine="threads")
    return folder / "set"


def test_counts_are_shown_by_reason_and_host(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a selection: how many rows ended how, and which hosts failed most."""
    assert ended(["outcomes", str(made)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    assert "failed http-status 10 the server said no; see the status" in lines
    assert "failed empty-body 1 the answer had no byte" in lines
    assert "stored 26" in lines
    assert "127.0.0.1 11 10 http-status, 1 empty-body" in lines
    assert "[fd00::1] 1 1 address-refused" in lines
    assert lines[-1] == "evenshard: 40 rows"


def test_rows_are_shown_with_what_was_seen(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Failed rows, one a line: reason, status, file, row, link; what would steer the terminal is written out."""
    assert ended(["outcomes", str(made), "--failed", "--limit", "4"]) == 0
    first, *_, last_row, last = capsys.readouterr().out.splitlines()

    assert first.startswith("http-status 404  ")
    assert " row 0  http://127.0.0.1:" in first
    assert last_row.startswith("bad-link  ")
    assert "\\x1b[31mred" in last_row
    assert "\x1b" not in last_row
    assert last == "evenshard: 14 rows, the first 4 of them shown; --limit shows more, --to writes all"


def test_rows_of_a_reason_are_written_to_a_file(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A selection goes to Parquet whole, in row order; an existing file is not written over."""
    file = tmp_path / "rows.parquet"
    command = ["outcomes", str(made), "--reason", "http-status", "--reason", "no-link", "--to", str(file)]
    assert ended(command) == 0
    rows = pl.read_parquet(file)

    assert [0, 2, *range(4, 40, 4)] == rows["row"].to_list()
    assert {404, None} == set(rows["http_status"].to_list())
    assert capsys.readouterr().out.splitlines()[-1] == f"evenshard: 11 rows written to {file}"
    assert ended(command) == 2
    assert f"--to: {file} exists already; name another file" in capsys.readouterr().err
    assert [file] == list(tmp_path.iterdir())


def test_all_rows_are_written_without_a_selection(made: Path, tmp_path: Path) -> None:
    """Without a selection the file holds every row of the table once."""
    assert ended(["outcomes", str(made), "--to", str(tmp_path / "all.parquet")]) == 0
    assert list(range(40)) == pl.read_parquet(tmp_path / "all.parquet")["row"].to_list()


def test_slices_so_far_are_counted_when_nothing_is_published(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The destination of a run that was stopped tells of the slices that it finished."""
    for file in made.rglob("*"):
        if file.is_file() and file.name not in {"manifest.json", "index.json", "s000001.json"}:
            copy = tmp_path / "set" / file.relative_to(made)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    assert ended(["outcomes", str(tmp_path / "set")]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()

    assert first == "evenshard: nothing is published yet; these are the 5 slices done so far"
    assert last == "evenshard: 33 rows"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "holds neither a data set nor a run"),
        (["--reason", "bad-luck"], 2, "--reason: 'bad-luck' is not one of no-link, bad-link"),
    ],
)
def test_misuse_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, message: str
) -> None:
    """A folder without a set, or a reason that is none, is an error in one line."""
    assert ended(["outcomes", str(tmp_path), *options]) == code
    assert message in capsys.readouterr().err


def test_altered_outcomes_are_told(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not what was signed for is named instead of believed."""
    for file in made.rglob("*"):
        if file.is_file():
            copy = tmp_path / "set" / file.relative_to(made)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes() + (b"x" if "outcomes/g0001-s000002" in str(file) else b""))
    assert ended(["outcomes", str(tmp_path / "set")]) == 1
    assert "slice 2: .evenshard/outcomes/g0001-s000002-" in capsys.readouterr().err
