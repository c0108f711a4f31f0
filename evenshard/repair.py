"""Repair: bad chunks made again from their own rows, altered texts written as they follow from the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.core.errors import DestinationError, UnfinishedError, VerificationError
from evenshard.core.layout import INDEX, MANIFEST, receipt_name
from evenshard.core.manifest import make_part, receipt_of
from evenshard.core.plan import Mode
from evenshard.destination import find_unfinished
from evenshard.generations import last_generation
from evenshard.inspection import Findings, inspect_set
from evenshard.publish import publish_parts
from evenshard.verification import check_files, find_receipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenshard.core.manifest import Manifest, Part
    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Store


def begin_repair(store: Store) -> Findings:
    """Find what is bad, write altered texts anew, and withdraw the receipts of bad slices.

    Raises:
        ObjectMissingError: nothing is published here.
        VerificationError: neither the manifest nor its copy can be believed.
        DestinationError: a run is unfinished here.
    """
    found = inspect_set(store)
    if find_unfinished(store, after=found.manifest.generation) is not None:
        raise DestinationError(f"{store.address} holds an unfinished run; finish it, or sweep it with --unfinished")
    withdrawn = {receipt_name(generation=generation, slice_index=index) for generation, index in found.slices}
    for name, text in found.texts.items():
        if name in {MANIFEST, INDEX}:
            _put_back(store, found.manifest, name, text)
        elif name not in withdrawn:
            store.put(name, [text])
    for name in withdrawn:
        store.delete(name)
    return found


def _put_back(store: Store, manifest: Manifest, name: str, text: bytes) -> None:
    """Write a text anew that readers open, unless another run has published meanwhile.

    Raises:
        DestinationError: one has.
    """
    held = store.read(name) if store.size(name) is not None else None
    if last_generation(store) > manifest.generation:
        raise DestinationError(f"{store.address}: another run has published meanwhile; run the repair again")
    store.replace(name, [text], expected=held)


def bad_slices(found: Findings, part: Part) -> tuple[int, ...]:
    """Give the bad slices of a part, ascending."""
    return tuple(sorted(index for generation, index in found.slices if generation == part.plan.generation))


def finish_repair(store: Store, found: Findings, last_errors: Mapping[int, str]) -> Manifest:
    """Check what was made again, and publish it, as a new generation if the web answered otherwise than then.

    Args:
        store: the destination.
        found: as `begin_repair` gave it.
        last_errors: what was last heard of slices that could not be made again.

    Raises:
        UnfinishedError: slices could not be made again.
        VerificationError: what was made again is not whole.
    """
    parts = [_mended(store, found, part, last_errors) for part in found.manifest.parts]
    if tuple(parts) == found.manifest.parts:
        return found.manifest
    generation = found.manifest.generation + 1
    return publish_parts(store, parts, generation=generation, made_by=Mode.REPAIR)


def _mended(store: Store, found: Findings, part: Part, last_errors: Mapping[int, str]) -> Part:
    bad = bad_slices(found, part)
    if not bad:
        return part
    made: dict[int, Receipt] = {}
    for index in bad:
        receipt = find_receipt(store, generation=part.plan.generation, slice_index=index)
        if receipt is None:
            raise UnfinishedError([(index, last_errors.get(index, "has no receipt"))])
        made[index] = receipt
    problems = check_files(store, made.values())
    if problems:
        raise VerificationError([problem for _, problem in problems], "run the repair again")
    receipts = [made.get(entry.index, receipt_of(part, entry)) for entry in part.slices]
    return make_part(part.plan, receipts)
