"""The flow `retry-failed`: failed rows once more; what they give joins the data set as a new generation."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.logging import get_run_logger

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.generations import read_manifest
from evenshard.stores import open_store
from flows.alone import alone
from flows.config import RunOptions, takes
from flows.ingest import run_slices
from flows.results import summary
from tasks.publish import Collected, publish_set
from tasks.upkeep import plan_failed

if TYPE_CHECKING:
    from evenshard.core.manifest import Manifest


@flow(name="retry-failed", version=version("evenshard"), flow_run_name="retry-failed-{destination}")
@takes(RunOptions)
def retry_failed(options: RunOptions) -> dict[str, Any]:
    """Try rows again whose failure may have passed, and add what they give to the data set.

    Returns what is published then, as `summary` gives it.
    """
    with reaching_s3(options.s3()), alone(options):
        return summary(_retry(options))


def _retry(options: RunOptions) -> Manifest:
    """Plan, map and publish; inside a flow run."""
    logger, settings = get_run_logger(), options.settings()
    retry = plan_failed(settings.destination)
    for path, number in retry.left.items():
        logger.warning("%s has changed or is gone; %d rows of it cannot be tried again", path, number)
    if retry.plan is None:
        logger.info("no row failed in a way that may have passed")
        return read_manifest(open_store(settings.destination))
    errors = run_slices(retry.plan, settings, options)
    return publish_set(Collected(retry.plan, errors), settings.destination, options.max_failure_rate)
