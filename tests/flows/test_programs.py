"""Whole programs: the demo with a Prefect of its own, and a run that is stopped by Ctrl-C and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.inspection import verify
from tests.support.pictures import jpeg
from tests.support.processes import command_of
from tests.support.programs import ROOT, environment
from tests.support.sets import outcomes_of, read_set
from tests.support.tables import link_columns, write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.web import Web


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """Give a program's lines as they come; a program that says nothing for four minutes is killed."""
    assert process.stdout is not None
    watch = threading.Timer(240, process.kill)
    watch.start()
    try:
        yield from process.stdout
    finally:
        watch.cancel()


def test_demo_ends_well_with_a_prefect_of_its_own(tmp_path: Path) -> None:
    """The README's first program: no server set, an empty home; every fault that was served is counted."""
    own = {name: value for name, value in environment().items() if name != "PREFECT_API_URL"}
    command = [sys.executable, "-m", "flows.cli", "demo", str(tmp_path / "demo")]
    given: dict[str, Any] = {"cwd": ROOT, "capture_output": True, "text": True}
    done = subprocess.run(command, env={**own, "PREFECT_HOME": str(tmp_path / "home")}, check=False, **given)
    assert (0, "") == (done.returncode, done.stderr)
    for told in ("rows planned", "rows per rank", "200 200", "rows/s", "verified: every byte", "400 rows = 391 stored"):
        assert told in done.stdout
    counts = verify(LocalStore(tmp_path / "demo/dataset")).counts
    assert {"broken-picture": 1, "http-status": 6, "not-a-picture": 1, "too-slow": 1} == counts.failed
    assert len(list((tmp_path / "demo/table").glob("*.parquet"))) == 4
    assert len({row["original_format"] for row in outcomes_of(tmp_path / "demo/dataset")} - {None}) == 3
    again = subprocess.run(command, env=own, check=False, **given)
    assert again.returncode == 2
    assert "is in use" in again.stderr


@pytest.mark.parametrize(
    ("stop", "code", "word"),
    [
        (lambda pid: os.killpg(pid, signal.SIGINT), 130, "stopped"),
        (lambda pid: os.kill(pid, signal.SIGTERM), 143, "terminated"),
    ],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_run_goes_on_where_it_was_when_stopped(
    web: Web, tmp_path: Path, stop: Callable[[int], None], code: int, word: str
) -> None:
    """Ctrl-C to the whole group, or SIGTERM: one line, nothing published; the next run does the rest only."""
    held = threading.Event()
    picture = jpeg(40, 30)

    def answer(path: str) -> Answer:
        if int(path[1:]) >= 20:
            held.wait(60)
        return Answer(body=picture)

    web.answer = answer
    source = write_table(tmp_path / "t.parquet", link_columns([f"{web.address}/{row}" for row in range(40)]))
    command = [sys.executable, "-m", "flows.cli", "ingest", str(source), str(tmp_path / "set"), "--rows-per-slice", "4"]
    command += ["--engine", "processes", "--engine-workers", "2", "--caption-column", "caption", "--timeout", "60"]
    given: dict[str, Any] = {"cwd": ROOT, "env": environment(), "text": True}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    receipts, told = tmp_path / "set/.evenshard/receipts/g0001", []
    with subprocess.Popen(command, start_new_session=True, **pipes, **given) as process:
        for line in lines_of(process):
            told.append(line)
            if " of 40 rows" in line:
                while len(list(receipts.glob("*.json"))) < 5 and process.poll() is None:
                    held.wait(0.1)
                stop(process.pid)
    assert process.returncode == code
    assert told[-1] == f"evenshard: {word}; a run goes on where it was when the same command is run again\n"
    held.set()
    assert sorted(path.stem for path in receipts.iterdir()) == [f"s{index:06d}" for index in range(5)]
    assert not (tmp_path / "set/index.json").exists()

    web.asked.clear()
    done = subprocess.run(command, capture_output=True, check=False, timeout=240, **given)
    assert (0, "") == (done.returncode, done.stderr)
    assert {f"/{row}" for row in range(20, 40)} == set(web.asked)
    assert [f"Bild Nº {row} 図" for row in range(40)] == [sample["caption"] for sample in read_set(tmp_path / "set")]


def test_run_ends_at_once_when_its_server_is_killed(web: Web, tmp_path: Path) -> None:
    """Somebody kills the Prefect server that the run started: one line, exit code 1, nobody waits for minutes."""
    web.answer = lambda _: Answer(body=jpeg(40, 30), seconds=0.2)
    source = write_table(tmp_path / "t.parquet", link_columns([f"{web.address}/{row}" for row in range(4_000)]))
    command = [sys.executable, "-m", "flows.cli", "ingest", str(source), str(tmp_path / "set"), "--per-host", "8"]
    own = {name: value for name, value in environment().items() if name != "PREFECT_API_URL"}
    given: dict[str, Any] = {"cwd": ROOT, "env": {**own, "PREFECT_HOME": str(tmp_path / "home")}, "text": True}
    killed, told = 0.0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **given) as process:
        for line in lines_of(process):
            told.append(line)
            if " of 4000 rows" in line and not killed:
                children = psutil.Process(process.pid).children()
                (server,) = [child for child in children if "prefect.server" in command_of(child)]
                killed = time.monotonic()
                server.kill()
    assert process.returncode == 1
    assert told[-1].startswith("evenshard: Prefect's server of this run was ended; a run goes on where it was")
    assert time.monotonic() - killed < 60
    assert not (tmp_path / "set/manifest.json").exists()
