"""One flow on four engines: the same bytes; a death costs one slice or fails the run by name; nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from evenshard.adapters.cluster_process import ClusterProcess, ClusterSettings
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import ClusterError, OptionError, TooManyFailuresError, UnfinishedError
from evenshard.destination import claim
from evenshard.planning import Request, make_plan
from evenshard.remote import pack
from evenshard.slices import make_job
from flows.config import RunOptions, cluster_environment
from flows.ingest import ingest
from flows.optimize import ParquetReader, optimize
from tests.support import deadly
from tests.support.clusters import RAY_ENVIRONMENT, Found, dask_cluster, num_seats, ray_cluster
from tests.support.pictures import jpeg
from tests.support.programs import ROOT, environment
from tests.support.sets import published_bytes, read_set
from tests.support.tables import link_columns, plain_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl

HANG_SECONDS = 120
"""Whatever ends at all has ended by then, on the slowest machine."""


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the folder where deaths leave their marks, known to the processes of every cluster."""
    folder = tmp_path_factory.mktemp("marks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(deadly.MARKS, str(folder))
        yield folder


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory, marks: Path) -> Iterator[Found]:
    """Find a Dask cluster of somebody else."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), {deadly.MARKS: str(marks)}) as found:
        yield found


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory, marks: Path) -> Iterator[Found]:
    """Find a Ray cluster of somebody else."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in RAY_ENVIRONMENT.items():
            patch.setenv(name, value)
        with ray_cluster(tmp_path_factory.mktemp("ray"), {deadly.MARKS: str(marks)}) as found:
            yield found


@pytest.fixture
def found(request: pytest.FixtureRequest, marks: Path) -> Found:
    """Give the cluster that a test is parametrised with; no death has left a mark yet."""
    for mark in marks.iterdir():
        mark.unlink()
    cluster: Found = request.getfixturevalue(request.param)
    return cluster


on_each_cluster = pytest.mark.parametrize("found", ["dask", "ray"], indirect=True)


def pictures(path: str) -> Answer:
    """Give a picture whose width tells its row; two rows are gone."""
    row = int(path[1:-4])
    return Answer(status=404) if row in {3, 17} else Answer(body=jpeg(row + 20, 30))


def links(web: Web, folder: Path, *, rows: int) -> Path:
    """Write a table of links to a server."""
    return write_table(folder / "t.parquet", link_columns([f"{web.address}/{row}.jpg" for row in range(rows)]))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any], dict[str, bytes]]]:
    """Give a table of links, the options of a run, and what `threads` publish of it."""
    folder = tmp_path_factory.mktemp("job")
    options = {"columns": ["row"], "rows_per_slice": 7, "workers_per_node": 2, "allow_hosts": ["127.0.0.1"]}
    with Web(pictures) as web:
        source = links(web, folder, rows=60)
        ingest(source=str(source), destination=str(folder / "set"), engine="threads", **options)
        yield source, options, published_bytes(folder / "set")


@pytest.mark.parametrize("engine", ["processes", "dask", "ray"])
def test_set_is_the_same_bytes_on_every_engine(
    job: tuple[Path, dict[str, Any], dict[str, bytes]], tmp_path: Path, engine: str
) -> None:
    """One plan, other workers: every published file is what `threads` made; nothing that was started is left."""
    source, options, expected = job
    before = set(psutil.Process().children(recursive=True))
    ingest(source=str(source), destination=str(tmp_path / "set"), engine=engine, engine_workers=2, **options)
    assert expected == published_bytes(tmp_path / "set")
    assert not set(psutil.Process().children(recursive=True)) - before


