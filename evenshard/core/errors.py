"""Every error that evenshard raises, as one tree.

EvenshardError
├── UsageError (ValueError)            what the caller asked for cannot be done as asked: exit code 2
│   ├── OptionError                    one option has a wrong value
│   ├── ColumnError                    wanted columns are not in the table
│   ├── BadSourcesError                source files that are missing, broken or of another shape, all at once
│   └── DestinationError               the destination holds something else, or another plan's work
├── SliceError (RuntimeError)          one slice could not be finished
│   ├── SliceReadError                 its rows could not be read from the file
│   ├── SourceChangedError             the file is not the one that was planned
│   ├── TransformError                 the transform broke its contract or raised
│   └── WorkerDiedError                the worker process died at it
├── ClusterError (RuntimeError)        a cluster lost a slice, or was lost itself
├── LotError (RuntimeError)            some slices of a mapped task could not be finished
├── VerificationError (RuntimeError)   plan, receipts, chunks, manifest and index do not agree
├── TooManyFailuresError (RuntimeError) more rows failed than the run allows
├── BusyError (RuntimeError)           another run is at work on the destination
├── ServerNotStartedError (RuntimeError) Prefect's server ended, or did not answer in time
├── RunStoppedError (RuntimeError)     somebody stopped the run
├── PassError (RuntimeError)           a pass of a benchmark failed
├── UnfinishedError (RuntimeError)     slices without a receipt when the run had no more tries
├── ChunkFormatError (ValueError)      bytes that are not a chunk, or samples that fit in none
│   └── DamagedChunkError              a published chunk is not what its manifest says
├── DamagedArchiveError (ValueError)   bytes that are no sound archive
├── BrokenTextError (ValueError)       a member or document is broken, and the caller wants to stop there
├── ArchiveError (RuntimeError)        an archive of text could not be read on
│   ├── ArchiveChangedError            the file is not the one that was looked through
│   └── ReaderDiedError                the process that read it died
└── StoreError (OSError)               the store refused
    ├── ObjectExistsError              create-if-absent met an object
    ├── ObjectChangedError             what was to be replaced is not as expected
    └── ObjectMissingError             no such object

Facts are attributes, so that callers need not parse messages; each error survives pickling, since
some are raised in a worker process and read in the flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evenshard.core.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenshard.core.outcome import Reason
    from evenshard.core.texts import TextFailure


class EvenshardError(Exception):
    """Root of all errors that evenshard raises on purpose."""


class UsageError(EvenshardError, ValueError):
    """What the caller asked for cannot be done as asked."""


class OptionError(UsageError):
    """One option has a wrong value.

    Args:
        option: the option's name as the caller knows it.
        problem: what is wrong and what to do, a sentence without a full stop.
    """

    def __init__(self, option: str, problem: str) -> None:
        """Keep the option's name beside the message."""
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        """Name the option first."""
        return f"{self.option}: {self.problem}"


class ColumnError(UsageError):
    """Wanted columns are not in the table, or are of a type that no sample can hold."""


class BadSourcesError(UsageError):
    """Source files that cannot be used, all of them at once.

    Args:
        problems: (file, reason) pairs in source order.
    """

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        """Keep the pairs."""
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """List every file with its reason on one line."""
        listed = "; ".join(f"{path}: {reason}" for path, reason in self.problems)
        count = len(self.problems)
        return f"{count} source file{'s' if count != 1 else ''} cannot be used: {listed}"


class DestinationError(UsageError):
    """The destination holds something else, or another plan's unfinished work."""


class SliceError(EvenshardError, RuntimeError):
    """One slice could not be finished.

    Args:
        slice_index: position of the slice in the plan.
        problem: what happened, naming file and rows where known.
    """

    def __init__(self, slice_index: int, problem: str) -> None:
        """Keep the slice's position."""
        super().__init__(slice_index, problem)
        self.slice_index = slice_index
        self.problem = problem

    def __str__(self) -> str:
        """Name the slice first."""
        return f"slice {self.slice_index}: {self.problem}"


class SliceReadError(SliceError):
    """The rows of a slice could not be read from their file."""


class SourceChangedError(SliceError):
    """A source file is not the one that was planned: another size or version."""


class TransformError(SliceError):
    """The transform raised, or yielded what no sample can be made of."""


class LotError(EvenshardError, RuntimeError):
    """Slices of one lot could not be finished; the others of it are.

    Args:
        problems: what was last heard, by slice.
        may_pass: whether another attempt at any of them makes sense.
    """

    def __init__(self, problems: Mapping[int, str], may_pass: bool) -> None:
        """Keep both."""
        super().__init__(dict(problems), may_pass)
        self.problems = dict(problems)
        self.may_pass = may_pass

    def __str__(self) -> str:
        """Name the slices with what was heard."""
        return "; ".join(f"slice {index}: {problem}" for index, problem in self.problems.items())


class WorkerDiedError(SliceError):
    """The worker process died at this slice."""


class ClusterError(EvenshardError, RuntimeError):
    """A cluster lost what it was doing, or was lost itself; whoever knows the slice names it."""


