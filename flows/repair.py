"""The flow `repair`: bad chunks of a data set are made again, from their own rows."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.logging import get_run_logger

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.repair import bad_slices
from flows.alone import alone
from flows.config import RunOptions, takes
from flows.ingest import run_slices
from flows.results import summary
from tasks.upkeep import Mending, finish_mending, look_over

if TYPE_CHECKING:
    from evenshard.core.manifest import Manifest


@flow(name="repair", version=version("evenshard"), flow_run_name="repair-{destination}")
@takes(RunOptions)
def repair(options: RunOptions) -> dict[str, Any]:
    """Look a data set over, and make its bad slices again; sound ones are left alone.

    Returns what is published then, as `summary` gives it. It is a new generation if a server answered
    otherwise than the first time; else the same bytes as before.
    """
    with reaching_s3(options.s3()), alone(options):
        return summary(_repair(options))


def _repair(options: RunOptions) -> Manifest:
    """Look over, map over the bad slices, and publish; inside a flow run."""
    logger, settings = get_run_logger(), options.settings()
    found = look_over(settings.destination).findings
    logger.info("%d problems found, %d slices to make again", len(found.problems), len(found.slices))
    errors: dict[int, str] = {}
    for part in found.manifest.parts:
        slices = bad_slices(found, part)
        if slices:
            errors |= run_slices(part.plan, settings, options, slices=slices)
    return finish_mending(settings.destination, Mending(found, errors))
