"""Two runs of plain processes on one folder at once: the set is whole, whoever wins."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.generations import list_generations
from evenshard.inspection import Depth, verify
from tests.support.pictures import jpeg
from tests.support.programs import ROOT, environment
from tests.support.sets import published_bytes, read_set
from tests.support.tables import link_columns, write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.web import Web

NUM_ROWS = 60


class Pictures:
    """Pictures whose width tells their row, held back until it is time."""

    def __init__(self) -> None:
        self.is_time = threading.Event()

    def __call__(self, path: str) -> Answer:
        """Give one."""
        self.is_time.wait(240)
        return Answer(body=jpeg(int(path[1:]) + 20, 30))


@pytest.fixture
def pictures(web: Web) -> Pictures:
    """Give what the server serves."""
    web.answer = held = Pictures()
    return held


@pytest.fixture
def command(web: Web, pictures: Pictures, tmp_path: Path) -> list[str]:  # noqa: ARG001 - they are to be served
    """Give the command of a run of 20 slices."""
    links = [f"{web.address}/{row}" for row in range(NUM_ROWS)]
    source = write_table(tmp_path / "t.parquet", link_columns(links))
    start = [sys.executable, "-m", "flows.cli", "ingest", str(source), str(tmp_path / "set"), "--columns", "row"]
    return [*start, "--engine", "threads", "--engine-workers", "2", "--concurrency", "2", "--timeout", "300"]


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start a program whose errors are to be read."""
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment(), **pipes)


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a program; gives its exit code and what it said of errors."""
    _, error = process.communicate(timeout=240)
    return process.returncode, error


def assert_whole(folder: Path) -> None:
    """Check that the set holds every row once, byte for byte, and nothing that belongs to nobody."""
    assert [1] == list_generations(LocalStore(folder))
    assert list(range(NUM_ROWS)) == [sample["row"] for sample in read_set(folder)]
    verify(LocalStore(folder), depth=Depth.DEEP)
    assert {name for name in published_bytes(folder) if name.startswith("chunk-")} == {
        path.name for path in folder.glob("chunk-*")
    }


def test_one_of_two_plans_is_published_when_both_run_at_once(
    command: list[str], pictures: Pictures, tmp_path: Path
) -> None:
    """The plan that comes second ends with one line that says what differs, while the first is at work."""
    both = [start([*command, "--rows-per-slice", number]) for number in ("3", "5")]
    while all(process.poll() is None for process in both):
        pictures.is_time.wait(0.1)
    second, first = sorted(both, key=lambda process: process.poll() is None)
    code, error = end_of(second)
    assert 2 == code
    assert "holds unfinished work of plan" in error
    assert "they differ in rows_per_slice" in error
    assert 1 == error.count("\n")

    pictures.is_time.set()
    assert (0, "") == end_of(first)
    assert_whole(tmp_path / "set")


def test_one_plan_is_published_once_when_two_runs_do_it_at_once(
    command: list[str], pictures: Pictures, web: Web, tmp_path: Path
) -> None:
    """Two runs of one plan share it: a slice counts once, whoever signs for it, and both end well."""
    both = [start([*command, "--rows-per-slice", "3"]) for _ in range(2)]
    while 4 > web.asked.total() and all(process.poll() is None for process in both):
        pictures.is_time.wait(0.1)  # until each has as many links in flight as it may
    pictures.is_time.set()
    assert [(0, "")] * 2 == [end_of(process) for process in both]
    assert_whole(tmp_path / "set")


def test_second_run_waits_or_stops_when_that_is_wanted(
    command: list[str], pictures: Pictures, web: Web, tmp_path: Path
) -> None:
    """While one run has the destination, one that is to stop says so; one that is to wait finds all of it done."""
    first = start([*command, "--on-busy", "wait"])
    while not web.asked and first.poll() is None:
        pictures.is_time.wait(0.1)
    code, error = end_of(start([*command, "--on-busy", "stop", "--rows-per-slice", "7"]))
    assert (1, f"evenshard: another run is at work on {tmp_path / 'set'}; nothing was begun\n") == (code, error)

    wait = [*command, "--on-busy", "wait", "--mode", "append"]
    told = []
    with subprocess.Popen(wait, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        for line in waiting.stdout:
            told.append(line)
            if "waiting until it has ended" in line:
                pictures.is_time.set()
    assert [(0, ""), 0] == [end_of(first), waiting.returncode]
    assert told[-1].startswith("evenshard: generation 1 in ")
    assert_whole(tmp_path / "set")
    assert {1} == set(web.asked.values())
