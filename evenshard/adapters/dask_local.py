"""A Dask cluster on this machine: a scheduler in this process, and workers of one thread in processes of their own.

Dask's own local cluster starts the program of its caller again in each worker, unless that program guards against it;
and its connections are open to everybody on the machine, who could hand it code. These workers are plain child
processes, gone with their parent and replaced when they die; keys made for this cluster alone guard its connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
from contextlib import ExitStack
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, Self

from distributed import LocalCluster, Security, Worker

from evenshard.adapters.child_process import ChildProcess

if TYPE_CHECKING:
    from types import TracebackType

MODULE: Final = "evenshard.adapters.dask_local"
LOOPBACK: Final = "127.0.0.1"
LOOK_SECONDS: Final = 0.5
"""How long a dead worker may stay without a successor."""


class LocalDask:
    """A scheduler and its workers; a dead worker is replaced.

    Args:
        num_workers: processes, 1 or more.
    """

    def __init__(self, num_workers: int) -> None:
        self.security = Security.temporary()
        self._ends = ExitStack()
        self._num_workers = num_workers
        self._closed = threading.Event()
        self._children: list[ChildProcess] = []

    def __enter__(self) -> Self:
        with self._ends:
            self._folder = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="evenshard-dask-"))
            scheduler = LocalCluster(  # the scheduler alone
                n_workers=0,
                processes=False,
                host=LOOPBACK,
                protocol="tls",
                security=self.security,
                dashboard_address=f"{LOOPBACK}:0",  # of the scheduler's pages, which it serves in any case
                silence_logs=logging.CRITICAL,
                scheduler_kwargs={"allowed_failures": 0},  # Prefect tries again, and shows that it does
            )
            self.address: str = self._ends.enter_context(scheduler).scheduler_address
            keeper = threading.Thread(target=self._keep, name="evenshard-keeper", daemon=True)
            keeper.start()
            self._ends.callback(keeper.join)
            self._ends.callback(self._closed.set)
            self._ends = self._ends.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.close()

    def _keep(self) -> None:
        """Have as many workers as wanted, until the end; then none."""
        while not self._closed.is_set():
            while len(self._children) < self._num_workers:
                self._children.append(self._start())
            for dead in connection.wait([child.watch for child in self._children], LOOK_SECONDS):
                (child,) = [each for each in self._children if each.watch == dead]
                self._children.remove(child)
                child.end()
        for child in self._children:
            child.end()

    def _start(self) -> ChildProcess:
        child = ChildProcess(MODULE)
        child.connection.send((self.address, self.security, self._folder))
        return child


async def _work(address: str, security: Security, folder: str) -> None:
    worker: Any = Worker(
        address,
        nthreads=1,
        security=security,
        protocol="tls",
        host=LOOPBACK,
        memory_limit=0,  # nothing is kept in it; a slice's own memory has a bound of its own
        local_directory=folder,
        dashboard=False,
        death_timeout=60,
    )
    async with worker:
        await worker.finished()


def _end_with_parent(parent: Connection[Any, Any]) -> None:
    try:
        parent.recv()
    except (EOFError, OSError):
        os._exit(0)


def main() -> None:
    """Be a worker; the socket's descriptor is the first argument."""
    parent: Connection[Any, Any] = Connection(int(sys.argv[1]))
    address, security, folder = parent.recv()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(_work(address, security, folder))
    os._exit(0)
