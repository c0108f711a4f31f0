"""The flow `benchmark-loader`: each pass a program, every time kept, a table, plots, and artifacts."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from PIL import Image
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey

from evenshard.core.errors import OptionError, PassError
from flows.benchmark import benchmark_loader
from flows.benchmark_report import real_cores
from flows.ingest import ingest
from flows.text import ingest_text
from tasks.measure import measure_pass
from tests.support.archives import write_archive, write_archives
from tests.support.commands import ended
from tests.support.programs import ROOT, environment
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from evenshard.core.timing import Pass
    from evenshard.loader_benchmark import PlannedPass

NUM_DOCUMENTS = 30
PNG_SIZE = (1125, 1080)


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Write two archives of three members with five documents each."""
    write_archives(tmp_path / "a", archives=2, members=3, count=5)
    return tmp_path / "a"


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Read the times that were kept."""
    with (folder / "timings.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_pass_is_kept_and_shown(archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two kinds, three numbers of workers, two repeats: twelve rows, six points, in the file and on the terminal."""
    ingest_text(source=str(archives), destination=str(tmp_path / "set"), engine="threads")
    out, cores = tmp_path / "out", real_cores()
    given = ["--chunks", str(tmp_path / "set"), "--workers", f"{cores + 1},1", "--workers", str(cores)]
    assert 0 == ended(["benchmark", str(archives), *given, "--repeats", "2", "--out", str(out)])

    rows, numbers = rows_of(out), sorted({1, cores, cores + 1})
    assert ["num_workers", "elapsed_seconds", "command"] == list(rows[0])[:3]
    assert [
        (str(repeat), kind, str(number)) for repeat in (1, 2) for kind in ("archives", "chunks") for number in numbers
    ] == [(row["repeat"], row["kind"], row["num_workers"]) for row in rows]
    assert {str(NUM_DOCUMENTS)} == {row["num_samples"] for row in rows}
    assert 1 == len({row["num_bytes"] for row in rows})
    assert all(float(row["elapsed_seconds"]) > float(row["load_seconds"]) > 0 for row in rows)

    told = capsys.readouterr().out
    assert f"as many as there are cores: {cores}" in told
    assert told.count("more than cores") == 2
    assert f"timings.csv, throughput.png, throughput.svg are in {out}" in told


def test_plots_are_pictures_of_both_kinds(archives: Path, tmp_path: Path) -> None:
    """The PNG has its size and something on it; the SVG is sound XML that names both loaders and the cores."""
    ingest_text(source=str(archives), destination=str(tmp_path / "set"), engine="threads")
    given = {"source": str(archives), "chunks": str(tmp_path / "set"), "workers": [1, 64], "repeats": 1}
    benchmark_loader(out=str(tmp_path / "out"), warm_ups=0, samples=5, **given)
    with Image.open(tmp_path / "out/throughput.png") as picture:
        assert ("PNG", PNG_SIZE) == (picture.format, picture.size)
        assert len(picture.convert("RGB").getcolors(2**20) or ()) > 10
    tree = ET.parse(tmp_path / "out/throughput.svg")  # noqa: S314 - it was written here
    texts = {each.text for each in tree.iter() if each.text}
    wanted = {"OpenWebTextLoader, from archives", "ChunkLoader, from their chunks", f"{real_cores()} cores"}
    assert wanted <= texts
    assert {"5"} == {row["num_samples"] for row in rows_of(tmp_path / "out")}


def test_command_of_a_pass_can_be_run_by_hand(archives: Path, tmp_path: Path) -> None:
    """What stands in the third column is the pass, to the last option."""
    result = benchmark_loader(source=str(archives), out=str(tmp_path / "out"), workers=[2], repeats=1, warm_ups=0)
    assert ["archives"] == [point["read"] for point in result["points"]]
    (row,) = rows_of(tmp_path / "out")
    done = subprocess.run(
        shlex.split(row["command"]), cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout)
    assert (NUM_DOCUMENTS, int(row["num_bytes"])) == (measured["num_samples"], measured["num_bytes"])
    assert measured["cpu_seconds"] > 0


