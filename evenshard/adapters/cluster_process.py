"""The process that stands between a run and its cluster: told errands over one connection, by many threads at once.

The libraries of clusters want a process of their own. Ray's takes over the handler of SIGTERM, writes on standard
output what its daemons say, and ends the process that holds it when its head is gone (seen with 2.60: exit code 1
after a minute); Dask's keeps an event loop and a scheduler running. Here neither can touch the run: Ctrl-C is not for
this process, and its end, whoever brought it about, is an answer like any other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from multiprocessing import connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from evenshard.adapters.child_process import ChildProcess
from evenshard.core.errors import ClusterError, OptionError, RunStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODULE: Final = "evenshard.cluster"
START: Final = 0
"""Number of the first answer, which says that the cluster is ready; errands are numbered from 1."""
END_SECONDS: Final = 30.0
"""A cluster that is told to end, and has not after this long, is not waited for: it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Which cluster a run wants.

    Args:
        engine: `dask` or `ray`.
        address: where it is; None to start one on this machine.
        num_workers: slices that run at once; None for all that a cluster elsewhere can take.
        run: names the run.
    """

    engine: str
    address: str | None
    num_workers: int | None
    run: str


class ClusterProcess:
    """One cluster, in a process of its own; any number of threads may ask it at once.

    Args:
        settings: which cluster.
        environment: of the process.
    """

    def __init__(self, settings: ClusterSettings, *, environment: Mapping[str, str]) -> None:
        self._lock, self._mouth = threading.Lock(), threading.Lock()
        self._answers: dict[int, SimpleQueue[tuple[str, Any]]] = {START: SimpleQueue()}
        self._last, self._address = START, settings.address
        self._end: tuple[str, Any] | None = None
        self._child = ChildProcess(MODULE, environment=environment)
        self._reader = threading.Thread(target=self._read, name="evenshard-cluster", daemon=True)
        self._reader.start()
        self._send(settings)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def wait_until_ready(self) -> int:
        """Wait for the cluster; gives how many slices it does at once.

        Raises:
            OptionError: there is none as asked for; Ray's library can end the process over that.
            ClusterError: the process ended while it started one.
        """
        try:
            num_slots: int = self._result(START, lambda _: None)
        except ClusterError as error:
            if self._address is None:
                raise
            raise OptionError("engine_address", f"no cluster answers at {self._address}: {error}") from error
        return num_slots

    def run(self, errand: bytes, report: Callable[[bytes], None]) -> bytes:
        """Have one errand done; gives its answer.

        Args:
            errand: what a worker is handed.
            report: told of each message that comes before the answer.

        Raises:
            ClusterError: the cluster lost it, or was lost.
            RunStoppedError: `stop` was called.
        """
        with self._lock:
            self._last += 1
            number = self._last
            self._answers[number] = SimpleQueue()
            if self._end is not None:
                self._answers[number].put(self._end)
        try:
            self._send((number, errand))
            answer: bytes = self._result(number, report)
        except BaseException:
            self._send((number, None))  # nobody waits for it any more
            raise
        finally:
            with self._lock:
                del self._answers[number]
        return answer

    def stop(self) -> None:
        """Have all that is being done fail at once, and all that is still asked for, from any thread."""
        self._finish(("stopped", None))
        self._send(None)

    def close(self) -> None:
        """End the process, and the cluster if it was started here; nothing of it is left after this."""
        self._send(None)
        connection.wait([self._child.watch], END_SECONDS)
        self._child.kill()
        self._reader.join()
        self._child.end()

    def _send(self, message: object) -> None:
        """Tell the process; if it is gone, the reader knows."""
        try:
            with self._mouth:  # not the other one: while this waits for a reader, answers are still taken in
                self._child.connection.send(message)
        except OSError:
            return

    def _result(self, number: int, report: Callable[[bytes], None]) -> Any:  # noqa: ANN401 - what the process answers
        answers = self._answers[number]
        while True:
            kind, message = answers.get()
            match kind:
                case "progress":
                    report(message)
                case "answer":
                    return message
                case "stopped":
                    raise RunStoppedError("the run was stopped")
                case "lost":
                    raise ClusterError(message)
                case _:
                    raise message

    def _read(self) -> None:
        """Hand each message to who waits for it, until the process ends; then everybody learns that it did."""
        child = self._child
        try:
            while child.connection in connection.wait([child.connection, child.watch]):
                number, kind, message = child.connection.recv()
                with self._lock:
                    answers = self._answers.get(number)
                if answers is not None:
                    answers.put((kind, message))
        except (EOFError, OSError):
            pass
        self._finish(("lost", f"the process that holds the cluster is gone: {child.how_it_died()}"))

    def _finish(self, end: tuple[str, Any]) -> None:
        with self._lock:
            self._end = self._end or end
            for answers in self._answers.values():
                answers.put(self._end)
