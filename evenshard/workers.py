"""The workers of one machine: as many as run at once, in threads or in processes of their own."""

from __future__ import annotations

from contextlib import contextmanager
from queue import Empty, LifoQueue
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
        self._idle: LifoQueue[Worker] = LifoQueue()
        self._all: list[Worker] = []
        self._stopped = False

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice on a worker that is free, or on a new one.

        Raises:
            SliceError: it could not be finished.
        """
        with self._lent() as worker:
            receipt = worker.run(job, report)
        if receipt.slice_index != job.slice.index:
            raise SliceError(job.slice.index, f"its worker signed for slice {receipt.slice_index}")
        return receipt

    @contextmanager
    def _lent(self) -> Iterator[Worker]:
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = self._make()
            self._all.append(worker)
        try:
            if self._stopped:
                raise RunStoppedError("the run was stopped")
            yield worker
        finally:
            self._idle.put(worker)

    def stop(self) -> None:
        """Have all slices that are being done fail soon, and those that are still asked for at once."""
        self._stopped = True
        for worker in list(self._all):
            worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close all workers; those that are lent are closed by the end of their process."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return