class VerificationError(EvenshardError, RuntimeError):
    """Plan, receipts, chunks, manifest and index do not agree.

    Args:
        problems: one sentence each, naming slice and chunk.
        advice: what to do.
    """

    def __init__(self, problems: Sequence[str], advice: str = "") -> None:
        """Keep the sentences."""
        super().__init__(tuple(problems), advice)
        self.problems = tuple(problems)
        self.advice = advice

    def __str__(self) -> str:
        """Print the first few problems and how many there are."""
        shown = "; ".join(self.problems[:5])
        more = f"; and {len(self.problems) - 5} more" if len(self.problems) > 5 else ""
        return f"{len(self.problems)} found: {shown}{more}" + (f"; {self.advice}" if self.advice else "")


class TooManyFailuresError(EvenshardError, RuntimeError):
    """More rows failed than `max_failure_rate` allows."""


class BusyError(EvenshardError, RuntimeError):
    """Another run is at work on the destination, and this one is not to wait for it."""


class ServerNotStartedError(EvenshardError, RuntimeError):
    """Prefect's server ended, or did not answer in time."""


class RunStoppedError(EvenshardError, RuntimeError):
    """Somebody stopped the run; what is finished is kept, and the next run goes on from there."""


class PassError(EvenshardError, RuntimeError):
    """A pass of a benchmark failed; what was measured before is kept.

    Args:
        command: of the pass, as a shell takes it.
        problem: what it said.
    """

    def __init__(self, command: str, problem: str) -> None:
        """Keep what can be tried by hand."""
        super().__init__(command, problem)
        self.command = command
        self.problem = problem

    def __str__(self) -> str:
        """Say what it said, and what to try."""
        return f"a pass failed: {shown(self.problem)}; its command is {shown(self.command)}"


class UnfinishedError(EvenshardError, RuntimeError):
    """Slices had no receipt when the run had no more tries.

    Args:
        problems: (slice index, last error) pairs in slice order.
    """

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        """Keep the pairs."""
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Name the slices with their last error."""
        shown = "; ".join(f"slice {index}: {problem}" for index, problem in self.problems[:5])
        more = f"; and {len(self.problems) - 5} more" if len(self.problems) > 5 else ""
        return f"{len(self.problems)} slices are not finished: {shown}{more}"


class ChunkFormatError(EvenshardError, ValueError):
    """Bytes that are not a chunk, or samples that fit in none."""


class DamagedChunkError(ChunkFormatError):
    """A published chunk, or a sample of it, is not what its manifest says.

    Args:
        chunk: name of the chunk.
        sample: position of the sample in it, or None where it is the chunk as a whole.
        problem: what was seen.
    """

    def __init__(self, chunk: str, sample: int | None, problem: str) -> None:
        """Keep where it is."""
        super().__init__(chunk, sample, problem)
        self.chunk = chunk
        self.sample = sample
        self.problem = problem

    def __str__(self) -> str:
        """Name chunk and sample first, and say what to do."""
        sample = "" if self.sample is None else f", sample {self.sample}"
        return f"chunk {shown(self.chunk)}{sample}: {self.problem}; `evenshard repair` makes it again"


class DamagedArchiveError(EvenshardError, ValueError):
    """Bytes that are no sound archive. Whoever reads archives makes a value of it, and counts it.

    Args:
        reason: the kind, as in `evenshard.core.outcome`.
        problem: what was seen.
    """

    def __init__(self, reason: Reason, problem: str) -> None:
        """Keep both."""
        super().__init__(reason, problem)
        self.reason = reason
        self.problem = problem

    def __str__(self) -> str:
        """Say what was seen."""
        return self.problem


class ArchiveError(EvenshardError, RuntimeError):
    """An archive of text could not be read on.

    Args:
        archive: path of the archive.
        member: name of the member in it.
        problem: what happened.
    """

    def __init__(self, archive: str, member: str, problem: str) -> None:
        """Keep where it happened."""
        super().__init__(archive, member, problem)
        self.archive = archive
        self.member = member
        self.problem = problem

    def __str__(self) -> str:
        """Name archive and member first."""
        return f"{shown(self.archive)}, member {shown(self.member)}: {self.problem}"


class BrokenTextError(EvenshardError, ValueError):
    """A member or document is broken, and the caller wants to stop there.

    Args:
        failure: which, and why.
    """

    def __init__(self, failure: TextFailure) -> None:
        """Keep it."""
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        """Name archive, member and document, and say what to do."""
        return f"{self.failure}; errors='count' goes on without it, and counts it"


class ArchiveChangedError(ArchiveError):
    """The file is not the one that was looked through for members."""


class ReaderDiedError(ArchiveError):
    """The process that read a member died."""


class StoreError(EvenshardError, OSError):
    """The store refused to read or write an object.

    Args:
        name: the object's name inside the data set folder.
        problem: what the store said.
    """

    def __init__(self, name: str, problem: str) -> None:
        """Keep the object's name."""
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        """Name the object first."""
        return f"{self.name}: {self.problem}"


class ObjectExistsError(StoreError):
    """Create-if-absent met an object of that name."""


class ObjectChangedError(StoreError):
    """What was to be replaced is not as expected: another writer was there first."""


class ObjectMissingError(StoreError):
    """There is no object of that name."""


LASTING: Final = (RunStoppedError, UsageError, SliceReadError, SourceChangedError, TransformError, VerificationError)


def may_pass(error: BaseException) -> bool:
    """Say whether a fresh worker, or a store that has come back, may do what failed with this error."""
    if isinstance(error, LotError):
        return error.may_pass
    return not isinstance(error, LASTING)
