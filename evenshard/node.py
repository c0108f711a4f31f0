"""One node's share of a stored plan, on a machine that has never seen the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.code_version import version_of
from evenshard.core.errors import DestinationError
from evenshard.core.layout import receipts_prefix, slice_index_in
from evenshard.generations import find_current, read_plan
from evenshard.planning import libraries
from evenshard.transforms import BUILT_IN, find_callable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenshard.core.plan import Plan
    from evenshard.core.store import Store


def find_plan(store: Store, *, generation: int, fingerprint: str) -> Plan | None:
    """Give the plan that a node was told of; None if its generation is published, or a later one is.

    A node may come hours late: what it was told of may be done, or given up.

    Raises:
        DestinationError: it is not there; or this machine would write other bytes than the planner's.
    """
    current = find_current(store)
    if current is not None and current.generation >= generation:
        return None
    plan = read_plan(store, generation)
    if plan is None or plan.fingerprint != fingerprint:
        there = "none" if plan is None else plan.fingerprint[:12]
        raise DestinationError(
            f"{store.address} holds plan {there} of generation {generation}, not {fingerprint[:12]}; it was given up, "
            "or this machine does not see the folder that the plan was stored in"
        )
    _check_versions(plan)
    return plan


def _check_versions(plan: Plan) -> None:
    here, recipe = libraries(), plan.recipe
    if here != recipe.libraries:
        raise DestinationError(
            f"planned with {', '.join(recipe.libraries)}, but this machine has {', '.join(here)}; install the same"
        )
    transform = None if recipe.transform in BUILT_IN else find_callable(recipe.transform)
    if version_of(transform) != recipe.transform_version:
        raise DestinationError(
            f"{recipe.transform} is another version here than where it was planned; install the same"
        )


def without_receipt(plan: Plan, store: Store, indexes: Iterable[int]) -> tuple[int, ...]:
    """Give those of some slices that nobody has signed for."""
    signed = {slice_index_in(name) for name in store.names(receipts_prefix(plan.generation))}
    return tuple(index for index in indexes if index not in signed)
