"""However an epoch ends, no process stays behind, and nobody waits for ever."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from evenshard import OpenWebTextLoader, shuffle, take
from evenshard.adapters.child_process import PROGRAM
from evenshard.core.errors import ReaderDiedError
from tests.support.archives import documents, packed, write_archive, write_archives
from tests.support.processes import reader_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
HANG_SECONDS = 60
TOTAL = 8 * 40


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two archives of four members with 40 documents each."""
    return write_archives(tmp_path_factory.mktemp("archives"), archives=2, members=4, count=40)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check after every test that no process is left, living or dead."""
    yield
    gc.collect()
    assert [] == reader_processes()


def test_no_process_is_left_after_200_early_ends(paths: list[Path]) -> None:
    """Stopping anywhere, in one of many ways, with up to four workers, 200 times, leaves no process and never hangs."""
    rng = random.Random(4)
    for trial in range(200):
        loader = OpenWebTextLoader(paths, rng.randint(1, 4), rng.choice([0, 30, 2048]), random_state=trial)
        count = rng.randint(1, TOTAL - 1)
        match trial % 5:
            case 0:
                for _ in loader:
                    break
            case 1:
                assert count == len(list(take(shuffle(loader, 10), count)))
            case 2:
                iterator = iter(loader)
                assert count == len(list(take(iterator, count)))
                iterator.close()
                assert [] == list(iterator)
            case 3:
                with loader, suppress(ZeroDivisionError):
                    for _ in loader:
                        1 / 0  # noqa: B018 - the consumer's own error
            case _:
                iterators = [iter(loader) for _ in range(3)]
                for iterator in iterators[:2]:
                    next(iterator)
                loader.close()
                del iterators, iterator
        assert [] == reader_processes(), trial


def test_no_process_is_started_before_the_first_document(paths: list[Path]) -> None:
    """An iterator that nobody asks, and a state of it, cost nothing."""
    iterator = iter(OpenWebTextLoader(paths, 2))
    iterator.state_dict()
    assert [] == reader_processes()
    iterator.close()
    assert [] == list(iterator)


def test_processes_go_with_the_iterator_not_with_the_loader(paths: list[Path]) -> None:
    """While the loader lives on, the processes of an iterator that nobody has any more are gone."""
    loader = OpenWebTextLoader(paths, 2)
    iterator = iter(loader)
    next(iterator)
    assert 2 == len(reader_processes())
    del iterator
    assert [] == reader_processes()
    assert TOTAL == len(list(loader))


@pytest.mark.parametrize("prefetch", [1, 2048])
def test_killed_worker_is_an_error_that_names_it(tmp_path: Path, prefetch: int) -> None:
    """A worker that is killed raises here with its process, the signal, and the member that it was reading."""
    path = write_long_members(tmp_path / "a.tar")
    for trial in range(10):
        iterator = iter(OpenWebTextLoader([path], 2, prefetch=1, random_state=trial))
        next(iterator)
        killed = random.Random(trial).choice(reader_processes())
        killed.kill()
        message = rf"a\.tar, member \d\.xz: worker process {killed.pid} was ended by SIGKILL; the system may have"
        with pytest.raises(ReaderDiedError, match=message):
            list(iterator)
        assert ([], []) == (list(iterator), reader_processes())
    all_read = iter(OpenWebTextLoader([path], 2, prefetch=prefetch))
    assert 6 * 40 == len(list(all_read))


def write_long_members(path: Path) -> Path:
    """Write an archive of six members of 2 MB: none fits a connection, so a worker that is killed owes something."""
    return write_archive(path, {f"{n}.xz": packed(documents(40, str(n), lines=4000)) for n in range(6)})


def test_worker_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    """A worker that is told to end by somebody else is named with its signal, at the latest when its part is due."""
    path = write_long_members(tmp_path / "a.tar")
    for ending, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGSEGV, "SIGSEGV")):
        iterator = iter(OpenWebTextLoader([path], 3, prefetch=1))
        next(iterator)
        for process in reader_processes():
            process.send_signal(ending)
        with pytest.raises(ReaderDiedError, match=rf"worker process \d+ was ended by {name}"):
            list(iterator)


def program(name: str, paths: list[Path]) -> subprocess.Popen[str]:
    """Start a program in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.loader_programs", name, *map(str, paths)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )


def workers_named_by(line: str) -> list[psutil.Process]:
    """Give the processes of a line of numbers that are still there."""
    found = []
    for pid in map(int, line.split()):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def assert_gone(processes: list[psutil.Process]) -> None:
    """Wait until all are gone; what nobody is left to wait for, the system's first process reaps in its own time."""
    _, alive = psutil.wait_procs([each for each in processes if not _is_dead(each)], timeout=30)
    assert [] == [each for each in alive if not _is_dead(each)]


