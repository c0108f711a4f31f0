"""The destination before a run: empty, or with unfinished work of the very same plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import make_index
from evenshard.core.errors import DestinationError, ObjectExistsError, ObjectMissingError
from evenshard.core.layout import INDEX, MANIFEST, STATE, plan_name
from evenshard.core.plan import Plan, differences
from evenshard.core.text import from_json, to_json
from evenshard.verification import read_manifest

if TYPE_CHECKING:
    from evenshard.core.store import Store

SHOWN: Final = 3
"""How many names of foreign files an error lists."""


def claim(store: Store, plan: Plan) -> None:
    """Store the plan at a destination that may take it; write nothing at any other.

    Of two plans that claim a destination at once, one wins, and the other is refused.

    Raises:
        DestinationError: it holds a published set, foreign files, or another plan's unfinished work.
    """
    check(store, plan)
    try:
        store.put_new(plan_name(plan.generation), [to_json(plan, indent=1)])
    except ObjectExistsError:
        _check_plan(store, plan)


def check(store: Store, plan: Plan) -> None:
    """Refuse a destination that this plan must not write to; write nothing."""
    if store.size(MANIFEST) is not None and not _is_half_published(store, plan):
        raise DestinationError(f"{store.address} already holds a published data set; choose another destination")
    foreign = [name for name in store.names() if not name.startswith((STATE, "chunk-g"))]
    if store.size(MANIFEST) is None and foreign:
        shown = ", ".join(sorted(foreign, key=lambda name: name != INDEX)[:SHOWN])
        more = ", ..." if len(foreign) > SHOWN else ""
        raise DestinationError(
            f"{store.address} holds files that are not evenshard's, and no {MANIFEST}: {shown}{more}; "
            "it is no finished data set; choose an empty folder"
        )
    _check_plan(store, plan)


def _is_half_published(store: Store, plan: Plan) -> bool:
    """Say whether a run of this very plan was stopped between its manifest and its index."""
    manifest = read_manifest(store)
    try:
        index = store.read(INDEX)
    except ObjectMissingError:
        index = b""
    return manifest.fingerprint == plan.fingerprint and index != to_json(make_index(manifest))


def _check_plan(store: Store, plan: Plan) -> None:
    name = plan_name(plan.generation)
    try:
        other = from_json(Plan, store.read(name))
    except ObjectMissingError:
        return
    except ValueError as error:
        raise DestinationError(f"{store.address} holds a damaged plan, {name}: {error}; choose another") from error
    if other.fingerprint != plan.fingerprint:
        raise DestinationError(
            f"{store.address} holds unfinished work of plan {other.fingerprint[:12]}, this one is "
            f"{plan.fingerprint[:12]}; they differ in {'; '.join(differences(other, plan))}; "
            "ask for the same again, or choose another destination"
        )
