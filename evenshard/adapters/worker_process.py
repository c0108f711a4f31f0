"""A worker process of one's own: started, given jobs, and known to be dead when it is.

Plain `subprocess` rather than a process pool: a pool starts the caller's main program again in each
worker (which may import an orchestrator, or lack a guard), and loses all its jobs when one worker dies.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any, Final

from evenshard.core.errors import WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

PROGRAM: Final = "from evenshard.worker import main; main()"
"""Not `-m`: what that module defines would be of `__main__` there, and unknown here."""
END_SECONDS: Final = 5.0
"""A worker that was told to end, and has not after this long, is killed."""


class WorkerProcess:
    """One worker process. It starts with the first job, and again with the first one after its end."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id, or None while there is no process."""
        return self._process.pid if self._process else None

    def run(self, job: object, *, slice_index: int, report: Callable[[Any], None]) -> Any:  # noqa: ANN401 - a receipt, as long as the worker is ours
        """Have one job done, and give its result.

        Args:
            job: what the worker is sent.
            slice_index: for the error, if it dies.
            report: told of each message that comes before the result.

        Raises:
            WorkerDiedError: the process died at it.
            Exception: whatever the job raised there.
        """
        connection = self._connection or self._start()
        try:
            connection.send(job)
            kind, message = connection.recv()
            while kind == "progress":
                report(message)
                kind, message = connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError(slice_index, self._how_it_died()) from error
        except BaseException:
            self.close()  # in the middle of a job: what it still says belongs to no other
            raise
        if kind == "error":
            raise message
        return message

    def kill(self) -> None:
        """End the process at once, from any thread; whoever waits for its answer learns that it died."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process; it sees its connection closed and goes."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        descriptor = theirs.fileno()
        command = [sys.executable, "-c", PROGRAM, str(descriptor)]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent, which decides what becomes of its workers
        )
        theirs.close()
        ours.send(sys.path)
        self._connection = ours
        return ours

    def _how_it_died(self) -> str:
        process = self._process
        pid, code = (process.pid, process.wait()) if process else (0, 0)
        self.close()
        if code >= 0:
            return f"worker process {pid} ended with code {code}"
        hint = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
        return f"worker process {pid} was ended by {signal.Signals(-code).name}{hint}"