def _is_dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(("name", "code"), [("exits", 0), ("fails", 1), ("exits_in_a_thread", 0)])
def test_workers_end_with_the_program(paths: list[Path], name: str, code: int) -> None:
    """At the program's end, by an error too, all workers are ended before it is gone."""
    running = program(name, paths)
    out, err = running.communicate(timeout=HANG_SECONDS)
    assert code == running.returncode, err
    for line in out.splitlines():
        assert_gone(workers_named_by(line))
    assert ("ValueError: the consumer's own" in err) == (name == "fails")
    assert "Exception ignored" not in err


ENDINGS = {
    "ctrl-c-between": ("waits", signal.SIGINT, True),
    "ctrl-c-inside-next": ("waits_for_a_part", signal.SIGINT, True),
    "terminated": ("waits", signal.SIGTERM, False),
    "killed": ("waits", signal.SIGKILL, False),
    "killed-inside-next": ("waits_for_a_part", signal.SIGKILL, False),
    "hung-up": ("waits", signal.SIGHUP, True),
}


@pytest.mark.parametrize(("name", "ending", "to_group"), ENDINGS.values(), ids=ENDINGS.keys())
def test_workers_end_when_the_program_is_ended(
    paths: list[Path], name: str, ending: signal.Signals, *, to_group: bool
) -> None:
    """A signal to the program, or to its group as from a terminal, leaves no worker."""
    running = program(name, paths)
    assert running.stdout is not None
    workers = workers_named_by(running.stdout.readline())
    assert 2 == len(workers)
    assert "waiting\n" == running.stdout.readline()
    os.killpg(running.pid, ending) if to_group else running.send_signal(ending)
    running.wait(HANG_SECONDS)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.resume()  # one that was stopped by the test cannot see its parent's death before
    _, err = running.communicate(timeout=HANG_SECONDS)
    assert -ending == running.returncode
    assert ("KeyboardInterrupt" in err) == (ending is signal.SIGINT)
    assert_gone(workers)


def test_copy_of_an_iterator_in_a_forked_process_does_no_harm(paths: list[Path]) -> None:
    """The copy refuses to be used, and neither its end nor its `close` touches the original's workers."""
    running = program("forks", paths)
    out, err = running.communicate(timeout=HANG_SECONDS)
    assert (0, "") == (running.returncode, err)
    lines = out.splitlines()
    assert "UsageError an iterator belongs to the process that began it; call iter(loader) in this one" == lines[1]
    assert [str(TOTAL)] == lines[2:]


def test_workers_end_with_their_parent_when_a_forked_copy_lives_on(paths: list[Path]) -> None:
    """A forked process holds the connections open; the workers see all the same that their parent is dead."""
    running = program("holds", paths)
    assert running.stdout is not None
    workers = workers_named_by(running.stdout.readline())
    (copy,) = workers_named_by(running.stdout.readline())
    running.wait(HANG_SECONDS)
    assert_gone(workers)
    copy.kill()
    running.communicate()


def test_worker_ends_when_its_parent_was_dead_before_it_looked() -> None:
    """A worker that is slow to start, and whose connection somebody holds open, waits for no dead parent."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ours, theirs = Pipe()
    arguments = [str(theirs.fileno()), str(gone.pid), "evenshard.archive_worker", json.dumps(sys.path)]
    worker = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM, *arguments], pass_fds=[theirs.fileno()])
    assert 0 == worker.wait(HANG_SECONDS)
    ours.close()
    theirs.close()


def test_loaders_work_with_every_start_method(paths: list[Path]) -> None:
    """Whichever start method is the default, and in processes started by each of them, daemons included."""
    running = program("starts", paths)
    out, err = running.communicate(timeout=2 * HANG_SECONDS)
    assert 0 == running.returncode, err
    expected = [f"{method} {TOTAL} {TOTAL} {TOTAL}" for method in ("fork", "spawn", "forkserver")]
    assert [*expected, ""] == out.splitlines()


def test_loader_works_in_a_program_without_a_main_guard(paths: list[Path]) -> None:
    """The program is not started again in the workers, nor need it be a file."""
    code = f"from evenshard import OpenWebTextLoader\nprint(len(list(OpenWebTextLoader({list(map(str, paths))}, 2))))"
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=True, cwd=ROOT)
    assert f"{TOTAL}\n" == done.stdout


@pytest.mark.parametrize("jobs", ["1", "2", "20"])
def test_seed_program_runs_as_it_stands(paths: list[Path], jobs: str) -> None:
    """The program that the loader grew from, with only its import changed, reads all documents and ends."""
    command = [sys.executable, "tests/loader_seed_program.py", "-j", jobs, str(paths[0].parent)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=HANG_SECONDS
    )
    assert 0 == done.returncode, done.stderr
    assert f"load 2 parts from {paths[0].parent} with {jobs} workers\n" == done.stdout
    assert f" {TOTAL}/500000 " in done.stderr
    assert "Traceback" not in done.stderr
