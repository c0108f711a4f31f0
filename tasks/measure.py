"""The task that measures one pass of a loader."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.core.timing import Pass
from evenshard.loader_benchmark import PlannedPass, run_pass


@task(
    name="pass",
    task_run_name="{planned.kind}-{planned.num_workers}-workers-repeat-{planned.repeat}",
    cache_policy=NO_CACHE,  # a time that was measured before is not this one
    persist_result=False,
)
def measure_pass(planned: PlannedPass) -> Pass:
    """Do a pass in a process of its own; gives what it took."""
    return run_pass(planned)
