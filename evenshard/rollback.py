"""Rolling back: an earlier state becomes the current one again, as a generation of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.core.errors import DestinationError, OptionError, VerificationError
from evenshard.core.manifest import receipts_of
from evenshard.core.plan import Mode
from evenshard.destination import find_unfinished
from evenshard.generations import find_current, list_generations, read_generation
from evenshard.publish import publish_parts
from evenshard.verification import find_missing

if TYPE_CHECKING:
    from evenshard.core.manifest import Manifest
    from evenshard.core.store import Store


def roll_back(store: Store, generation: int) -> Manifest:
    """Publish an earlier state once more, after the current one.

    Raises:
        OptionError: there is no such generation, or it is the current one.
        DestinationError: a run is unfinished here.
        VerificationError: chunks of that state are not there any more.
    """
    current = find_current(store)
    kept = [number for number in list_generations(store) if current is None or number < current.generation]
    if current is None or generation not in kept:
        shown = ", ".join(map(str, kept)) or "none"
        raise OptionError("generation", f"{generation} cannot be rolled back to; earlier generations are: {shown}")
    if find_unfinished(store, after=current.generation) is not None:
        raise DestinationError(f"{store.address} holds an unfinished run; finish it, or sweep it with --unfinished")
    earlier = read_generation(store, generation)
    missing = find_missing(store, receipts_of(earlier))
    if missing:
        raise VerificationError([problem for _, problem in missing], "it was swept, and cannot be rolled back to")
    return publish_parts(store, earlier.parts, generation=current.generation + 1, made_by=Mode.ROLLBACK)
