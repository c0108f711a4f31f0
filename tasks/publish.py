"""The last task: verify everything, and publish it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.core.manifest import Manifest
from evenshard.publish import publish
from evenshard.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenshard.core.plan import Plan


class Collected:
    """What the flow heard of lots that failed; a plain class, so that Prefect does not walk through a large plan.

    Args:
        plan: what was to be done.
        last_errors: what was last heard, by slice.
    """

    def __init__(self, plan: Plan, last_errors: Mapping[int, str]) -> None:
        self.plan, self.last_errors = plan, last_errors


@task(name="publish", cache_policy=NO_CACHE, persist_result=False)
def publish_set(collected: Collected, destination: str, max_failure_rate: float) -> Manifest:
    """Believe receipts and stored bytes only; write manifest and index, last."""
    return publish(
        collected.plan,
        open_store(destination),
        max_failure_rate=max_failure_rate,
        last_errors=collected.last_errors,
    )