@on_each_cluster
def test_callable_of_the_program_runs_on_a_cluster(tmp_path: Path, found: Found) -> None:
    """A function that no worker can import comes there with what it holds; the cluster is there afterwards."""
    source, added = write_table(tmp_path / "t.parquet", plain_columns(20)), 100

    def add(frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        yield from ({"row": row + added} for row in frame["row"])

    where: dict[str, Any] = {"engine": found.engine, "engine_address": found.address, "num_workers": 2}
    optimize(add, [source], tmp_path / "set", reader=ParquetReader(num_rows=6), **where)
    assert list(range(100, 120)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert all(each.is_running() for each in found.heads)


def run_rows(tmp_path: Path, transform: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the flow's own
    """Ingest 20 rows in ten slices."""
    source = write_table(tmp_path / "t.parquet", plain_columns(20))
    given = {"transform": f"tests.support.deadly:{transform}", "rows_per_slice": 2, **options}
    result: dict[str, Any] = ingest(source=str(source), destination=str(tmp_path / "set"), **given)
    return result


@contextmanager
def killed_at_first_mark(marks: Path) -> Iterator[list[psutil.Process]]:
    """Kill the process that leaves the first mark, while the block lasts; gives it."""
    killed: list[psutil.Process] = []
    over = threading.Event()

    def watch() -> None:
        while not killed and not over.wait(0.02):
            for mark in marks.iterdir():
                killed.append(psutil.Process(int(mark.name.split("-")[1])))
                killed[0].kill()
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.fixture
def where(request: pytest.FixtureRequest, marks: Path) -> dict[str, Any]:
    """Give the options of an engine with two workers, one of a run's own if it is not `found`; no mark is left."""
    for mark in marks.iterdir():
        mark.unlink()
    name: str = request.param
    if name == "found ray":
        return {"engine": "ray", "engine_address": request.getfixturevalue("ray").address, "engine_workers": 2}
    return {"engine": name, "engine_workers": 2}


@pytest.mark.parametrize("where", ["processes", "dask", "found ray"], indirect=True)
def test_slice_is_done_again_when_its_worker_is_killed(tmp_path: Path, marks: Path, where: dict[str, Any]) -> None:
    """`kill -9` in the middle of a slice: that slice is done again by another process, and the set is whole."""
    with killed_at_first_mark(marks) as killed:
        run_rows(tmp_path, "Waits", **where)
    assert list(range(20)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    pids = [int(mark.name.split("-")[1]) for mark in marks.iterdir()]
    assert len(pids) == len(set(pids)) == 2
    assert killed[0].pid in pids
    assert not killed[0].is_running()


@pytest.mark.parametrize("where", ["dask", "found ray"], indirect=True)
def test_run_fails_with_the_slice_named_when_every_worker_is_killed(
    tmp_path: Path, marks: Path, where: dict[str, Any]
) -> None:
    """A slice that kills whoever does it: the run fails by name, nothing is published, the other slices are kept."""
    with pytest.raises(UnfinishedError, match=r"slice 2: the (Dask|Ray) worker .*died at it") as caught:
        run_rows(tmp_path, "DiesAlways", **where)
    assert [2] == [index for index, _ in caught.value.problems]
    assert not (tmp_path / "set/index.json").exists()
    assert len(list((tmp_path / "set/.evenshard/receipts/g0001").iterdir())) == 9
    assert len(list(marks.iterdir())) == 6  # three attempts in each of two rounds


@on_each_cluster
def test_run_stops_early_when_the_first_rows_of_slices_fail(tmp_path: Path, found: Found) -> None:
    """What a worker elsewhere sees of its first rows ends the run while the slices are being done."""
    with Web(lambda _: Answer(status=404, seconds=0.01)) as web:
        source = links(web, tmp_path, rows=4_000)
        where: dict[str, Any] = {"engine": found.engine, "engine_address": found.address, "rows_per_slice": 1_000}
        with pytest.raises(TooManyFailuresError, match=r"too many rows fail: .* x http-status"):
            ingest(
                source=str(source),
                destination=str(tmp_path / "set"),
                max_failure_rate=0.1,
                allow_hosts=["127.0.0.1"],
                **where,
            )
        assert 256 <= len(web.asked) < 4_000


@contextmanager
def held_web() -> Iterator[tuple[Web, threading.Event]]:
    """Serve pictures that do not come before the block ends; the event says that one was asked for."""
    asked, over = threading.Event(), threading.Event()

    def answer(_: str) -> Answer:
        asked.set()
        over.wait(HANG_SECONDS)
        return Answer(body=jpeg())

    with Web(answer) as web:
        try:
            yield web, asked
        finally:
            over.set()


@pytest.mark.parametrize(
    ("engine", "stop", "code"),
    [
        ("dask", lambda pid: os.killpg(pid, signal.SIGINT), 130),
        ("ray", lambda pid: os.kill(pid, signal.SIGKILL), -signal.SIGKILL),
    ],
    ids=["Ctrl-C on dask", "killed on ray"],
)
def test_no_process_is_left_when_a_run_is_stopped(
    tmp_path: Path, engine: str, stop: Callable[[int], None], code: int
) -> None:
    """However a run ends in the middle of its slices, the cluster that it started ends with it."""
    with held_web() as (web, asked):
        command = [
            sys.executable,
            "-m",
            "flows.cli",
            "ingest",
            str(links(web, tmp_path, rows=8)),
            str(tmp_path / "set"),
        ]
        command += ["--engine", engine, "--engine-workers", "1", "--timeout", "300", "--allow-host", "127.0.0.1"]
        given: dict[str, Any] = {"cwd": ROOT, "env": environment(), "start_new_session": True}
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **given
        ) as process:
            while not asked.wait(0.1) and process.poll() is None:
                pass
            tree = psutil.Process(process.pid).children(recursive=True)
            stop(process.pid)
            _, told = process.communicate(timeout=HANG_SECONDS)
    assert code == process.returncode
    assert len(tree) >= 2
    assert len(told.strip().splitlines()) <= 1
    assert not psutil.wait_procs(tree, timeout=30)[1]


@on_each_cluster
def test_slices_leave_the_cluster_when_their_run_is_killed(tmp_path: Path, found: Found) -> None:
    """The process that holds the connection is killed: the slice that a worker was at ends soon, though it waits."""
    settings = ClusterSettings(engine=found.engine, address=found.address, num_workers=1, run="killed")
    with held_web() as (web, asked):
        plan = make_plan(str(links(web, tmp_path, rows=8)), Request())
        claim(LocalStore(tmp_path / "set"), plan)
        options = RunOptions(destination=str(tmp_path / "set"), timeout=300, allow_hosts=["127.0.0.1"])
        job = make_job(plan, 0, options.settings(), fingerprint=plan.fingerprint)
        cluster = ClusterProcess(settings, environment=cluster_environment(is_local=False))
        cluster.wait_until_ready()
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(cluster.run, pack(job, run="killed"), lambda _: None)
            assert asked.wait(HANG_SECONDS)
            assert num_seats(found) == 1
            os.kill(cluster.pid, signal.SIGKILL)
            with pytest.raises(ClusterError, match=r"the process that holds the cluster is gone: .* SIGKILL"):
                doing.result(HANG_SECONDS)
        due, pause = time.monotonic() + 30, threading.Event()
        while num_seats(found) and time.monotonic() < due:
            pause.wait(0.2)
        assert num_seats(found) == 0
        cluster.close()


@on_each_cluster
def test_run_fails_in_one_line_when_the_cluster_is_killed(tmp_path: Path, found: Found) -> None:
    """A head that is gone in the middle of the slices is an error that names the address; nobody waits for ever.

    The last test of each cluster, which is gone then.
    """
    began = time.monotonic()
    with held_web() as (web, asked):
        where: dict[str, Any] = {"engine": found.engine, "engine_address": found.address, "engine_workers": 1}
        source = links(web, tmp_path, rows=8)

        def kill() -> None:
            asked.wait(HANG_SECONDS)
            for head in found.heads:
                head.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        options = {"timeout": 300.0, "allow_hosts": ["127.0.0.1"], **where}
        with pytest.raises(OptionError, match=f"engine_address: nobody listens at {found.address}"):
            ingest(source=str(source), destination=str(tmp_path / "set"), **options)
        killer.join()
    assert time.monotonic() - began < HANG_SECONDS
    assert not (tmp_path / "set/index.json").exists()
