"""The flow `ingest-text`: archives of text become a verified chunk data set."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow

from flows.alone import alone
from flows.config import takes
from flows.ingest import run
from flows.results import summary
from flows.text_config import OF_THE_WEB, TextOptions


@flow(name="ingest-text", version=version("evenshard"), flow_run_name="text-{source}-to-{destination}")
@takes(TextOptions, but=OF_THE_WEB)
def ingest_text(options: TextOptions) -> dict[str, Any]:
    """Turn archives of text into a verified chunk data set: plan their members, map over slices, publish.

    Returns what was published, as `summary` gives it; what is counted are documents, and members that are broken. It
    fails, and publishes nothing, when a single slice is missing or anything does not add up.
    """
    with alone(options):
        return summary(run(options.source, options.request(), options.settings(), options))
