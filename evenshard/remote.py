"""What a process of somebody's cluster does: one slice at a time in each of its threads, told by bytes alone.

It comes there by being installed there; a cluster's own serialiser carries nothing of it, so that a worker
with other versions is found out before it reads anything that it would read wrongly.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from evenshard.clients import Clients
from evenshard.core.errors import OptionError, SliceError
from evenshard.generations import read_plan
from evenshard.planning import libraries
from evenshard.stores import open_store
from evenshard.worker import SliceWorker, pickled_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenshard.slices import SliceJob

WATCH_SECONDS: Final = 0.5
"""How often a worker asks whether its slice is still wanted; a stopped run leaves a cluster as soon as that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A slice job on its way to a cluster, still packed.

    Args:
        run: names the run; what is kept between slices is kept for one run.
        versions: of the libraries that decide the bytes, and of Python, where the job was made.
        job: a pickled SliceJob.
    """

    run: str
    versions: tuple[str, ...]
    job: bytes = field(repr=False)


@cache
def versions() -> tuple[str, ...]:
    """Name what must be the same on both ends: the libraries that decide the bytes, and Python but for its patches."""
    return (*libraries(), f"python {sys.version_info.major}.{sys.version_info.minor}")


def pack(job: SliceJob, *, run: str) -> bytes:
    """Make a job ready for the way."""
    return pickle.dumps(Errand(run=run, versions=versions(), job=pickle.dumps(job)))


def do_slice(errand: bytes, report: Callable[[bytes], None], wanted: Callable[[], bool] | None = None) -> bytes:
    """Do one slice, and give its answer: a pickled ("receipt", Receipt) or ("error", exception).

    Args:
        errand: as `pack` made it.
        report: told how far it is, a pickled Progress, a few times a second and at the end.
        wanted: says whether anybody still waits for it; asked twice a second.
    """
    try:
        asked: Errand = pickle.loads(errand)  # noqa: S301 - from the run that the cluster works for
        _check_versions(asked.versions)
        job: SliceJob = pickle.loads(asked.job)  # noqa: S301 - the same
        seat = _seat_of(asked.run)
        seat.check_destination(job)
        with _watched(seat, wanted):
            receipt = seat.worker.run(job, lambda progress: report(pickle.dumps(progress)))
        return pickle.dumps(("receipt", receipt))
    except Exception as error:  # noqa: BLE001 - the flow raises it again
        return pickled_error(error)


def _check_versions(theirs: tuple[str, ...]) -> None:
    differing = [f"{there}, here {here}" for there, here in zip(theirs, versions(), strict=False) if there != here]
    if differing:
        raise OptionError(
            "engine_address",
            f"worker {_place()} has other versions than the run: {'; '.join(differing)}; install the same, since "
            "others may write other bytes",
        )


def _place() -> str:
    return socket.gethostname()


class _Seat:
    """What one thread keeps between the slices of one run."""

    def __init__(self, run: str) -> None:
        self.run, self.clients = run, Clients()
        self.worker = SliceWorker(self.clients)
        self._seen: set[str] = set()

    def check_destination(self, job: SliceJob) -> None:
        """Refuse to write where the run is not: a local path means another folder on another machine.

        Raises:
            SliceError: the plan that the run has claimed its destination for is not there.
        """
        if job.fingerprint in self._seen:
            return
        plan = read_plan(open_store(job.settings.destination), job.generation)
        if plan is None or plan.fingerprint != job.fingerprint:
            raise SliceError(
                job.slice.index,
                f"worker {_place()} does not see {job.settings.destination} as the run does: its plan is not there; "
                "destination and source must be on storage that every worker reaches under the same address",
            )
        self._seen.add(job.fingerprint)


_SEATS: Final[dict[int, _Seat]] = {}
_LOCK: Final = threading.Lock()


def _seat_of(run: str) -> _Seat:
    """Give this thread's place; what it kept for another run is given up first."""
    thread = threading.get_ident()
    with _LOCK:
        seat = _SEATS.get(thread)
        if seat is None or seat.run != run:
            if seat is not None:
                seat.clients.close()
            seat = _SEATS[thread] = _Seat(run)
        return seat


def leave(run: str) -> None:
    """Give up what this process keeps for a run; slices of it that are being done fail at their next row."""
    with _LOCK:
        seats = [seat for seat in _SEATS.values() if seat.run == run]
    for seat in seats:
        _give_up(seat)


@contextmanager
def _watched(seat: _Seat, wanted: Callable[[], bool] | None) -> Iterator[None]:
    """End the slice that a seat does when nobody waits for it any more."""
    done = threading.Event()

    def watch(is_wanted: Callable[[], bool]) -> None:
        while not done.wait(WATCH_SECONDS):
            if not is_wanted():
                _give_up(seat)
                return

    if wanted is not None:
        threading.Thread(target=watch, args=(wanted,), name="evenshard-watch", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _give_up(seat: _Seat) -> None:
    with _LOCK:
        for thread in [thread for thread, each in _SEATS.items() if each is seat]:
            del _SEATS[thread]
    seat.worker.kill()
