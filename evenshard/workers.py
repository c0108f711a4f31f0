"""The workers of one machine: as many as run at once, in threads or in processes of their own."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self

from evenshard.adapters.worker_process import WorkerProcess
from evenshard.core.errors import RunStoppedError, SliceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenshard.core.receipt import Receipt
    from evenshard.slices import SliceJob
    from evenshard.worker import Progress


class Worker(Protocol):
    """What does slices, one at a time."""

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice."""

    def kill(self) -> None:
        """Make the slice that is being done fail soon; called from another thread."""

    def close(self) -> None:
        """Give everything back."""


class ProcessWorker:
    """A worker that lives in a process of its own; that process dies alone, and the next slice starts another."""

    def __init__(self) -> None:
        self.process = WorkerProcess()

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice there."""
        receipt: Receipt = self.process.run(job, slice_index=job.slice.index, report=report)
        return receipt

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def close(self) -> None:
        """End the process."""
        self.process.close()


class Workers:
    """Lends a worker to each thread that asks.

    Args:
        make: makes a worker.
    """

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._stopped = False

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice on a worker that is free, or on a new one.

        Raises:
            SliceError: it could not be finished.
            RunStoppedError: `stop` was called.
        """
        with self._lent() as worker:
            receipt = worker.run(job, report)
        if receipt.slice_index != job.slice.index:
            raise SliceError(job.slice.index, f"its worker signed for slice {receipt.slice_index}")
        return receipt

    @contextmanager
    def _lent(self) -> Iterator[Worker]:
        with self._lock:
            if self._stopped:
                raise RunStoppedError("the run was stopped")
            worker = self._idle.pop() if self._idle else self._make()
            if worker not in self._all:
                self._all.append(worker)
        try:
            yield worker
        finally:
            with self._lock:
                self._idle.append(worker)

    def stop(self) -> None:
        """Have all slices that are being done fail soon, and those that are still asked for at once."""
        with self._lock:
            self._stopped = True
            workers = list(self._all)
        for worker in workers:
            worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.close()
