"""The flow `ingest-node`: one node's slices of a stored plan, on this machine's workers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow
from prefect.logging import get_run_logger

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.errors import UnfinishedError
from evenshard.node import find_plan, without_receipt
from evenshard.stores import open_store
from flows.config import NodeOptions, takes
from flows.ingest import run_slices


@flow(name="ingest-node", version=version("evenshard"), flow_run_name="ingest-node-{node}-to-{destination}")
@takes(NodeOptions)
def ingest_node(options: NodeOptions) -> dict[str, Any]:
    """Do one node's slices of a plan that `ingest-nodes` stored at the destination; publish nothing.

    Returns how many slices the node has. It fails when one of them is not signed for in the end.
    """
    with reaching_s3(options.s3()):
        return _do_slices(options)


def _do_slices(options: NodeOptions) -> dict[str, Any]:
    """Map over the node's slices; inside a flow run."""
    settings = options.settings()
    store = open_store(settings.destination)
    plan = find_plan(store, generation=options.generation, fingerprint=options.fingerprint)
    if plan is None:
        get_run_logger().info("generation %d is published; nothing is left to do", options.generation)
        return {"node": options.node, "slices": 0}
    slices = plan.slices_of_node(options.node)
    errors = run_slices(plan, settings, options, slices=tuple(slices))
    missing = without_receipt(plan, store, slices)
    if missing:
        raise UnfinishedError([(index, errors.get(index, "has no receipt")) for index in missing])
    return {"node": options.node, "slices": len(slices)}
