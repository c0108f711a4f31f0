"""Clusters of somebody else, as runs find them at an address: a Dask scheduler with two workers, a Ray head."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from flows.config import cluster_environment
from flows.runners import START_TRIES
from tests.support.processes import command_of
from tests.support.programs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RAY_HEAD = """
import sys
from evenshard.adapters.ray_cluster import _start
import ray
_start(sys.argv[1], num_cpus=2)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""
RAY_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray takes 127.0.0.1 for another address of this machine without it
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
}
"""What both the head and those who connect to it must have in their environment."""
START_SECONDS = 120


@dataclass(frozen=True)
class Found:
    """A cluster that a run finds.

    Args:
        engine: `dask` or `ray`.
        address: as the run is given it.
        heads: what to kill to have it gone.
    """

    engine: str
    address: str
    heads: list[psutil.Process]


@contextmanager
def dask_cluster(folder: Path, marks: Mapping[str, str]) -> Iterator[Found]:
    """Start a scheduler and two workers, as somebody does who has a cluster."""
    told = folder / "scheduler.json"
    where = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", str(told)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(told), "--nworkers", "2"]
    worker += ["--nthreads", "1", "--local-directory", str(folder)]
    with _started([*scheduler, *where], marks) as head, _started([*worker, *where], marks):
        pause = threading.Event()
        while not told.exists() or not told.read_text():
            assert head.poll() is None
            pause.wait(0.1)
        address = str(json.loads(told.read_text())["address"])
        _wait_for_workers(address)
        yield Found("dask", address, [psutil.Process(head.pid)])


@contextmanager
def ray_cluster(_folder: Path, marks: Mapping[str, str]) -> Iterator[Found]:
    """Start a Ray head of two CPUs, on loopback and without its dashboard."""
    command, environment = [sys.executable, "-c", RAY_HEAD], {**marks, **RAY_ENVIRONMENT}
    with ExitStack() as ends:
        for _ in range(START_TRIES):
            short = tempfile.TemporaryDirectory(prefix="evenshard-", ignore_cleanup_errors=True)  # for paths of sockets
            head = ends.enter_context(_started([*command, ends.enter_context(short)], environment))
            assert head.stdout is not None
            if address := head.stdout.readline().strip():
                break
        assert address
        daemons = [each for each in psutil.Process(head.pid).children() if each.name() in {"gcs_server", "raylet"}]
        yield Found("ray", address, daemons)


def num_seats(found: Found) -> int:
    """Count the threads and processes of a cluster that keep something for a run."""
    if found.engine == "ray":
        return len([each for head in found.heads for each in head.children() if "Seat" in command_of(each)])
    from distributed import Client  # noqa: PLC0415 - for these tests only

    with Client(found.address, set_as_default=False) as client:
        return sum(client.run(_count_seats).values())


def _count_seats() -> int:
    from evenshard import remote  # noqa: PLC0415 - in the worker

    return len(remote._SEATS)


def _wait_for_workers(address: str) -> None:
    from distributed import Client  # noqa: PLC0415 - for these tests only

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=START_SECONDS)


@contextmanager
def _started(command: list[str], more: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    environment = {**cluster_environment(is_local=True), "PYTHONPATH": str(ROOT), **more}
    out: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **out) as process:
        try:
            yield process
        finally:
            tree = psutil.Process(process.pid).children(recursive=True)
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what lost its parent
            for each in psutil.wait_procs(tree, timeout=5)[1]:
                each.kill()
