"""Publishing: receipts and chunks are checked against the plan; then manifest and index are written, last."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenshard.adapters.litdata import make_index
from evenshard.core.errors import (
    DestinationError,
    ObjectExistsError,
    TooManyFailuresError,
    UnfinishedError,
    VerificationError,
)
from evenshard.core.layout import INDEX, MANIFEST, generation_name, receipt_name
from evenshard.core.manifest import Manifest, make_manifest
from evenshard.core.outcome import HINTS, Counts, Reason
from evenshard.core.text import to_json
from evenshard.core.verify import check_receipts
from evenshard.verification import check_files, read_manifest, read_receipts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenshard.core.plan import Plan
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
    return _write(store, make_manifest(plan, in_order, published_at=datetime.now(UTC).isoformat()))


def _check_files(store: Store, receipts: list[Receipt]) -> None:
    problems = check_files(store, receipts)
    bad = {index for index, _ in problems}
    for receipt in receipts:
        if receipt.slice_index in bad:
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
        top = sorted(counts.failed.items(), key=lambda item: -item[1])[:3]
        reasons = "; ".join(f"{number} x {reason} ({HINTS[Reason(reason)]})" for reason, number in top)
        raise TooManyFailuresError(
            f"{counts.num_failed} of {counts.planned} rows failed ({rate:.1%}), more than the {max_failure_rate:.1%} "
            f"that --max-failure-rate allows; nothing is published: {reasons}"
        )


def _write(store: Store, manifest: Manifest) -> Manifest:
    """Write manifest and index; the index, which readers open, last.

    The generation's own manifest is created only if there is none: that decides between two runs, and a
    run that was stopped here finds it and goes on.
    """
    name = generation_name(manifest.generation)
    try:
        store.put_new(name, [to_json(manifest, indent=1)])
    except ObjectExistsError:
        earlier = read_manifest(store, name)
        if earlier.fingerprint != manifest.fingerprint:
            raise DestinationError(f"{store.address}: another plan was published here meanwhile") from None
        if replace(earlier, published_at=manifest.published_at) == manifest:
            manifest = earlier
        else:  # of a run that was stopped here, and of slices that were done again since
            store.put(name, [to_json(manifest, indent=1)])
    store.put(MANIFEST, [to_json(manifest, indent=1)])
    store.put(INDEX, [to_json(make_index(manifest))])
    return manifest
