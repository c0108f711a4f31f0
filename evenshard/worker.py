"""One worker: does slices one after another, and keeps its client, store and transform between them.

`main` makes a process a worker, told what to do over an inherited socket by its parent, and gone when
the parent is. It never imports the orchestrator, nor the program that started it.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from evenshard import transforms
from evenshard.adapters.s3_settings import reaching_s3
from evenshard.clients import Clients, fetching_as
from evenshard.core.early import EARLY_ROWS, Look
from evenshard.core.errors import RunStoppedError, TransformError
from evenshard.row_samples import callable_samples, image_samples, plain_samples
from evenshard.slices import find_finished, read_slice, store_slice
from evenshard.stores import open_store
from evenshard.text_samples import text_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenshard.core.outcome import Outcome
    from evenshard.core.receipt import Receipt
    from evenshard.slices import Samples, SliceJob

REPORT_SECONDS: Final = 0.2
"""How often a worker says how far it is; a person sees no more than five changes a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one attempt at a slice is; a later report takes the place of an earlier one.

    Args:
        slice_index: which slice.
        ended: rows by what became of them so far: `stored`, or the reason of each other one.
        done_before: whether an earlier run had done it.
        members_done: of texts, how many planned members are done; None of rows, which end one by one.
        look: what became of its first rows, once all of those have ended.
    """

    slice_index: int
    ended: Counter[str]
    done_before: bool = False
    members_done: int | None = None
    look: Look | None = None


class SliceWorker:
    """Does slices; not for several threads at once.

    Args:
        clients: what asks the web; shared by the workers of one process.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._stopped = threading.Event()
        self._transforms: dict[str, Any] = {}

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice, or find that an earlier run has done it.

        Args:
            job: the slice.
            report: told how far it is, a few times a second.

        Raises:
            SliceError: it could not be finished.
            StoreError: the destination refused.
        """
        with reaching_s3(job.settings.s3):
            store = open_store(job.settings.destination)
        receipt = find_finished(store, job)
        if receipt is not None:
            done = job.slice.num_rows if job.recipe.is_of_members else None
            report(Progress(slice_index=job.slice.index, ended=_ended(receipt), done_before=True, members_done=done))
            return receipt
        tally = _Tally(job, report, self._stopped)
        with fetching_as(job.settings.fetch):
            receipt = store_slice(job, self._samples(job, tally.add), store)
        tally.finish()
        return receipt

    def kill(self) -> None:
        """Make the slice that is being done fail at its next row, from any thread."""
        self._stopped.set()
        self._clients.close()

    def close(self) -> None:
        """Give back nothing: the clients are others' too."""

    def _samples(self, job: SliceJob, seen: Callable[[int, Outcome], None]) -> Samples:
        if job.recipe.is_of_members:
            return text_samples(job, seen=seen)
        read = read_slice(job)
        match job.recipe.transform:
            case transforms.IMAGES:
                return image_samples(job, read, self._clients.get(job.settings.fetch), seen=seen)
            case transforms.ROWS:
                return plain_samples(job, read, seen=seen)
            case _:
                return callable_samples(job, read, self._transform(job), seen=seen)

    def _transform(self, job: SliceJob) -> Any:  # noqa: ANN401 - a caller's callable
        name = job.recipe.transform
        if name not in self._transforms:
            given = job.settings.transform
            try:
                made = transforms.load_transform(name) if given is None else pickle.loads(given)  # noqa: S301 - pickled by the parent
            except Exception as error:  # a stranger's code: whatever it raises belongs to this slice, by name
                raise TransformError(job.slice.index, f"{name}: {type(error).__name__}: {error}") from error
            self._transforms[name] = made
        return self._transforms[name]


class _Tally:
    """Counts rows as they end, and reports now and then; stops where somebody wants it."""

    def __init__(self, job: SliceJob, report: Callable[[Progress], None], stopped: threading.Event) -> None:
        self._slice, self._report, self._stopped = job.slice, report, stopped
        self._members_done = 0 if job.recipe.is_of_members else None
        # How many documents members hold is not known before they are read.
        self._num_first = EARLY_ROWS if job.recipe.is_of_members else min(EARLY_ROWS, job.slice.num_rows)
        self._ended: Counter[str] = Counter()
        self._first: list[Outcome] = []
        self._look: Look | None = None
        self._due = time.monotonic() + REPORT_SECONDS

    def add(self, position: int, outcome: Outcome) -> None:
        if self._stopped.is_set():
            raise RunStoppedError("the run was stopped")
        self._ended["stored" if outcome.reason is None else outcome.reason.value] += 1
        if position < EARLY_ROWS:
            self._first.append(outcome)
        if self._look is None and len(self._first) == self._num_first:
            self._look = Look.at(self._first)
            self.flush()
        elif time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        self._report(
            Progress(
                slice_index=self._slice.index,
                ended=Counter(self._ended),
                look=self._look,
                members_done=self._members_done,
            )
        )
        self._due = time.monotonic() + REPORT_SECONDS

    def finish(self) -> None:
        """Report the end of the slice."""
        if self._members_done is not None:
            self._members_done = self._slice.num_rows
            self._look = self._look or Look.at(self._first)
        self.flush()


def _ended(receipt: Receipt) -> Counter[str]:
    counts = receipt.counts
    return Counter({"stored": counts.stored, **counts.filtered, **counts.failed})


def serve(connection: Connection) -> None:
    """Do the jobs that come over a connection, until the other end closes it.

    Answers are pairs: ("progress", Progress) any number of times, then ("receipt", Receipt) or
    ("error", exception). A thread of its own reads the connection, so that a worker whose parent has died
    ends at once, in the middle of a slice; what it had written is not signed for, and does not count.
    """
    jobs: SimpleQueue[SliceJob] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, jobs), daemon=True).start()
    worker = SliceWorker(Clients())
    while True:
        job = jobs.get()
        try:
            receipt = worker.run(job, lambda progress: connection.send(("progress", progress)))
            connection.send(("receipt", receipt))
        except Exception as error:  # noqa: BLE001 - the other end raises it again
            connection.send_bytes(pickled_error(error))


def _receive(connection: Connection, jobs: SimpleQueue[SliceJob]) -> None:
    try:
        while True:
            jobs.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a job that cannot be read: the other end must not wait for its answer
        traceback.print_exc()
        os._exit(1)


def pickled_error(error: Exception) -> bytes:
    """Give the answer ("error", exception) as bytes that can be read again, whatever class it is of."""
    try:
        data = pickle.dumps(("error", error))
        pickle.loads(data)  # noqa: S301 - made one line above; some errors can be written but not read
    except Exception:  # noqa: BLE001 - any class can refuse
        data = pickle.dumps(("error", RuntimeError(f"{type(error).__name__}: {error}")))
    return data


def main() -> None:
    """Be a worker process; the socket's descriptor is the first argument."""
    serve(Connection(int(sys.argv[1])))
