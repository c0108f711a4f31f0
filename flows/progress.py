"""How far a run is: counted here, shown by whoever listens."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from evenshard.core.early import WARNING_RATE, Look
from evenshard.core.errors import TooManyFailuresError
from evenshard.core.outcome import FILTERS, Reason

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from evenshard.worker import Progress

LOG_SECONDS: Final = 15.0
"""How often a run's log says how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How far a run is.

    Args:
        planned: rows of the plan.
        ended: rows by what became of them: `stored`, or the reason of each other one; of texts, documents.
        members_done: of texts, those of the plan's rows that are done: members of archives.
        num_before: those of them that an earlier run had done.
        seconds: since the first slice began.
        warning: what should worry a person; empty if nothing.
        notice: what a person should know once, and no state: all else is empty then.
    """

    planned: int
    ended: Counter[str] = field(default_factory=Counter)
    members_done: int | None = None
    num_before: int = 0
    seconds: float = 0.0
    warning: str = ""
    notice: str = ""

    @property
    def num_ended(self) -> int:
        """Rows with an outcome."""
        return sum(self.ended.values())

    @property
    def num_done(self) -> int:
        """Those of the planned that are done."""
        return self.num_ended if self.members_done is None else self.members_done

    @property
    def rows_per_second(self) -> float:
        """Rows that this run has done, in each second."""
        return (self.num_ended - self.num_before) / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """Say it in one line: rows, rows/s, stored, and failures by reason."""
        others = [f"{number} {reason}" for reason, number in self.ended.most_common() if reason != "stored"]
        told = ", ".join([f"{self.ended['stored']} stored", *others[:4]])
        what, each = ("rows", "rows") if self.members_done is None else ("members", "documents")
        return f"{self.num_done} of {self.planned} {what}, {self.rows_per_second:.0f} {each}/s, {told}"


class Tracker:
    """Adds up what the workers report, and tells a listener.

    Args:
        planned: rows of the plan.
        listener: told of each new state, from any thread, one at a time.
        max_failure_rate: failed rows / rows that are accepted, 0 to 1.
    """

    def __init__(self, planned: int, listener: Callable[[Snapshot], None], *, max_failure_rate: float = 1.0) -> None:
        self._max_failure_rate = max_failure_rate
        self._looks: dict[int, Look] = {}
        self._lock = threading.Lock()
        self._listener = listener
        self._planned = planned
        self._slices: dict[int, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._members: dict[int, int] = {}
        self._num_before = 0
        self._began = time.monotonic()

    def add(self, progress: Progress) -> None:
        """Take a report of a worker in place of the one before on that slice: a retried slice counts once."""
        with self._lock:
            self._ended.subtract(self._slices.get(progress.slice_index, Counter()))
            self._ended.update(progress.ended)
            self._slices[progress.slice_index] = progress.ended
            self._num_before += sum(progress.ended.values()) if progress.done_before else 0
            if progress.members_done is not None:
                self._members[progress.slice_index] = progress.members_done
            if progress.look is not None:
                self._looks[progress.slice_index] = progress.look
            self._listener(
                Snapshot(
                    planned=self._planned,
                    ended=+self._ended,
                    members_done=sum(self._members.values()) if self._members else None,
                    num_before=self._num_before,
                    seconds=time.monotonic() - self._began,
                    warning=self._warning(),
                )
            )

    def check(self) -> None:
        """Look at the first rows so far.

        Raises:
            TooManyFailuresError: more of them failed than is accepted, beyond reasonable chance.
        """
        with self._lock:
            look = Look.total(self._looks.values())
        if look.is_beyond(self._max_failure_rate):
            raise TooManyFailuresError(
                f"too many rows fail: {look.told()}; --max-failure-rate allows {self._max_failure_rate:.1%}; nothing "
                "is published, finished slices are kept"
            )

    def check_totals(self) -> None:
        """Look at all rows, when no slice is left.

        Raises:
            TooManyFailuresError: more of them failed than is accepted.
        """
        failed = sum(number for name, number in self._ended.items() if name != "stored" and Reason(name) not in FILTERS)
        planned = self._ended.total() if self._members else self._planned
        if failed > self._max_failure_rate * planned:
            look = Look.total(self._looks.values())
            raise TooManyFailuresError(
                f"{failed} of {planned} rows failed ({failed / planned:.1%}), more than the "
                f"{self._max_failure_rate:.1%} that --max-failure-rate allows; nothing is published, finished slices "
                f"are kept; {look.told()}"
            )

    def _warning(self) -> str:
        look = Look.total(self._looks.values())
        return look.told() if look.is_beyond(WARNING_RATE) else ""


LISTENER: ContextVar[Callable[[Snapshot], None] | None] = ContextVar("LISTENER", default=None)
"""Whoever shows progress in this process; without one, the run's log tells it."""


def log_listener(logger: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> Callable[[Snapshot], None]:
    """Make a listener that writes a line to a log now and then."""
    due = LOG_SECONDS
    warned = False

    def listen(snapshot: Snapshot) -> None:
        nonlocal due, warned
        if snapshot.warning and not warned:
            warned = True
            logger.warning("%s", snapshot.warning)
        if snapshot.seconds >= due:
            due = snapshot.seconds + LOG_SECONDS
            logger.info("%s", snapshot.line())

    return listen
