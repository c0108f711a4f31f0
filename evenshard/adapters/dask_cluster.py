"""A Dask cluster that does errands: one that is there already, or one of this process's own.

Errands are bytes, and so are answers and reports: Dask's serialiser carries nothing else. A worker's death has Dask do
the errand again by itself, as often as its scheduler's `allowed-failures` says (0 in a cluster of our own), and then
fail it; both are harmless, since a slice that is done twice counts once. Reports come as events of one topic, of which
a scheduler keeps the last thousand.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from distributed import CancelledError, Client, get_worker, wait
from distributed.scheduler import KilledWorker

from evenshard.adapters.dask_local import LocalDask
from evenshard.core.errors import ClusterError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Future, Worker

    from evenshard.adapters.cluster_process import ClusterSettings

REMOTE: Final = "evenshard.remote"
CONNECT_SECONDS: Final = 10.0
TURN_SECONDS: Final = 0.25
"""How long a wait for an answer lasts before it is seen whether anybody still wants it."""
LOOK_SECONDS: Final = 2.0
"""How often the scheduler is asked for its workers."""
EMPTY_SECONDS: Final = 60.0
"""A cluster that has shown no worker for so long is taken for lost: Dask itself would wait for ever."""


class DaskCluster:
    """A connection to a scheduler, and the cluster behind it if it was started here.

    Args:
        settings: which.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings, self._ends = settings, ExitStack()
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        self._lost, self._due = "", 0.0
        self._closed = threading.Event()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says is an answer here, or nobody's

    def __enter__(self) -> Self:
        with self._ends:
            self._client, self.num_slots = self._open()
            self._client.subscribe_topic(self._settings.run, self._hear)
            threading.Thread(target=self._look, name="evenshard-look", daemon=True).start()
            self._ends = self._ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with suppress(Exception):  # a cluster that is gone has nothing left to give up
            self._client.run(leave_there, self._settings.run, on_error="ignore")
        self._ends.close()

    def _open(self) -> tuple[Client, int]:
        address, wanted = self._settings.address, self._settings.num_workers
        if address is None:
            local = self._ends.enter_context(LocalDask(wanted or 1))
            return self._ends.enter_context(_connect(local.address, security=local.security)), wanted or 1
        client = self._ends.enter_context(_connect(address))
        found = sum(client.nthreads().values())
        if not wanted and not found:
            raise OptionError(
                "engine_address",
                f"the Dask scheduler at {address} has no workers; start some, or say with --engine-workers how many "
                "slices shall run at once when they come",
            )
        return client, wanted or found

    def run(self, errand: bytes, report: Callable[[bytes], None], cancelled: threading.Event) -> bytes:
        """Have one errand done, by any of its workers; gives the answer.

        Raises:
            ClusterError: its workers died at it, the cluster is gone, or nobody waits for it any more.
        """
        key, told = f"evenshard-{uuid4().hex}", [b""]

        def hear(message: bytes) -> None:
            told[0] = message
            report(message)

        self._due = max(self._due, time.monotonic() + EMPTY_SECONDS)
        self._handlers[key] = hear
        try:
            future = self._client.submit(do_there, self._settings.run, errand, key=key, pure=False, retries=0)
            answer, last = self._answer(future, cancelled)
        except KilledWorker as error:
            raise ClusterError(f"the Dask worker {error.last_worker.address} died at it") from error
        except CancelledError as error:
            raise ClusterError(self._lost or "the connection to the Dask scheduler was lost") from error
        finally:
            del self._handlers[key]
        if last is not None and last != told[0]:
            report(last)  # it came by the other way first
        return answer

    def _answer(self, future: Future[Any], cancelled: threading.Event) -> tuple[bytes, bytes | None]:
        while not future.done():
            if time.monotonic() > self._due:
                self._lost = f"the Dask cluster has shown no worker for {EMPTY_SECONDS:.0f} s"
            if cancelled.is_set() or self._lost:
                future.cancel()
                raise ClusterError(self._lost or "nobody waits for it any more")
            with suppress(TimeoutError):
                wait([future], timeout=TURN_SECONDS)
        answer: tuple[bytes, bytes | None] = future.result()
        return answer

    def _hear(self, event: tuple[float, tuple[str, bytes]]) -> None:
        """Hand a worker's report to who waits for its answer."""
        _, (key, message) = event
        report = self._handlers.get(key)
        if report is not None:
            report(message)

    def _look(self) -> None:
        """See whether there is a scheduler, and whether it has workers; one that hangs is not waited for, but here."""
        while not self._closed.wait(LOOK_SECONDS):
            if self._client.status in {"closed", "closing"}:
                self._lost = "the Dask scheduler is gone"
                return
            with suppress(Exception):  # whatever it is, nothing was seen
                if self._client.nthreads():
                    self._due = time.monotonic() + EMPTY_SECONDS


def _connect(address: str, **options: Any) -> Client:  # noqa: ANN401 - Dask's own
    try:
        return Client(address, timeout=CONNECT_SECONDS, **options)
    except Exception as error:  # whatever a foreign address makes it raise: ValueError, OSError, its own
        raise OptionError(
            "engine_address", f"no Dask scheduler answers at {address} within {CONNECT_SECONDS:.0f} s"
        ) from error


def do_there(topic: str, errand: bytes) -> tuple[bytes, bytes | None]:
    """Do an errand in a worker of the cluster; gives its answer, and what was reported last."""
    worker, last = get_worker(), None
    key = str(worker.get_current_task())

    def report(message: bytes) -> None:
        nonlocal last
        last = message
        worker.log_event(topic, (key, message))

    answer: bytes = import_module(REMOTE).do_slice(errand, report, partial(_is_wanted, worker, key))
    return answer, last


def _is_wanted(worker: Worker, key: str) -> bool:
    """Say whether the scheduler still has a client for it; a run that was killed has none."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state not in {"cancelled", "resumed"}


def leave_there(run: str) -> None:
    """Have a worker give up what it keeps for a run."""
    import_module(REMOTE).leave(run)
