"""A worker process of one's own: started, given jobs, and known to be dead when it is.

Plain `subprocess` rather than a process pool: a pool starts the caller's main program again in each
worker (which may import an orchestrator, or lack a guard), and loses all its jobs when one worker dies.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import Pipe, connection
from typing import TYPE_CHECKING, Any, Final

from evenshard.core.errors import RunStoppedError, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

PROGRAM: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from evenshard.worker import main; main()"
"""Not `-m`: what that module defines would be of `__main__` there, and unknown here. The caller's search
path comes first of all, so that the folder one stands in can stand in for none of our modules."""
END_SECONDS: Final = 5.0
"""A worker that was told to end, and has not after this long, is killed."""


class WorkerProcess:
    """One worker process. It starts with the first job, and again with the first one after its end.

    It leads a process group of its own, so that what a transform started there goes with it.
    """

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: int | None = None
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """Process id, or None while there is no process."""
        return self._process.pid if self._process else None

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
        if self._connection is None:
            self._start()
        try:
            self._send(job, slice_index)
            kind, message = self._receive(slice_index)
            while kind == "progress":
                report(message)
                kind, message = self._receive(slice_index)
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
            if self._process is not None and self._process.returncode is None:
                _kill_group(self._process.pid)

    def close(self) -> None:
        """End the process; it sees its connection closed and goes."""
        self._end(wait=True)

    def _start(self) -> None:
        ours, theirs = Pipe()
        descriptor = theirs.fileno()
        command = [sys.executable, "-P", "-c", PROGRAM, str(descriptor), json.dumps(sys.path)]
        with self._lock:
            if self._stopped:
                raise RunStoppedError("the run was stopped")
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent, which decides what becomes of its workers
            )
        theirs.close()
        self._watch = os.pidfd_open(self._process.pid)
        self._connection = ours

    def _send(self, job: object, slice_index: int) -> None:
        if self._connection is None:
            raise RunStoppedError("the worker was closed")
        try:
            self._connection.send(job)
        except OSError:
            raise WorkerDiedError(slice_index, self._how_it_died()) from None

    def _receive(self, slice_index: int) -> tuple[str, Any]:
        """Wait for a message or for the death of the process: a child of it may hold the connection open."""
        if self._connection is None or self._watch is None:
            raise RunStoppedError("the worker was closed")
        ready = connection.wait([self._connection, self._watch])
        if self._connection in ready:
            try:
                message: tuple[str, Any] = self._connection.recv()
            except (EOFError, OSError):
                raise WorkerDiedError(slice_index, self._how_it_died()) from None
            return message
        raise WorkerDiedError(slice_index, self._how_it_died())

    def _end(self, *, wait: bool) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._watch is not None:
            if wait:
                connection.wait([self._watch], END_SECONDS)
            os.close(self._watch)
            self._watch = None
        with self._lock:
            if self._process is not None:
                if self._process.returncode is None:  # before it is waited for, nobody else has its number
                    _kill_group(self._process.pid)
                    self._process.wait()
                self._process = None

    def _how_it_died(self) -> str:
        """Say by what; a worker that closed its connection and lives on is ended first."""
        process = self._process
        if process is None or self._watch is None:
            return "the worker process was ended"
        connection.wait([self._watch], END_SECONDS)
        _kill_group(process.pid)
        code = process.wait()
        if code >= 0:
            return f"worker process {process.pid} ended with code {code}"
        hint = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
        return f"worker process {process.pid} was ended by {signal.Signals(-code).name}{hint}"


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
