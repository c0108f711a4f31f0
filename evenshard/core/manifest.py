"""The manifest: the ordered list of all published chunks, with everything that a check needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.outcome import Counts
from evenshard.core.plan import Plan, Source
from evenshard.core.receipt import Chunk, OutcomesPart, Receipt
from evenshard.core.recipe import Recipe, SampleSchema
from evenshard.core.world import Remainder, World

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """Half-open row range of a source file, named by its position in the manifest's list."""

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
class Manifest:
    """One published state of a data set.

    Args:
        format_version: of this text.
        generation: which state it is, from 1.
        fingerprint: of its plan.
        counts: rows of all slices.
        sources: files that it was made from.
        world: nodes and workers that shared the rows.
        rows_per_slice, remainder, recipe: the rest of the plan.
        dropped: rows left out by `remainder=drop`.
        schema: shape of a sample; None if there is none.
        slices: in row order.
        published_at: UTC, ISO 8601; the only field that differs between equal runs.
    """

    format_version: int
    generation: int
    fingerprint: str
    counts: Counts
    sources: tuple[Source, ...]
    world: World
    rows_per_slice: int
    remainder: Remainder
    recipe: Recipe
    dropped: tuple[SourceRows, ...]
    schema: SampleSchema | None
    slices: tuple[SliceEntry, ...]
    published_at: str

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks, in row order."""
        return tuple(chunk for entry in self.slices for chunk in entry.chunks)

    @property
    def num_bytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.num_bytes for chunk in self.chunks)

    def rows_per_rank(self) -> dict[int, int]:
        """Rows that each rank had planned, ranks without any included."""
        rows = dict.fromkeys(range(self.world.world_size), 0)
        for entry in self.slices:
            rows[entry.rank] += entry.counts.planned
        return rows


def receipt_of(manifest: Manifest, entry: SliceEntry) -> Receipt:
    """Give the receipt that a published slice was signed with; the stored one must be the same to the byte."""
    return Receipt(
        fingerprint=manifest.fingerprint,
        generation=manifest.generation,
        slice_index=entry.index,
        rank=entry.rank,
        start=entry.start,
        stop=entry.stop,
        counts=entry.counts,
        chunks=entry.chunks,
        outcomes=entry.outcomes,
        schema=manifest.schema if entry.chunks else manifest.recipe.schema,
    )


def plan_of(manifest: Manifest) -> Plan:
    """Give the plan that a manifest was made from."""
    return Plan(
        sources=manifest.sources,
        world=manifest.world,
        recipe=manifest.recipe,
        rows_per_slice=manifest.rows_per_slice,
        remainder=manifest.remainder,
        generation=manifest.generation,
    )


def make_manifest(plan: Plan, receipts: Sequence[Receipt], *, published_at: str) -> Manifest:
    """Join a plan with its receipts.

    Args:
        plan: what was to be done.
        receipts: one per slice, in slice order, already verified against the plan.
        published_at: UTC, ISO 8601.
    """
    number = {source.path: index for index, source in enumerate(plan.sources)}

    def rows(start: int, stop: int) -> tuple[SourceRows, ...]:
        pieces = plan.pieces(start, stop)
        return tuple(SourceRows(source=number[each.source.path], start=each.start, stop=each.stop) for each in pieces)

    return Manifest(
        format_version=FORMAT_VERSION,
        generation=plan.generation,
        fingerprint=plan.fingerprint,
        counts=Counts.total(receipt.counts for receipt in receipts),
        sources=plan.sources,
        world=plan.world,
        rows_per_slice=plan.rows_per_slice,
        remainder=plan.remainder,
        recipe=plan.recipe,
        dropped=rows(plan.num_rows, plan.num_source_rows),
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
        published_at=published_at,
    )
