"""Killed at any moment and run again: the same bytes as an undisturbed run, nothing twice, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from evenshard.adapters.local_store import PART, LocalStore
from evenshard.inspection import Depth, verify
from flows.cli import main
from tests.support.pictures import jpeg
from tests.support.programs import ROOT, environment
from tests.support.sets import published_bytes, read_set
from tests.support.tables import link_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUM_SLICES = 40


def kill_flow(pid: int) -> None:
    """Kill the flow's process alone; its workers see it gone."""
    os.kill(pid, signal.SIGKILL)


def kill_worker(pid: int) -> None:
    """Kill one worker process; the run shall go on."""
    workers = psutil.Process(pid).children()
    if workers:
        with suppress(psutil.NoSuchProcess):
            workers[0].kill()


def kill_both(pid: int) -> None:
    """Kill a worker and the flow."""
    kill_worker(pid)
    kill_flow(pid)


def terminate(pid: int) -> None:
    """Send SIGTERM to the flow."""
    os.kill(pid, signal.SIGTERM)


def interrupt(pid: int) -> None:
    """Press Ctrl-C."""
    os.killpg(pid, signal.SIGINT)


KINDS: tuple[Callable[[int], None], ...] = (kill_flow, kill_worker, kill_both, terminate, interrupt)


def run_once(command: list[str], receipts: Path, *, kill: Callable[[int], None], at: int, late: float) -> int:
    """Run, and strike when so many slices are signed for, a moment later; gives the exit code."""
    given: dict[str, Any] = {"cwd": ROOT, "env": environment(), "start_new_session": True}
    out: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **given, **out) as process:
        pause, due = threading.Event(), time.monotonic() + 240
        while process.poll() is None and time.monotonic() < due:
            if receipts.is_dir() and len(list(receipts.glob("*.json"))) >= at:
                pause.wait(late)
                with suppress(ProcessLookupError, psutil.NoSuchProcess):
                    kill(process.pid)
                break
            pause.wait(0.005)
        return process.wait(240)


def pictures(path: str) -> Answer:
    """Give a picture whose width tells its row, after a moment; two rows are gone."""
    row = int(path[1:-4])
    return Answer(status=404) if row in {3, 17} else Answer(body=jpeg(row + 20, 30), seconds=0.02)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, list[str], Path]]:
    """Give a server, a command but for its destination, and the set that an undisturbed run of it made."""
    folder = tmp_path_factory.mktemp("job")
    with Web(pictures) as web:
        links = [f"{web.address}/{row}.jpg" for row in range(2 * NUM_SLICES)]
        source = write_table(folder / "t.parquet", link_columns(links))
        command = [sys.executable, "-m", "flows.cli", "ingest", "--columns", "row", "--rows-per-slice", "2"]
        command += ["--workers-per-node", "2", "--engine", "processes", "--engine-workers", "2"]
        command += ["--allow-host", "127.0.0.1", str(source)]
        subprocess.run([*command, str(folder / "set")], cwd=ROOT, env=environment(), capture_output=True, check=True)
        yield web, command, folder / "set"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kill as many runs as asked for, each kind in turn."""
    if "number" in metafunc.fixturenames:
        numbers = range(metafunc.config.getoption("--kills"))
        metafunc.parametrize("number", numbers, ids=lambda number: f"{KINDS[number % len(KINDS)].__name__}-{number}")


def test_set_is_the_same_bytes_when_its_run_is_killed_and_run_again(
    job: tuple[Web, list[str], Path], tmp_path: Path, number: int
) -> None:
    """One kind of kill at one moment of a seeded schedule, while slices are done or published; then again."""
    web, command, undisturbed = job
    random, folder = Random(2026 + number), tmp_path / "set"
    web.asked.clear()
    receipts, kill, start = folder / ".evenshard/receipts/g0001", KINDS[number % len(KINDS)], [*command, str(folder)]
    code = run_once(start, receipts, kill=kill, at=random.randrange(NUM_SLICES + 1), late=random.random() * 0.1)
    for _ in range(3):
        if code == 0:
            break
        code = subprocess.run(start, cwd=ROOT, env=environment(), capture_output=True, check=False).returncode
    assert code == 0
    main(["sweep", str(folder), "--older-than", "0s"])

    assert published_bytes(undisturbed) == published_bytes(folder)
    assert [row for row in range(2 * NUM_SLICES) if row not in {3, 17}] == [
        sample["row"] for sample in read_set(folder)
    ]
    verify(LocalStore(folder), depth=Depth.DEEP)
    left, made = ({path.relative_to(place) for path in place.rglob("*")} for place in (folder, undisturbed))
    assert made == left
    assert not list(tmp_path.rglob(f"*{PART}"))
