"""A process of this package: started, talked to over a connection, and known to be dead when it is.

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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[4]); "
    "from importlib import import_module; import_module(sys.argv[3]).main()"
)
"""Not `-m`: what that module defines would be of `__main__` there, and unknown here. The caller's search
path comes first of all, so that the folder one stands in can stand in for none of our modules."""
END_SECONDS: Final = 5.0
"""A process that closed its connection or was told to end, and has not after this long, is not waited for."""


class ChildProcess:
    """One process, which leads a group of its own, so that what it started goes with it.

    Ctrl-C is not for it, but for its parent, which decides what becomes of it.

    Whoever waits for a message waits for `watch` beside `connection`: it is ready when the process has ended, while
    the connection may be held open by a child of it.

    Args:
        module: whose `main` it runs. Its first argument is the descriptor of its connection, the second the number of
            this process, which may be dead by the time that it looks for its parent.
        environment: of the process; this one's if None.
    """

    def __init__(self, module: str, *, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = Pipe()
        descriptor = theirs.fileno()
        self._owner = os.getpid()
        arguments = [str(descriptor), str(self._owner), module, json.dumps(sys.path)]
        command = [sys.executable, "-P", "-c", PROGRAM, *arguments]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            env=environment,
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        try:
            self.watch = os.pidfd_open(self._process.pid)
        except OSError:  # no descriptor left: the process would be nobody's
            self._process.kill()
            self._process.wait()
            raise
        self.connection: Connection[Any, Any] = ours
        self._door = threading.RLock()  # re-entered where garbage collection, inside it, ends the process

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_ours(self) -> bool:
        """Say whether this process started it; a forked one has a copy of this object, and must leave it alone."""
        return self._owner == os.getpid()

    def kill(self) -> None:
        """End it and what it started at once, from any thread; whoever waits for it learns that it ended."""
        with self._door:
            if self.is_ours and self._process.returncode is None:  # before it is waited for, nobody else has its number
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    def end(self, *, wait: bool = False) -> None:
        """End it and give everything back; again it does nothing.

        Args:
            wait: let it end by itself first, which it does when it sees its connection closed.
        """
        self.connection.close()
        with self._door:
            if wait and self.watch >= 0:
                connection.wait([self.watch], END_SECONDS)
            self.kill()
            self._reap()
            if self.watch >= 0:
                os.close(self.watch)
                self.watch = -1

    def how_it_died(self) -> str:
        """Say by what; a process that closed its connection and lives on is ended first."""
        if self.watch >= 0:
            connection.wait([self.watch], END_SECONDS)
        self.kill()
        self._reap()
        code = self._process.returncode
        if code is None:
            return f"worker process {self.pid} does not answer"
        if code >= 0:
            return f"worker process {self.pid} ended with code {code}"
        hint = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
        return f"worker process {self.pid} was ended by {signal.Signals(-code).name}{hint}"

    def _reap(self) -> None:
        """Wait for a process that was killed; one that hangs inside the system, on a lost disk, is left."""
        with self._door:
            if self.is_ours:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_SECONDS)
            else:
                self._process.returncode = 0  # not ours to wait for, nor to be warned of
