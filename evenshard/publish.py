"""Publishing: receipts and chunks are checked against the plan; then manifest and index are written, last."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenshard.adapters.litdata import make_index
from evenshard.core.early import reasons_told
from evenshard.core.errors import (
    DestinationError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectMissingError,
    TooManyFailuresError,
    UnfinishedError,
    VerificationError,
)
from evenshard.core.layout import INDEX, MANIFEST, generation_name, receipt_name
from evenshard.core.manifest import Manifest, Part, kept_parts, make_manifest, make_part
from evenshard.core.outcome import Counts
from evenshard.core.text import from_json, to_json
from evenshard.core.verify import check_receipts
from evenshard.generations import last_generation, read_generation
from evenshard.sweep import sweep_attempts
from evenshard.verification import check_files, read_receipts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenshard.core.plan import Mode, Plan
    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Store


def publish(
    plan: Plan, store: Store, *, max_failure_rate: float = 1.0, last_errors: Mapping[int, str] | None = None
) -> Manifest:
    """Check everything that the plan promised, and publish it, or nothing.

    Only receipts and stored bytes are believed, never what a task said of itself.

    Args:
        plan: what was to be done.
        store: where it was done.
        max_failure_rate: failed rows / planned rows that are accepted, 0 to 1.
        last_errors: what was last heard of unfinished slices, for the error.

    Raises:
        UnfinishedError: slices without a receipt.
        VerificationError: something is missing, short, altered or does not add up; names slice and chunk.
            The receipts of such slices are withdrawn, so that the next run does them again.
        TooManyFailuresError: more rows failed than accepted.
        DestinationError: another plan was published here meanwhile.
    """
    receipts = read_receipts(store, generation=plan.generation)
    missing = [index for index in range(plan.num_slices) if index not in receipts]
    if missing:
        told = last_errors or {}
        raise UnfinishedError([(index, told.get(index, "has no receipt")) for index in missing])
    problems = check_receipts(plan, receipts)
    if problems:
        raise VerificationError(problems)
    in_order = [receipts[index] for index in range(plan.num_slices)]
    check_failure_rate(Counts.total(receipt.counts for receipt in in_order), max_failure_rate)
    _check_files(store, in_order)
    before = [] if plan.base is None else kept_parts(read_generation(store, plan.base), plan)
    return publish_parts(store, [*before, make_part(plan, in_order)], generation=plan.generation, made_by=plan.mode)


def publish_parts(store: Store, parts: Sequence[Part], *, generation: int, made_by: Mode) -> Manifest:
    """Publish a state whose parts are known to be whole.

    The generation's own manifest is created only if there is none: that decides between two runs, and a
    run that was stopped here finds it and goes on. The index, which readers open, is written last.

    Raises:
        DestinationError: another one was published as this generation, or its samples have another shape.
    """
    _check_shapes(store, parts)
    now = datetime.now(UTC).isoformat()
    manifest = make_manifest(parts, generation=generation, made_by=made_by, published_at=now)
    name = generation_name(generation)
    try:
        store.put_new(name, [to_json(manifest, indent=1)])
    except ObjectExistsError:
        manifest = _taken_up(store, manifest)
    show(store, manifest)
    sweep_attempts(store, manifest)
    newest = last_generation(store)
    if newest > generation:  # published while this run, held up here, still wrote its own
        show(store, read_generation(store, newest))
    return manifest


def show(store: Store, manifest: Manifest) -> None:
    """Make a generation the one that readers open, unless a later one is that already.

    Each of the two texts is replaced only if it is still the one that was looked at before, so that of two
    publishers the one of the later generation wins, whichever is held up where.
    """
    text, index = to_json(manifest, indent=1), to_json(make_index(manifest))
    while True:
        before, index_before = _read(store, MANIFEST), _read(store, INDEX)
        if _generation_of(before) > manifest.generation:
            return
        try:
            store.replace(MANIFEST, [text], expected=before)
            store.replace(INDEX, [index], expected=index_before)
        except ObjectChangedError:  # by another publisher, who got further: its state is looked at next
            continue
        return


def _read(store: Store, name: str) -> bytes | None:
    try:
        return store.read(name)
    except ObjectMissingError:
        return None


def _generation_of(text: bytes | None) -> int:
    """Give the generation of a manifest's text; 0 where it cannot be told, so that it is replaced."""
    try:
        return 0 if text is None else from_json(Manifest, text).generation
    except ValueError:
        return 0


def _taken_up(store: Store, manifest: Manifest) -> Manifest:
    """Go on where an earlier run of the same plan was stopped."""
    earlier = read_generation(store, manifest.generation)
    if [part.fingerprint for part in earlier.parts] != [part.fingerprint for part in manifest.parts]:
        raise DestinationError(f"{store.address}: another plan was published here meanwhile")
    if replace(earlier, published_at=manifest.published_at) == manifest:
        return earlier
    name = generation_name(manifest.generation)
    store.replace(name, [to_json(manifest, indent=1)], expected=to_json(earlier, indent=1))  # slices were done again
    return manifest


def _check_shapes(store: Store, parts: Sequence[Part]) -> None:
    shapes = {part.schema for part in parts if any(entry.chunks for entry in part.slices)}
    if len(shapes) > 1:
        raise DestinationError(
            f"{store.address}: the new samples have another shape than those that are there, which no reader opens "
            "as one set; choose another destination, or overwrite"
        )


def _check_files(store: Store, receipts: list[Receipt]) -> None:
    problems = check_files(store, receipts)
    for receipt, _ in problems:
        store.delete(receipt_name(generation=receipt.generation, slice_index=receipt.slice_index))
    if problems:
        raise VerificationError([problem for _, problem in problems], "run again to do these slices again")


def check_failure_rate(counts: Counts, max_failure_rate: float) -> None:
    """Refuse when more rows failed than accepted.

    Raises:
        TooManyFailuresError: names the rate and the three most frequent reasons.
    """
    rate = counts.num_failed / max(1, counts.planned)
    if rate > max_failure_rate:
        raise TooManyFailuresError(
            f"{counts.num_failed} of {counts.planned} rows failed ({rate:.1%}), more than the {max_failure_rate:.1%} "
            f"that --max-failure-rate allows; nothing is published: {reasons_told(Counter(counts.failed))}"
        )
