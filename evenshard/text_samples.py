"""From the members of a slice to one result for each of their documents, in the order in which they stand there."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from evenshard.adapters.archive import read_entries, scan
from evenshard.adapters.at_hand import local_source
from evenshard.adapters.litdata import encode_sample
from evenshard.adapters.ranged import FileChangedError
from evenshard.core.errors import (
    ArchiveChangedError,
    ArchiveError,
    DamagedArchiveError,
    SliceError,
    SourceChangedError,
)
from evenshard.core.outcome import Failure, Outcome, Status
from evenshard.core.texts import Archive, Document, Member, TextCounts, TextFailure
from evenshard.slices import CHANGED_ADVICE, Sampled, Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenshard.core.plan import Source
    from evenshard.slices import SliceJob


def text_samples(job: SliceJob, *, seen: Callable[[int, Outcome], None]) -> Samples:
    """Read the members of a slice; gives each document as it is read, and each broken member once.

    How many there should be is counted by what reads the archives, and not by what is given.

    Args:
        job: the slice.
        seen: told of each document as it ends: its number in the slice, and its outcome.
    """
    counts = [TextCounts()]

    def ended() -> Iterator[Sampled]:
        number = 0
        for source, row, unit in _units(job):
            place = _Place(source, row, unit)
            for texts, found in _read(job, unit):
                counts[0] = TextCounts.total([counts[0], found])
                for text in texts:
                    sampled = place.sampled(text)
                    seen(number, sampled.outcome)
                    number += 1
                    yield sampled

    return Samples(
        rows=ended(),
        schema=lambda: job.recipe.schema,
        planned=lambda: counts[0].documents + counts[0].num_members_failed,
    )


def _units(job: SliceJob) -> Iterator[tuple[Source, int, Member | TextFailure]]:
    for piece in job.pieces:
        units = _planned_archive(job, piece.source).units
        for row in range(piece.start, piece.stop):
            yield piece.source, row, units[row]


def _planned_archive(job: SliceJob, source: Source) -> Archive:
    """Look an archive through once more: a plan holds how many members it has, and not where they are.

    Raises:
        SourceChangedError: it is not the one that was planned.
        SliceError: it cannot be read now.
    """
    try:
        with local_source(source):
            return _scanned(source.path, source.num_bytes, source.version, source.num_rows)
    except FileChangedError as error:
        raise SourceChangedError(job.slice.index, f"{source.path} {error}; {CHANGED_ADVICE}") from error
    except OSError as error:
        raise SliceError(job.slice.index, f"{source.path} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=8)
def _scanned(path: str, num_bytes: int, version: str, num_units: int) -> Archive:
    """Look through an archive; what follows in the next slices has it at hand."""
    try:
        found = scan(path)
    except DamagedArchiveError as error:
        raise FileChangedError("has changed since it was planned") from error
    if (found.num_bytes, str(found.modified_ns), len(found.units)) != (num_bytes, version, num_units):
        raise FileChangedError("has changed since it was planned")
    return found


def _read(job: SliceJob, unit: Member | TextFailure) -> Iterator[tuple[list[Document | TextFailure], TextCounts]]:
    if isinstance(unit, TextFailure):
        yield [unit], TextCounts.of_members([unit])
        return
    try:
        yield from read_entries(unit)
    except ArchiveChangedError as error:
        problem = f"{unit.archive} has changed since it was planned; {CHANGED_ADVICE}"
        raise SourceChangedError(job.slice.index, problem) from error
    except ArchiveError as error:
        raise SliceError(job.slice.index, str(error)) from error


class _Place:
    """One member: what its documents have in common."""

    def __init__(self, source: Source, row: int, unit: Member | TextFailure) -> None:
        self._path, self._row = source.path, row
        self._member = unit.name if isinstance(unit, Member) else unit.member
        archive = dict(source.partition)["archive"] or ""
        self._labels = [archive.encode(), (self._member or "").encode()]

    def sampled(self, text: Document | TextFailure) -> Sampled:
        """Give the sample of one document, or why there is none."""
        if isinstance(text, TextFailure):
            failure = Failure(reason=text.reason, detail=text.detail)
            return Sampled(outcome=self._outcome(failure.status, failure, document=text.document))
        digest = sha256(text.data).hexdigest()
        outcome = self._outcome(Status.STORED, document=text.name, num_bytes=text.num_bytes, sha256=digest)
        return Sampled(outcome=outcome, sample=encode_sample([text.data, *self._labels, text.name.encode()]))

    def _outcome(
        self,
        status: Status,
        failure: Failure | None = None,
        *,
        document: str | None,
        num_bytes: int | None = None,
        sha256: str | None = None,
    ) -> Outcome:
        return Outcome(
            source=self._path,
            row=self._row,
            status=status,
            reason=failure.reason if failure else None,
            detail=failure.detail if failure else "",
            num_bytes=num_bytes,
            sha256=sha256,
            member=self._member,
            document=document,
        )
