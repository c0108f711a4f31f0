"""A worker process of one's own: started late, given jobs, and started anew when it has died."""

from __future__ import annotations

import threading
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Final

from evenshard.adapters.child_process import ChildProcess
from evenshard.core.errors import RunStoppedError, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE: Final = "evenshard.worker"


class WorkerProcess:
    """One worker process. It starts with the first job, and again with the first one after its end."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """Process id, or None while there is no process."""
        child = self._child
        return child.pid if child else None

    def run(self, job: object, *, slice_index: int, report: Callable[[Any], None]) -> Any:  # noqa: ANN401 - what the worker answers
        """Have one job done, and give its result.

        Args:
            job: what the worker is sent.
            slice_index: for the error, if it dies.
            report: told of each message that comes before the result.

        Raises:
            WorkerDiedError: the process died at it.
            RunStoppedError: `kill` was called.
            Exception: whatever the job, or `report`, raised.
        """
        child = self._child or self._start()
        try:
            _send(child, job, slice_index)
            kind, message = _receive(child, slice_index)
            while kind == "progress":
                report(message)
                kind, message = _receive(child, slice_index)
        except BaseException:
            self._end(wait=False)  # in the middle of a job: what it still says belongs to no other
            raise
        if kind == "error":
            raise message
        return message

    def kill(self) -> None:
        """End the process at once and for good, from any thread; whoever waits for its answer learns that it died."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """End the process; it sees its connection closed and goes."""
        self._end(wait=True)

    def _start(self) -> ChildProcess:
        with self._lock:
            if self._stopped:
                raise RunStoppedError("the run was stopped")
            self._child = ChildProcess(MODULE)
            return self._child

    def _end(self, *, wait: bool) -> None:
        child = self._child
        if child is not None:
            child.end(wait=wait)
            with self._lock:
                self._child = None


def _send(child: ChildProcess, job: object, slice_index: int) -> None:
    if child.connection.closed:
        raise RunStoppedError("the worker was closed")
    try:
        child.connection.send(job)
    except OSError:
        raise WorkerDiedError(slice_index, child.how_it_died()) from None


def _receive(child: ChildProcess, slice_index: int) -> tuple[str, Any]:
    """Wait for a message or for the death of the process."""
    if child.connection.closed:
        raise RunStoppedError("the worker was closed")
    ready = connection.wait([child.connection, child.watch])
    if child.connection in ready:
        try:
            message: tuple[str, Any] = child.connection.recv()
        except (EOFError, OSError):
            raise WorkerDiedError(slice_index, child.how_it_died()) from None
        return message
    raise WorkerDiedError(slice_index, child.how_it_died())
