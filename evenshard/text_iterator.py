"""An epoch as an iterator, with the processes that read for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from evenshard.archive_readers import ProcessReaders, read_here
from evenshard.core.epoch import Epoch
from evenshard.core.errors import BrokenTextError, EvenshardError
from evenshard.core.texts import TextCounts
from evenshard.epochs import EpochIterator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from evenshard.core.epoch import Sample
    from evenshard.core.texts import Part, TextFailure
    from evenshard.epochs import Held

MAX_LOGGED: Final = 20
"""Failures that an epoch logs one by one, before it only counts them."""
_log: Final = logging.getLogger(__name__)


class TextIterator(EpochIterator[Epoch]):
    """One epoch of a loader, or the rest of one.

    Args:
        held: what makes the epoch, when the first document is asked for.
        finished: told of the epoch when its last document was handed out.
        num_workers: processes that read; with 0, this one does.
        max_ahead: documents that each may hand over before their turn.
        stops: whether a broken text is an error.
    """

    def __init__(
        self,
        held: Held[Epoch],
        finished: Callable[[Epoch], None],
        *,
        num_workers: int,
        max_ahead: int,
        stops: bool,
    ) -> None:
        super().__init__(held)
        self._finished = finished
        self._num_workers, self._max_ahead = num_workers, max_ahead
        self._stops = stops
        self._parts: Iterator[Part] = iter(())
        self._num_logged = 0

    def __next__(self) -> Sample:
        """Give the next document.

        Raises:
            BadSourcesError: files that are missing or no archives, all at once, before the first document.
            BrokenTextError: a broken member or document, if those are errors.
            ArchiveError: an archive could not be read on, or a worker died.
        """
        sample: Sample = super().__next__()
        return sample

    @property
    def counts(self) -> TextCounts:
        """What became of members and documents, as far as they were read."""
        return self._held.epoch.counts if self._held.epoch else TextCounts()

    @property
    def failures(self) -> tuple[TextFailure, ...]:
        """The first thousand failures, in the order of reading; `counts` counts all."""
        return tuple(self._held.epoch.failures) if self._held.epoch else ()

    def _start(self, epoch: Epoch) -> None:
        members = epoch.members_to_read()
        if self._num_workers == 0:
            self._parts = read_here(members)
        else:
            readers = ProcessReaders(members, num_workers=self._num_workers, max_ahead=self._max_ahead)
            self._held.end_reading = readers.end
            self._parts = readers
        if not epoch.is_begun:
            self._report(epoch.failures)

    def _add(self, epoch: Epoch) -> None:
        part = next(self._parts, None)
        if part is None:
            raise EvenshardError("parts of members are missing, which is a fault in evenshard; please report it")
        if epoch.add(part):
            self._report(part.failures)

    def _report(self, failures: Sequence[TextFailure]) -> None:
        for failure in failures:
            if self._stops:
                raise BrokenTextError(failure)
            self._num_logged += 1
            if self._num_logged <= MAX_LOGGED:
                _log.warning("%s", failure)

    def _finish(self, epoch: Epoch) -> None:
        counts = epoch.counts
        if counts.num_members_failed or counts.num_failed:
            _log.warning(
                "epoch %d: %d documents kept, %d skipped, %d failed; %d members failed",
                epoch.number,
                counts.kept,
                counts.num_skipped,
                counts.num_failed,
                counts.num_members_failed,
            )
        self._finished(epoch)
