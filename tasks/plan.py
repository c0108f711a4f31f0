"""The first task: plan the table, and claim the destination for that plan."""

from __future__ import annotations

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.planning import Request
from evenshard.work import Work, begin


@task(name="plan", cache_policy=NO_CACHE, persist_result=False)
def plan_table(source: str | Sequence[str], request: Request, destination: str) -> Work:
    """Read the footers that are needed, settle slices and columns, and store the plan at the destination."""
    return begin(source, request, destination)
