"""Sweeping: what no published state and no unfinished run needs is removed from a data set folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import ObjectMissingError
from evenshard.core.layout import (
    CHUNKS,
    GENERATIONS,
    OUTCOMES,
    PLANS,
    RECEIPTS,
    chunks_prefix,
    generation_name,
    outcomes_prefix,
    plan_name,
    receipt_name,
)
from evenshard.core.manifest import receipts_of
from evenshard.generations import find_current, list_generations, read_generation, read_plan
from evenshard.verification import read_receipts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenshard.core.manifest import Manifest
    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Entry, Store

SWEPT: Final = (GENERATIONS, PLANS, RECEIPTS, OUTCOMES, CHUNKS)
"""Where swept objects lie, in the order of their removal: what names others goes before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What to sweep.

    Args:
        before: seconds since the epoch; what was written later stays, since a run may be at it.
        unfinished: also what a run that was not finished has done so far.
        old_generations: also states before the current one; readers that hold them lose their chunks, and
            nobody can roll back to them.
    """

    before: float
    unfinished: bool = False
    old_generations: bool = False


def find_litter(store: Store, sweep: Sweep) -> list[Entry]:
    """Give the objects that nothing needs, in the order in which they are to be removed.

    Raises:
        ObjectMissingError: there is neither a data set nor a run.
        VerificationError: a manifest or receipt is damaged, so that nobody knows what is needed.
    """
    current = find_current(store)
    after = 0 if current is None else current.generation
    if current is None and read_plan(store, 1) is None:
        raise ObjectMissingError(plan_name(1), f"{store.address} holds neither a data set nor a run")
    needed: set[str] = set()
    for number in list_generations(store):
        if number >= after or not sweep.old_generations:
            needed |= _needed_by(read_generation(store, number))
    if not sweep.unfinished:
        needed |= _needed_by_run(store, after + 1)
    found = (entry for prefix in SWEPT for entry in store.entries(prefix))
    return [entry for entry in found if entry.name not in needed and entry.modified_at < sweep.before]


def sweep_attempts(store: Store, manifest: Manifest) -> None:
    """Remove what attempts left that lost, of the generation that was just published: its receipts are settled."""
    needed = _needed_by(manifest)
    generation = manifest.generation
    for prefix in (chunks_prefix(generation), outcomes_prefix(generation)):
        for name in store.names(prefix):
            if name not in needed:
                store.delete(name)


def _needed_by(manifest: Manifest) -> set[str]:
    plans = {plan_name(part.plan.generation) for part in manifest.parts}
    return {generation_name(manifest.generation)} | plans | _needed_by_receipts(receipts_of(manifest))


def _needed_by_run(store: Store, generation: int) -> set[str]:
    receipts = read_receipts(store, generation=generation).values()
    return {plan_name(generation)} | _needed_by_receipts(receipts)


def _needed_by_receipts(receipts: Iterable[Receipt]) -> set[str]:
    names: set[str] = set()
    for receipt in receipts:
        names.add(receipt_name(generation=receipt.generation, slice_index=receipt.slice_index))
        names.add(receipt.outcomes.name)
        names.update(chunk.name for chunk in receipt.chunks)
    return names
