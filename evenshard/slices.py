"""A slice done: rows read, turned into samples, written as chunks, and signed for with a receipt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from evenshard.adapters.fetch import FetchOptions
from evenshard.adapters.litdata import group_samples, hash_parts, pack_chunk
from evenshard.adapters.outcomes import pack_outcomes
from evenshard.adapters.parquet import Rows, UnreadableError, read_rows
from evenshard.adapters.ranged import FileChangedError, UnreachableError
from evenshard.adapters.s3_settings import s3_settings
from evenshard.core.errors import (
    ObjectChangedError,
    ObjectExistsError,
    SliceError,
    SliceReadError,
    SourceChangedError,
    VerificationError,
)
from evenshard.core.layout import chunk_name, outcomes_name, receipt_name
from evenshard.core.outcome import Counts, Outcome, Status
from evenshard.core.plan import Piece, Slice
from evenshard.core.receipt import Chunk, OutcomesPart, Receipt
from evenshard.core.recipe import Recipe, SampleSchema
from evenshard.core.s3_place import S3Settings
from evenshard.core.text import to_json
from evenshard.generations import read_plan
from evenshard.source_access import reach_source
from evenshard.verification import find_receipt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.plan import Plan
    from evenshard.core.store import Store


CHANGED_ADVICE: Final = (
    "put it back as it was and run again, or begin anew, in another destination or in this one once it is emptied"
)
"""The same command makes another plan of the new file, which a destination with unfinished work refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Where and how a plan is carried out; nothing here changes the output.

    Args:
        destination: address of the data set folder.
        fetch: how the web is asked.
        transform: a pickled callable, where the recipe's name cannot be imported in a worker.
        logins: what source files are asked for with, `user:password` by scheme, host and port.
        s3: how S3 is reached, for sources and destination.
    """

    destination: str
    fetch: FetchOptions = field(default_factory=FetchOptions)
    transform: bytes | None = field(default=None, repr=False)
    logins: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    s3: S3Settings = field(default_factory=s3_settings)

    def shared_out(self, num_processes: int) -> RunSettings:
        """Give the settings of one of several processes: what one host gets is shared out, one request at least."""
        per_host = max(1, self.fetch.per_host // num_processes)
        return replace(self, fetch=replace(self.fetch, per_host=per_host))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceJob:
    """All that a worker needs to do one slice; small, and independent of the size of the plan.

    Args:
        settings: where and how.
        fingerprint, generation, recipe: of the plan.
        slice: which one.
        pieces: its rows' places in the source files.
    """

    settings: RunSettings
    fingerprint: str
    generation: int
    recipe: Recipe
    slice: Slice
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One row after its transform: an encoded sample, or an outcome that says why there is none."""

    outcome: Outcome
    sample: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The rows of a slice after their transform, in row order.

    Args:
        rows: one for each planned row; stored ones have no place in a chunk yet.
        schema: asked for after the last row, when it is known.
        planned: how many rows there should be, asked for likewise; those of the slice if None.
    """

    rows: Iterable[Sampled]
    schema: Callable[[], SampleSchema | None]
    planned: Callable[[], int] | None = None


def make_job(plan: Plan, index: int, settings: RunSettings, *, fingerprint: str) -> SliceJob:
    """Cut out of a plan what one slice needs; the plan's fingerprint is worked out once for all of them."""
    cut = plan.slice_at(index)
    return SliceJob(
        settings=settings,
        fingerprint=fingerprint,
        generation=plan.generation,
        recipe=plan.recipe,
        slice=cut,
        pieces=plan.pieces(cut.start, cut.stop),
    )


def find_finished(store: Store, job: SliceJob) -> Receipt | None:
    """Give the receipt of a slice that an earlier attempt finished, if its files are there."""
    receipt = _earlier_receipt(store, job)
    if receipt is None or receipt.fingerprint != job.fingerprint:
        return None
    return receipt if _files_are_there(store, receipt) else None


def _earlier_receipt(store: Store, job: SliceJob) -> Receipt | None:
    try:
        return find_receipt(store, generation=job.generation, slice_index=job.slice.index)
    except VerificationError:  # a damaged receipt signs for nothing; the slice is done again
        return None


def _files_are_there(store: Store, receipt: Receipt) -> bool:
    files: list[Chunk | OutcomesPart] = [*receipt.chunks, receipt.outcomes]
    return all(store.size(file.name) == file.num_bytes for file in files)


