"""The destination before a run: what is there, and whether this plan may write to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import make_index
from evenshard.core.errors import DestinationError, ObjectExistsError, ObjectMissingError, StoreError, VerificationError
from evenshard.core.layout import CHUNKS, INDEX, MANIFEST, STATE, plan_name
from evenshard.core.plan import Plan, differences
from evenshard.core.text import to_json
from evenshard.generations import find_current, read_plan

if TYPE_CHECKING:
    from evenshard.core.manifest import Manifest
    from evenshard.core.store import Store

SHOWN: Final = 3
"""How many names of foreign files an error lists."""


def claim(store: Store, plan: Plan) -> None:
    """Store the plan at a destination that may take it; write nothing at any other.

    Of two plans that claim a generation at once, one wins, and the other is refused.

    Raises:
        DestinationError: it holds a published set, foreign files, or another plan's unfinished work; or it
            cannot be written to.
    """
    check(store, plan)
    try:
        store.put_new(plan_name(plan.generation), [to_json(plan, indent=1)])
    except ObjectExistsError:
        _check_plan(store, plan)
    except StoreError as error:
        raise DestinationError(f"{error}; nothing was begun; choose a folder that can be written to") from error


def check(store: Store, plan: Plan) -> None:
    """Refuse a destination that this plan must not write to; write nothing."""
    current = find_current(store)
    if current is None:
        check_foreign(store)
    elif plan.generation != current.generation + 1 and not is_published(current, plan):
        raise DestinationError(
            f"{store.address} already holds a published data set; choose another destination, or --mode append or "
            "overwrite"
        )
    _check_plan(store, plan)


def check_foreign(store: Store) -> None:
    """Refuse a folder without a data set that holds other people's files.

    Raises:
        DestinationError: names the first few.
    """
    foreign = [name for name in store.names() if not name.startswith((STATE, CHUNKS))]
    if foreign:
        shown = ", ".join(sorted(foreign, key=lambda name: name != INDEX)[:SHOWN])
        more = ", ..." if len(foreign) > SHOWN else ""
        raise DestinationError(
            f"{store.address} holds files that are not evenshard's, and no {MANIFEST}: {shown}{more}; "
            "it is no finished data set; choose an empty folder"
        )


def is_published(current: Manifest, plan: Plan) -> bool:
    """Say whether a data set is what this plan makes."""
    return current.generation == plan.generation and current.parts[-1].fingerprint == plan.fingerprint


def is_half_published(store: Store, current: Manifest) -> bool:
    """Say whether a run was stopped between its manifest and its index."""
    try:
        return store.read(INDEX) != to_json(make_index(current))
    except ObjectMissingError:
        return True


def find_unfinished(store: Store, *, after: int) -> Plan | None:
    """Give the plan that a run was stopped at, if there is one.

    Args:
        store: the destination.
        after: the current generation; 0 if nothing is published.

    Raises:
        DestinationError: there is one, and it is damaged.
    """
    try:
        return read_plan(store, after + 1)
    except VerificationError as error:
        raise DestinationError(f"{store.address}: {error.problems[0]}; choose another destination") from error


def check_same_settings(store: Store, unfinished: Plan, asked: Plan) -> None:
    """Refuse to go on with a plan that was made with other settings than are asked for now.

    Its sources may be others: those of that day.

    Raises:
        DestinationError: names what differs.
    """
    today = replace(asked, sources=unfinished.sources, generation=unfinished.generation, base=unfinished.base,
                    mode=unfinished.mode, ranges=unfinished.ranges, replaces=unfinished.replaces,
                    superseded=unfinished.superseded, shard_starts=unfinished.shard_starts)  # fmt: skip
    if today.fingerprint != unfinished.fingerprint:
        _refuse(store, unfinished, today)


def _check_plan(store: Store, plan: Plan) -> None:
    other = find_unfinished(store, after=plan.generation - 1)
    if other is not None and other.fingerprint != plan.fingerprint:
        _refuse(store, other, plan)


def _refuse(store: Store, other: Plan, plan: Plan) -> None:
    raise DestinationError(
        f"{store.address} holds unfinished work of plan {other.fingerprint[:12]}, this one is "
        f"{plan.fingerprint[:12]}; they differ in {'; '.join(differences(other, plan))}; "
        "ask for the same again, give it up with `evenshard sweep --unfinished`, or choose another destination"
    )
