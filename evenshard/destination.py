"""The destination before a run: empty, or with unfinished work of the very same plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evenshard.core.errors import DestinationError, ObjectExistsError
from evenshard.core.layout import INDEX, MANIFEST, PLANS, STATE, plan_name
from evenshard.core.plan import Plan, differences
from evenshard.core.text import from_json, to_json

if TYPE_CHECKING:
    from evenshard.core.store import Store

SHOWN: Final = 3
"""How many names of foreign files an error lists."""


def prepare(store: Store, plan: Plan) -> None:
    """Store the plan at a destination that may take it; write nothing at any other.

    Raises:
        DestinationError: it holds a published set, foreign files, or another plan's unfinished work.
    """
    check(store, plan)
    try:
        name = plan_name(generation=plan.generation, fingerprint=plan.fingerprint)
        store.put_new(name, [to_json(plan, indent=1)])
    except ObjectExistsError:  # the same plan, started before
        return


def check(store: Store, plan: Plan) -> None:
    """Refuse a destination that this plan must not write to; write nothing."""
    if store.size(MANIFEST) is not None:
        raise DestinationError(f"{store.address} already holds a published data set; choose another destination")
    foreign = [name for name in store.names() if not name.startswith((STATE, "chunk-g"))]
    if foreign:
        shown = ", ".join(sorted(foreign, key=lambda name: name != INDEX)[:SHOWN])
        more = ", ..." if len(foreign) > SHOWN else ""
        raise DestinationError(
            f"{store.address} holds files that are not evenshard's, and no {MANIFEST}: {shown}{more}; "
            "it is no finished data set; choose an empty folder"
        )
    own = plan_name(generation=plan.generation, fingerprint=plan.fingerprint)
    for name in store.names(PLANS):
        if name != own:
            _refuse_other(store, plan, name)


def _refuse_other(store: Store, plan: Plan, name: str) -> None:
    try:
        other = from_json(Plan, store.read(name))
    except ValueError as error:
        raise DestinationError(f"{store.address} holds a damaged plan, {name}: {error}; choose another") from error
    raise DestinationError(
        f"{store.address} holds unfinished work of plan {other.fingerprint[:12]}, this one is {plan.fingerprint[:12]}; "
        f"they differ in {'; '.join(differences(other, plan))}; ask for the same again, or choose another destination"
    )
