"""The manifest: the ordered list of all published chunks, with everything that a check needs.

A published state, a generation, is a list of parts. Each part is what one plan gave. Appending adds a part,
overwriting begins a new list, repairing puts other slices into a part, rolling back takes the list of an
earlier generation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from evenshard.core.outcome import Counts
from evenshard.core.plan import LeftOut, Mode, Plan
from evenshard.core.receipt import Chunk, OutcomesPart, Receipt
from evenshard.core.recipe import SampleSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """Half-open row range of a source file, named by its position in the plan's list."""

    source: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceEntry:
    """A published slice: where its rows came from, and what became of them.

    Args:
        index: position in the plan.
        rank: whose shard it belongs to.
        start, stop: half-open range of the plan's global row numbers.
        rows: file ranges that it covers, in row order.
        counts: rows by what became of them.
        chunks: its chunks, in row order.
        outcomes: where each row's outcome is.
    """

    index: int
    rank: int
    start: int
    stop: int
    rows: tuple[SourceRows, ...]
    counts: Counts
    chunks: tuple[Chunk, ...]
    outcomes: OutcomesPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one plan gave.

    Args:
        plan: it names the sources and every setting.
        fingerprint: of the plan.
        schema: shape of a sample; None if there is none.
        slices: those that belong to this state, ascending; all of the plan's, unless rows were planned again since.
    """

    plan: Plan
    fingerprint: str
    schema: SampleSchema | None
    slices: tuple[SliceEntry, ...]

    @property
    def counts(self) -> Counts:
        """Rows of its slices."""
        return Counts.total(entry.counts for entry in self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One published state of a data set.

    Args:
        format_version: of this text.
        generation: which state it is, from 1.
        made_by: what made it.
        counts: rows of all parts; rows that were done again count once.
        parts: in the order of their samples.
        published_at: UTC, ISO 8601; the only field that differs between equal runs.
    """

    format_version: int
    generation: int
    made_by: Mode
    counts: Counts
    parts: tuple[Part, ...]
    published_at: str

    def __post_init__(self) -> None:
        """A state is made of something, if only of a plan without rows."""
        if not self.parts:
            raise ValueError("a manifest has one part or more")

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks, in the order of their samples."""
        return tuple(chunk for part in self.parts for entry in part.slices for chunk in entry.chunks)

    @property
    def num_bytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.num_bytes for chunk in self.chunks)

    @property
    def num_slices(self) -> int:
        """Slices of all parts."""
        return sum(len(part.slices) for part in self.parts)

    @property
    def num_dropped(self) -> int:
        """Rows that `remainder=drop` left out."""
        return sum(piece.num_rows for part in self.parts for piece in part.plan.dropped)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Bad files that no row was taken from, with the reason of each."""
        return tuple(each for part in self.parts for each in part.plan.left_out)

    @property
    def schema(self) -> SampleSchema | None:
        """Shape of a sample; None if there is none."""
        shapes = [part.schema for part in self.parts]
        return next((shape for shape in shapes if shape is not None), None)

    @property
    def chunk_bytes(self) -> int:
        """Size that a chunk was not to pass, of the last part."""
        return self.parts[-1].plan.recipe.chunk_bytes

    def rows_per_rank(self) -> dict[int, int]:
        """Rows that each rank had planned, ranks without any included."""
        rows: Counter[int] = Counter()
        for part in self.parts:
            rows.update(dict.fromkeys(part.plan.ranks, 0))
            for entry in part.slices:
                rows[entry.rank] += entry.counts.planned
        return dict(sorted(rows.items()))


def receipt_of(part: Part, entry: SliceEntry) -> Receipt:
    """Give the receipt that a published slice was signed with; the stored one must be the same to the byte."""
    return Receipt(
        fingerprint=part.fingerprint,
        generation=part.plan.generation,
        slice_index=entry.index,
        rank=entry.rank,
        start=entry.start,
        stop=entry.stop,
        counts=entry.counts,
        chunks=entry.chunks,
        outcomes=entry.outcomes,
        schema=part.schema if entry.chunks else part.plan.recipe.schema,
    )


def receipts_of(manifest: Manifest) -> list[Receipt]:
    """Give the receipts of all slices, in the order of their samples."""
    return [receipt_of(part, entry) for part in manifest.parts for entry in part.slices]


def make_part(plan: Plan, receipts: Sequence[Receipt]) -> Part:
    """Join a plan with its receipts.

    Args:
        plan: what was to be done.
        receipts: in slice order, already verified against the plan.
    """
    number = {id(source): index for index, source in enumerate(plan.sources)}

    def rows(start: int, stop: int) -> tuple[SourceRows, ...]:
        pieces = plan.pieces(start, stop)
        return tuple(SourceRows(source=number[id(each.source)], start=each.start, stop=each.stop) for each in pieces)

    return Part(
        plan=plan,
        fingerprint=plan.fingerprint,
        schema=next((receipt.schema for receipt in receipts if receipt.chunks), plan.recipe.schema),
        slices=tuple(
            SliceEntry(
                index=receipt.slice_index,
                rank=receipt.rank,
                start=receipt.start,
                stop=receipt.stop,
                rows=rows(receipt.start, receipt.stop),
                counts=receipt.counts,
                chunks=receipt.chunks,
                outcomes=receipt.outcomes,
            )
            for receipt in receipts
        ),
    )


def kept_parts(base: Manifest, plan: Plan) -> list[Part]:
    """Give the parts of a base without the slices that a plan replaces, and without parts that this leaves empty."""
    gone = set(plan.replaces)
    kept = [
        replace(part, slices=tuple(entry for entry in part.slices if (part.plan.generation, entry.index) not in gone))
        for part in base.parts
    ]
    return [part for part, before in zip(kept, base.parts, strict=True) if part.slices or not before.slices]


def make_manifest(parts: Sequence[Part], *, generation: int, made_by: Mode, published_at: str) -> Manifest:
    """Join parts to a state.

    Args:
        parts: in the order of their samples.
        generation: which state it is.
        made_by: what made it.
        published_at: UTC, ISO 8601.
    """
    total = Counts.total(part.counts for part in parts)
    for part in parts:
        total = total.without_failed(part.plan.superseded)
    return Manifest(
        format_version=FORMAT_VERSION,
        generation=generation,
        made_by=made_by,
        counts=total,
        parts=tuple(parts),
        published_at=published_at,
    )
