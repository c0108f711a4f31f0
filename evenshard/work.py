"""What a run has to do at its destination: a new plan, one that was left unfinished, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenshard.appending import plan_addition
from evenshard.core.manifest import Manifest
from evenshard.core.plan import Mode, Plan
from evenshard.destination import (
    check,
    check_foreign,
    check_same_settings,
    claim,
    find_unfinished,
    is_half_published,
    is_published,
)
from evenshard.generations import find_current
from evenshard.planning import make_plan
from evenshard.publish import show
from evenshard.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.core.store import Store
    from evenshard.planning import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done.

    Args:
        plan: what; None if nothing is.
        current: the published state before; None if nothing is published.
        is_resumed: whether an earlier run began it, so that there may be more to do after it.
        gone: files that samples were made from and that are there no more.
        is_half_published: whether a run was stopped when all that was left was to show its result to readers.
    """

    plan: Plan | None
    current: Manifest | None
    is_resumed: bool = False
    gone: tuple[str, ...] = ()
    is_half_published: bool = False


def find_work(source: str | Sequence[str], request: Request, store: Store) -> Work:
    """Plan what a run has to do; write nothing.

    Args:
        source: as for `make_plan`.
        request: what is asked for.
        store: the destination.

    Raises:
        UsageError: it cannot be done as asked.
    """
    current = find_current(store)
    if current is None:
        check_foreign(store)
        return Work(plan=_checked(store, make_plan(source, request)), current=None)
    find = {Mode.APPEND: _find_addition, Mode.OVERWRITE: _find_successor}.get(request.mode, _find_first)
    work = find(source, request, store, current)
    return replace(work, is_half_published=work.plan is None and is_half_published(store, current))


def _find_first(source: str | Sequence[str], request: Request, store: Store, current: Manifest) -> Work:
    plan = _checked(store, make_plan(source, request))
    return Work(plan=None if is_published(current, plan) else plan, current=current)


def _find_successor(source: str | Sequence[str], request: Request, store: Store, current: Manifest) -> Work:
    plan = make_plan(source, request, generation=current.generation + 1)
    return Work(plan=_checked(store, replace(plan, mode=Mode.OVERWRITE)), current=current)


def _find_addition(source: str | Sequence[str], request: Request, store: Store, current: Manifest) -> Work:
    unfinished = find_unfinished(store, after=current.generation)
    if unfinished is not None:
        check_same_settings(store, unfinished, make_plan(source, request))
        return Work(plan=unfinished, current=current, is_resumed=True)
    found = plan_addition(source, request, current)
    return Work(plan=found.plan, current=current, gone=found.gone)


def _checked(store: Store, plan: Plan) -> Plan:
    check(store, plan)
    return plan


def begin(source: str | Sequence[str], request: Request, destination: str) -> Work:
    """Plan what a run has to do, and claim the destination for it.

    Raises:
        UsageError: it cannot be done as asked.
    """
    store = open_store(destination)
    work = find_work(source, request, store)
    if work.plan is not None:
        claim(store, work.plan)
    elif work.is_half_published and work.current is not None:
        show(store, work.current)
    return work
