"""A worker process: started late, told apart when it dies, gone with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from evenshard.core.errors import RunStoppedError, SliceReadError, WorkerDiedError
from evenshard.core.recipe import Kind
from evenshard.planning import Request, make_plan
from evenshard.slices import RunSettings, SliceJob, make_job
from evenshard.workers import ProcessWorker, Workers
from tests.support.chunks import read_samples
from tests.support.tables import plain_columns, write_damaged_page, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.worker import Progress

ROOT = Path(__file__).parents[2]
CALLABLES = "tests.support.callables"


@pytest.fixture
def worker() -> Iterator[ProcessWorker]:
    """A worker that is closed at the end."""
    made = ProcessWorker()
    yield made
    made.close()


def job_of(source: Path, tmp_path: Path, *, index: int = 0, transform: str = "rows") -> SliceJob:
    """Make the job of one slice of ten rows."""
    plan = make_plan(str(source), Request(transform=transform, rows_per_slice=10))
    settings = RunSettings(destination=str(tmp_path / "set"))
    return make_job(plan, index, settings, fingerprint=plan.fingerprint)


def test_receipt_comes_back_with_all_rows_reported(worker: ProcessWorker, tmp_path: Path) -> None:
    """A job done there gives its receipt here, and its progress adds up."""
    reports: list[Progress] = []
    source = write_table(tmp_path / "a.parquet", plain_columns(20))
    receipt = worker.run(job_of(source, tmp_path, index=1), reports.append)
    assert (1, 10) == (receipt.slice_index, receipt.counts.stored)
    assert reports[-1].ended["stored"] == 10


def test_error_is_raised_here_when_the_job_fails_there(worker: ProcessWorker, tmp_path: Path) -> None:
    """An error crosses whole, and the same process does the next job."""
    broken = write_damaged_page(tmp_path / "bad.parquet")
    with pytest.raises(SliceReadError, match=r"slice 2: .*bad\.parquet, rows 20 to 29"):
        worker.run(job_of(broken, tmp_path, index=2), lambda _: None)
    first = worker.process.pid
    source = write_table(tmp_path / "a.parquet", plain_columns(5))
    assert worker.run(job_of(source, tmp_path / "other"), lambda _: None).counts.stored == 5
    assert first == worker.process.pid


def test_worker_never_imports_the_orchestrator(worker: ProcessWorker, tmp_path: Path) -> None:
    """What a worker process loads has no Prefect in it."""
    source = write_table(tmp_path / "a.parquet", plain_columns(5))
    receipt = worker.run(job_of(source, tmp_path, transform=f"{CALLABLES}:Modules"), lambda _: None)
    (((packages,)),) = read_samples((tmp_path / "set" / receipt.chunks[0].name).read_bytes(), [Kind.STR])
    loaded = str(packages).split()
    assert "evenshard" in loaded
    assert not {"prefect", "flows", "tasks", "pytest"} & set(loaded)


def test_death_is_named_when_the_process_is_killed(worker: ProcessWorker, tmp_path: Path) -> None:
    """A killed worker is an error with slice, process and signal; the next job has a new process."""
    source = write_table(tmp_path / "a.parquet", plain_columns(20))
    worker.run(job_of(source, tmp_path), lambda _: None)
    killed = worker.process.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=rf"slice 1: worker process {killed} was ended by SIGKILL"):
        worker.run(job_of(source, tmp_path, index=1), lambda _: None)
    assert worker.run(job_of(source, tmp_path, index=1), lambda _: None).slice_index == 1
    assert worker.process.pid not in {None, killed}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError("no space"), EOFError()], ids=lambda e: type(e).__name__
)
def test_worker_is_started_anew_when_a_report_raises(
    worker: ProcessWorker, tmp_path: Path, error: BaseException
) -> None:
    """After a job that was left in the middle, what its process still says belongs to no other job."""
    source = write_table(tmp_path / "a.parquet", plain_columns(20))

    def stop(_: Progress) -> None:
        raise error

    with pytest.raises(type(error)):
        worker.run(job_of(source, tmp_path), stop)
    assert worker.process.pid is None
    assert worker.run(job_of(source, tmp_path, index=1), lambda _: None).slice_index == 1


def test_death_is_noticed_when_a_child_holds_the_connection_open(worker: ProcessWorker, tmp_path: Path) -> None:
    """A transform's forked pool keeps the socket open; the death is seen all the same, and the pool goes too."""
    source = write_table(tmp_path / "a.parquet", plain_columns(20))
    worker.run(job_of(source, tmp_path, transform=f"{CALLABLES}:Forking"), lambda _: None)
    pid = worker.process.pid
    assert pid is not None
    children = psutil.Process(pid).children(recursive=True)
    assert children
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        worker.run(job_of(source, tmp_path, index=1, transform=f"{CALLABLES}:Forking"), lambda _: None)
    assert not psutil.wait_procs(children, timeout=10)[1]


def test_worker_is_refused_when_it_was_killed_for_good(worker: ProcessWorker, tmp_path: Path) -> None:
    """After a stop no process is started any more, whether the stop came before or after the first."""
    source = write_table(tmp_path / "a.parquet", plain_columns(5))
    worker.kill()
    with pytest.raises(RunStoppedError):
        worker.run(job_of(source, tmp_path), lambda _: None)
    assert worker.process.pid is None


def test_processes_are_gone_when_the_workers_are_closed(tmp_path: Path) -> None:
    """Closing leaves no process."""
    source = write_table(tmp_path / "a.parquet", plain_columns(5))
    made: list[ProcessWorker] = []

    def make() -> ProcessWorker:
        made.append(ProcessWorker())
        return made[-1]

    with Workers(make) as workers:
        workers.run(job_of(source, tmp_path), lambda _: None)
        pid = made[0].process.pid
        assert pid is not None
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


def test_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """A parent that is killed leaves no worker behind."""
    source = write_table(tmp_path / "a.parquet", plain_columns(5))
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.adapters.test_worker_process import ProcessWorker, job_of\n"
        "worker = ProcessWorker()\n"
        "worker.run(job_of(Path(sys.argv[1]), Path(sys.argv[2])), lambda _: None)\n"
        "print(worker.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    left = [psutil.Process(int(done.stdout))] if psutil.pid_exists(int(done.stdout)) else []
    _, alive = psutil.wait_procs(left, timeout=10)
    assert not alive
