"""How far a run is: counted here, shown by whoever listens."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

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
        ended: rows by what became of them: `stored`, or the reason of each other one.
        num_before: those of them that an earlier run had done.
        seconds: since the first slice began.
    """

    planned: int
    ended: Counter[str] = field(default_factory=Counter)
    num_before: int = 0
    seconds: float = 0.0

    @property
    def num_ended(self) -> int:
        """Rows with an outcome."""
        return sum(self.ended.values())

    @property
    def rows_per_second(self) -> float:
        """Rows that this run has done, in each second."""
        return (self.num_ended - self.num_before) / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """Say it in one line: rows, rows/s, stored, and failures by reason."""
        others = [f"{number} {reason}" for reason, number in self.ended.most_common() if reason != "stored"]
        told = ", ".join([f"{self.ended['stored']} stored", *others[:4]])
        return f"{self.num_ended} of {self.planned} rows, {self.rows_per_second:.0f} rows/s, {told}"


class Tracker:
    """Adds up what the workers report, and tells a listener.

    Args:
        planned: rows of the plan.
        listener: told of each new state, from any thread, one at a time.
    """

    def __init__(self, planned: int, listener: Callable[[Snapshot], None]) -> None:
        self._lock = threading.Lock()
        self._listener = listener
        self._planned = planned
        self._slices: dict[int, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._num_before = 0
        self._began = time.monotonic()

    def add(self, progress: Progress) -> None:
        """Take a report of a worker in place of the one before on that slice: a retried slice counts once."""
        with self._lock:
            self._ended.subtract(self._slices.get(progress.slice_index, Counter()))
            self._ended.update(progress.ended)
            self._slices[progress.slice_index] = progress.ended
            self._num_before += sum(progress.ended.values()) if progress.done_before else 0
            self._listener(
                Snapshot(
                    planned=self._planned,
                    ended=+self._ended,
                    num_before=self._num_before,
                    seconds=time.monotonic() - self._began,
                )
            )


LISTENER: ContextVar[Callable[[Snapshot], None] | None] = ContextVar("LISTENER", default=None)
"""Whoever shows progress in this process; without one, the run's log tells it."""


def log_listener(logger: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> Callable[[Snapshot], None]:
    """Make a listener that writes a line to a log now and then."""
    due = LOG_SECONDS

    def listen(snapshot: Snapshot) -> None:
        nonlocal due
        if snapshot.seconds >= due:
            due = snapshot.seconds + LOG_SECONDS
            logger.info("%s", snapshot.line())

    return listen
