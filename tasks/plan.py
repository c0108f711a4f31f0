"""The first task: plan the table, and claim the destination for that plan."""

from __future__ import annotations

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.core.plan import Plan
from evenshard.destination import claim
from evenshard.planning import Request, make_plan
from evenshard.stores import open_store


@task(name="plan", cache_policy=NO_CACHE, persist_result=False)
def plan_table(source: str | Sequence[str], request: Request, destination: str) -> Plan:
    """Read all footers, settle slices and columns, and store the plan at the destination."""
    plan = make_plan(source, request)
    claim(open_store(destination), plan)
    return plan
