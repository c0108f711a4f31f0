"""All deployments of `prefect.yaml` served by this one process, for a machine without a worker.

python -m deployments.serve
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

import flows  # noqa: F401 - makes Prefect's settings before its first import

# isort: split
from prefect import serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

FILE: Final = Path(__file__).with_name("prefect.yaml")


def deployment_of(entry: dict[str, Any]) -> RunnerDeployment:
    """Make a deployment as the file has it, without its work pool."""
    module, _, name = entry["entrypoint"].rpartition(".")
    schedules = [
        Cron(each["cron"], timezone=each["timezone"], slug=each["slug"], active=each["active"])
        for each in entry.get("schedules", [])
    ]
    limit = entry.get("concurrency_limit")
    made: RunnerDeployment = getattr(import_module(module), name).to_deployment(
        name=entry["name"],
        description=entry["description"],
        tags=entry["tags"],
        parameters=entry.get("parameters", {}),
        concurrency_limit=ConcurrencyLimitConfig(**limit) if limit else None,
        schedules=schedules,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    return made


@click.command()
@click.option("--limit", default=8, show_default=True, help="Runs at once; ingest-nodes and each of its nodes are one.")
def main(limit: int) -> None:
    """Serve all deployments of prefect.yaml until Ctrl-C."""
    entries = yaml.safe_load(FILE.read_text("utf-8"))["deployments"]
    serve(*map(deployment_of, entries), limit=limit, pause_on_shutdown=False)


if __name__ == "__main__":
    main()