def test_artifacts_are_in_prefect(archives: Path, tmp_path: Path) -> None:
    """A table with a row for each point, and notes; a path with signs of Markdown in it stays text."""
    odd = archives.rename(tmp_path / "a`|*[x](y)")
    benchmark_loader(source=str(odd), out=str(tmp_path / "out"), workers=[1, 2], repeats=1, warm_ups=0)
    wanted = ArtifactCollectionFilter(
        key=ArtifactCollectionFilterKey(any_=["benchmark-loader", "benchmark-loader-notes"])
    )
    with get_client(sync_client=True) as client:
        found = {each.key: each for each in client.read_latest_artifacts(artifact_filter=wanted)}
    table = json.loads(str(found["benchmark-loader"].data))
    assert [1, 2] == [row["workers"] for row in table]
    assert "`" + str(odd).replace("`", "'") + "`" in str(found["benchmark-loader-notes"].data)


def test_times_stay_when_a_later_pass_fails(archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is gone in the middle ends the run with what the pass said, and the command to try."""
    from flows import benchmark as module  # noqa: PLC0415 - what it calls is replaced

    def measure_then_remove(planned: PlannedPass) -> Pass:
        done = measure_pass(planned)
        for path in archives.iterdir():
            path.unlink()
        return done

    monkeypatch.setattr(module, "measure_pass", measure_then_remove)
    with pytest.raises(PassError, match=r"^a pass failed: source: .*/a: the folder is empty; .*; its command is "):
        benchmark_loader(source=str(archives), out=str(tmp_path / "out"), workers=[1, 2], repeats=2, warm_ups=0)
    assert ["1"] == [row["num_workers"] for row in rows_of(tmp_path / "out")]


def test_damaged_archive_fails_with_its_name(tmp_path: Path) -> None:
    """An archive that cannot be read is no fast one."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(PassError, match=r"x\.tar"):
        benchmark_loader(source=str(tmp_path / "a"), out=str(tmp_path / "out"), workers=[1], repeats=1)


def test_archives_without_a_document_fail(tmp_path: Path) -> None:
    """No sample has no speed."""
    write_archive(tmp_path / "a/x.tar", {})
    with pytest.raises(PassError, match="holds no sample"):
        benchmark_loader(source=str(tmp_path / "a"), out=str(tmp_path / "out"), workers=[1], repeats=1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workers", "0,2"], "--workers: value error, give numbers from 1 to 1024"),
        (["--workers", "two"], "--workers: "),
        (["--workers", ","], "--workers: "),
        (["--repeats", "0"], "--repeats: "),
        (["--chunks", "nothing-here"], "--chunks: nothing-here holds no published data set; `evenshard text` makes"),
        (["--chunks", "pictures"], "--chunks: pictures is not of texts; give a set that `evenshard text` made"),
        (["--out", "taken"], "--out: taken/timings.csv exists; give another folder, or move it away"),
    ],
)
def test_option_is_named_when_it_cannot_be_used(
    options: list[str], told: str, archives: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, nothing measured, nothing written."""
    folder = archives.parent
    monkeypatch.chdir(folder)
    (folder / "taken").mkdir()
    (folder / "taken/timings.csv").write_text("mine")
    if "pictures" in options:
        write_table(folder / "t.parquet", plain_columns(3))
        ingest(source="t.parquet", destination="pictures", transform="rows", engine="threads")
    before = sorted(folder.rglob("*"))
    assert 2 == ended(["benchmark", str(archives), *options])
    error = capsys.readouterr().err
    assert error.startswith(f"evenshard: {told}")
    assert 1 == error.count("\n")
    assert before == sorted(folder.rglob("*"))
    assert "mine" == (folder / "taken/timings.csv").read_text()


def test_source_without_archives_is_named(tmp_path: Path) -> None:
    """Nothing is measured, and no folder made."""
    with pytest.raises(OptionError, match=r"source: .* does not exist"):
        benchmark_loader(source=str(tmp_path / "nowhere"), out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_extra_is_named_when_it_is_not_installed(archives: Path, tmp_path: Path) -> None:
    """Before Prefect is started, and before the first pass."""
    program = "import sys; sys.modules['matplotlib'] = None; from flows.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, "benchmark", str(archives), "--out", str(tmp_path / "out")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (2, "evenshard: a benchmark needs matplotlib: pip install 'evenshard[benchmark]'\n") == (
        done.returncode,
        done.stderr,
    )
    assert not (tmp_path / "out").exists()
