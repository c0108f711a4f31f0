"""Publishing: receipts and chunks are checked against the plan; then manifest and index are written, last."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import make_index
from evenshard.core.errors import TooManyFailuresError, UnfinishedError, VerificationError
from evenshard.core.layout import INDEX, MANIFEST, generation_name
from evenshard.core.manifest import Manifest, make_manifest
from evenshard.core.outcome import HINTS, Counts, Reason
from evenshard.core.text import to_json
from evenshard.core.verify import check_receipts
from evenshard.verification import check_files, read_receipts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenshard.core.plan import Plan
    from evenshard.core.store import Store

SHAPING_LIBRARIES: Final = ("evenshard", "pillow", "polars")
"""Another version of one of these may write other bytes from the same rows."""


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
        TooManyFailuresError: more rows failed than accepted.
    """
    receipts = read_receipts(store, generation=plan.generation, indexes=range(plan.num_slices))
    missing = [index for index in range(plan.num_slices) if index not in receipts]
    if missing:
        told = last_errors or {}
        raise UnfinishedError([(index, told.get(index, "has no receipt")) for index in missing])
    problems = check_receipts(plan, receipts) or check_files(store, receipts.values())
    if problems:
        raise VerificationError(problems)
    in_order = [receipts[index] for index in range(plan.num_slices)]
    check_failure_rate(Counts.total(receipt.counts for receipt in in_order), max_failure_rate)
    manifest = make_manifest(plan, in_order, versions=_versions(), published_at=datetime.now(UTC).isoformat())
    _write(store, manifest)
    return manifest


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


def _write(store: Store, manifest: Manifest) -> None:
    """Write manifest and index; the index, which readers open, last."""
    text = [to_json(manifest, indent=1)]
    store.put(generation_name(manifest.generation), text)
    store.put(MANIFEST, text)
    store.put(INDEX, [to_json(make_index(manifest))])


def _versions() -> dict[str, str]:
    return {name: version(name) for name in SHAPING_LIBRARIES}
