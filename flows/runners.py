"""Engines by name: what a run's lots are mapped on. The only place that knows them.

On every engine Prefect's thread runner submits the lots, and each of its threads has its slices done by a worker that
is lent to it: itself, a process, or a worker of a cluster. Prefect's own runners for processes, Dask and Ray were
measured and left: a task costs some 200 ms there and 10 ms here (tests/benchmarks/README.md); they need an API server
that each worker reaches; a worker's death leaves its task row `Running` for ever, and `wait` calls it done; one dead
process fails all that are queued. Here no worker knows Prefect, retries are Prefect's and seen in its UI, and a death
is the failure of one slice.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from prefect.task_runners import ThreadPoolTaskRunner

from evenshard.adapters.cluster_process import ClusterProcess, ClusterSettings
from evenshard.adapters.reach import is_reachable
from evenshard.clients import Clients
from evenshard.cluster import EXTRAS, missing
from evenshard.cluster_workers import ClusterWorker
from evenshard.core.errors import ClusterError, OptionError
from evenshard.worker import SliceWorker
from evenshard.workers import ProcessWorker, Workers
from flows.config import cluster_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from flows.config import RunOptions

CONNECT_SECONDS: Final = 10.0
START_TRIES: Final = 4
"""A cluster of a run's own that does not come up is started again: Ray's raylet ends itself if its agents are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that is running.

    Args:
        runner: has as many threads as slices run at once.
        workers: do the slices.
        num_workers: slices that run at once.
        num_processes: processes that they run in, each of which asks the web for itself.
    """

    runner: ThreadPoolTaskRunner[Any]
    workers: Workers
    num_workers: int
    num_processes: int


@contextmanager
def _threads(options: RunOptions) -> Iterator[tuple[Workers, int, int]]:
    with Clients() as clients, Workers(lambda: SliceWorker(clients)) as workers:
        yield workers, options.num_workers(), 1


@contextmanager
def _processes(options: RunOptions) -> Iterator[tuple[Workers, int, int]]:
    with Workers(ProcessWorker) as workers:
        yield workers, options.num_workers(), options.num_workers()


@contextmanager
def _cluster(options: RunOptions) -> Iterator[tuple[Workers, int, int]]:
    """Have a cluster: one that is there, with all that it can do at once, or one of this run's own."""
    address, run = options.engine_address, f"evenshard-{uuid.uuid4().hex}"
    wanted = options.engine_workers if address else options.num_workers()
    settings = ClusterSettings(engine=options.engine_name(), address=address, num_workers=wanted, run=run)
    cluster, num_slots = _start_cluster(settings)
    try:
        with Workers(lambda: ClusterWorker(cluster, run)) as workers:
            yield workers, num_slots, num_slots
    finally:
        cluster.close()


def _start_cluster(settings: ClusterSettings, *, tries: int = START_TRIES) -> tuple[ClusterProcess, int]:
    """Start the process that holds a cluster, again if one of this run's own does not start; gives its slots, too."""
    cluster = ClusterProcess(settings, environment=cluster_environment(is_local=settings.address is None))
    try:
        return cluster, cluster.wait_until_ready()
    except ClusterError:
        cluster.close()
        if tries <= 1:
            raise
    except BaseException:
        cluster.close()
        raise
    return _start_cluster(settings, tries=tries - 1)


ENGINES: Final = {"threads": _threads, "processes": _processes, "dask": _cluster, "ray": _cluster}


def check_engine(options: RunOptions) -> None:
    """Refuse an engine that cannot be had, before anything is written.

    Raises:
        OptionError: it is not known or not installed, or nobody listens at its address.
    """
    name, address = options.engine_name(), options.engine_address
    if name not in ENGINES:
        raise OptionError("engine", f"{name!r} is not one of {', '.join(ENGINES)}")
    if name not in EXTRAS:
        if address is not None:
            raise OptionError("engine_address", f"{name} run on this machine and have no address; --engine dask or ray")
        return
    if find_spec(EXTRAS[name]) is None:
        raise missing(name)
    if address is not None and not is_reachable(address, seconds=CONNECT_SECONDS):
        raise OptionError("engine_address", f"nobody listens at {address}; is the cluster there, and the port right?")


@contextmanager
def engine(options: RunOptions) -> Iterator[Engine]:
    """Start an engine.

    Args:
        options: its name, its address, and how many slices shall run at once.

    Raises:
        OptionError: it cannot be had.
        ClusterError: it ended while it started.
    """
    check_engine(options)
    start: AbstractContextManager[tuple[Workers, int, int]] = ENGINES[options.engine_name()](options)
    with start as (workers, num_workers, num_processes):
        runner: ThreadPoolTaskRunner[Any] = ThreadPoolTaskRunner(max_workers=num_workers)
        with runner:
            try:
                yield Engine(runner=runner, workers=workers, num_workers=num_workers, num_processes=num_processes)
            except BaseException:
                workers.stop()  # the runner waits for its threads, and those for their slices
                raise