def read_slice(job: SliceJob) -> Rows:
    """Read the rows of a slice.

    Raises:
        SourceChangedError: a file is not the one that was planned.
        SliceReadError: a file cannot be read; names file and rows.
        SliceError: a file cannot be had now; another attempt may have it.
    """
    reach = partial(reach_source, logins=job.settings.logins, s3=job.settings.s3)
    try:
        return read_rows(job.pieces, job.recipe.columns, on_bad_file=job.recipe.on_bad_file, reach=reach)
    except UnreachableError as error:
        raise SliceError(job.slice.index, str(error)) from error
    except FileChangedError as error:
        raise SourceChangedError(job.slice.index, f"{error}; {CHANGED_ADVICE}") from error
    except UnreadableError as error:
        raise SliceReadError(job.slice.index, str(error)) from error


def store_slice(job: SliceJob, samples: Samples, store: Store) -> Receipt:
    """Write the chunks of a slice, its outcomes, and last its receipt.

    A second attempt that comes late finds a receipt; then that one counts, and what this one wrote
    under other names belongs to nothing.

    Args:
        job: the slice.
        samples: what its rows gave.
        store: where to.
    """
    outcomes: list[Outcome] = []
    chunks = list(_store_chunks(job, samples.rows, store, outcomes))
    receipt = Receipt(
        fingerprint=job.fingerprint,
        generation=job.generation,
        slice_index=job.slice.index,
        rank=job.slice.rank,
        start=job.slice.start,
        stop=job.slice.stop,
        counts=Counts.of(outcomes, planned=samples.planned() if samples.planned else job.slice.num_rows),
        chunks=tuple(chunks),
        outcomes=_store_outcomes(job, outcomes, store),
        schema=samples.schema(),
    )
    return _sign(job, receipt, store)


def _sign(job: SliceJob, receipt: Receipt, store: Store) -> Receipt:
    name = receipt_name(generation=job.generation, slice_index=job.slice.index)
    text = [to_json(receipt, indent=1)]
    try:
        store.put_new(name, text)
    except ObjectExistsError:
        held, earlier = store.read(name), _earlier_receipt(store, job)
        is_foreign = earlier is not None and earlier.fingerprint != job.fingerprint
        if is_foreign and not _is_planned(store, job):
            raise SliceError(job.slice.index, f"{store.address} is at work on another plan by now") from None
        if earlier is not None and not is_foreign and _files_are_there(store, earlier):
            return earlier
        try:
            store.replace(name, text, expected=held)
        except ObjectChangedError:  # another attempt has found it bad, too, and signed
            return _sign(job, receipt, store)
    return receipt


def _is_planned(store: Store, job: SliceJob) -> bool:
    """Say whether the stored plan is the job's; then another one's receipt is that of a run which came too late."""
    plan = read_plan(store, job.generation)
    return plan is not None and plan.fingerprint == job.fingerprint


def _store_chunks(job: SliceJob, rows: Iterable[Sampled], store: Store, outcomes: list[Outcome]) -> Iterator[Chunk]:
    """Write the samples as chunks; every row's outcome is added to `outcomes`, with its place."""
    waiting: deque[Outcome] = deque()

    def encoded() -> Iterator[bytes]:
        for row in rows:
            waiting.append(row.outcome)
            if row.sample is not None:
                yield row.sample

    for number, group in enumerate(group_samples(encoded(), chunk_bytes=job.recipe.chunk_bytes)):
        parts = pack_chunk(group)
        num_bytes, sha256 = hash_parts(parts)
        name = chunk_name(generation=job.generation, slice_index=job.slice.index, number=number, sha256=sha256)
        store.put(name, parts)
        _place(waiting, outcomes, chunk=number, num_samples=len(group))
        yield Chunk(name=name, num_samples=len(group), num_bytes=num_bytes, sha256=sha256)
    outcomes += waiting


def _place(waiting: deque[Outcome], outcomes: list[Outcome], *, chunk: int, num_samples: int) -> None:
    """Move the outcomes up to the chunk's last sample, and give the stored ones their place."""
    position = 0
    while position < num_samples:
        outcome = waiting.popleft()
        if outcome.status is Status.STORED:
            outcome = replace(outcome, chunk=chunk, position=position)
            position += 1
        outcomes.append(outcome)


def _store_outcomes(job: SliceJob, outcomes: list[Outcome], store: Store) -> OutcomesPart:
    parts = [pack_outcomes(outcomes)]
    num_bytes, sha256 = hash_parts(parts)
    name = outcomes_name(generation=job.generation, slice_index=job.slice.index, sha256=sha256)
    store.put(name, parts)
    return OutcomesPart(name=name, num_rows=len(outcomes), num_bytes=num_bytes, sha256=sha256)


def row_places(pieces: Iterable[Piece]) -> Iterator[tuple[str, int]]:
    """Give the identity of each row: its file, and its number in that file."""
    return chain.from_iterable(((each.source.path, row) for row in range(each.start, each.stop)) for each in pieces)
