"""The flow `ingest-nodes`: a plan for several machines, a run of `ingest-node` for each, and the publishing."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.runtime import flow_run

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.source_address import shown
from flows.alone import alone
from flows.config import NodesOptions, takes
from flows.fan_out import FanOut
from flows.ingest import run
from flows.results import summary

if TYPE_CHECKING:
    from evenshard.core.plan import Plan
    from evenshard.slices import RunSettings


def _run_name() -> str:
    return f"ingest-nodes-{shown(flow_run.parameters['source'])}-to-{flow_run.parameters['destination']}"


@flow(name="ingest-nodes", version=version("evenshard"), flow_run_name=_run_name)
@takes(NodesOptions)
def ingest_nodes(options: NodesOptions) -> dict[str, Any]:
    """Plan, start one run of a deployment for each node, wait for all, verify every receipt, and publish.

    Returns what was published, as `summary` gives it. The nodes' machines need the same storage and the same
    versions; they believe the stored plan, and this flow believes receipts and bytes, never the state of a run.
    """
    with reaching_s3(options.s3()), alone(options):
        do = partial(_on_nodes, options)
        return summary(run(options.source, options.request(), options.settings(), options, do=do))


def _on_nodes(options: NodesOptions, plan: Plan, settings: RunSettings) -> dict[int, str]:
    return FanOut(plan, options, settings).run()
