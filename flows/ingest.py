"""The flow `ingest`: a table of links, or of anything, becomes a verified chunk data set."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from prefect import flow, unmapped
from prefect.logging import get_run_logger

from evenshard.core.errors import LotError, may_pass
from evenshard.core.layout import receipt_name
from evenshard.core.plan import MAX_LOTS
from evenshard.stores import open_store
from flows.config import IngestOptions, takes
from flows.progress import LISTENER, Tracker, log_listener
from flows.runners import engine
from tasks.lots import LotRunner, run_lot
from tasks.plan import plan_table
from tasks.publish import Collected, publish_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefect.futures import PrefectFuture

    from evenshard.core.manifest import Manifest
    from evenshard.core.plan import Lot, Plan
    from evenshard.planning import Request
    from evenshard.slices import RunSettings

WAIT_SECONDS: Final = 0.5
ROUNDS: Final = 2
"""Slices that are missing after all retries are planned once more, on a fresh engine."""


@flow(name="ingest", version=version("evenshard"), flow_run_name="ingest-{source}-to-{destination}")
@takes(IngestOptions)
def ingest(options: IngestOptions) -> dict[str, Any]:
    """Turn a table of links into a verified chunk data set: plan, map over slices, publish.

    Returns what was published, as `summary` gives it. It fails, and publishes nothing, when a single
    slice is missing or anything does not add up.
    """
    return summary(run(options.source, options.request(), options.settings(), options))


def run(source: str | Sequence[str], request: Request, settings: RunSettings, options: IngestOptions) -> Manifest:
    """Plan, map and publish; inside a flow run."""
    plan = plan_table(source, request, settings.destination)
    last_errors = run_slices(plan, settings, options)
    return publish_set(Collected(plan, last_errors), settings.destination, options.max_failure_rate)


def run_slices(plan: Plan, settings: RunSettings, options: IngestOptions) -> dict[int, str]:
    """Map over the slices; gives what was last heard of those that failed."""
    logger = get_run_logger()
    logger.info("%d rows in %d slices over %d ranks", plan.num_rows, plan.num_slices, plan.world.world_size)
    tracker = Tracker(plan.num_rows, LISTENER.get() or log_listener(logger))
    errors: dict[int, str] = {}
    wanted = tuple(range(plan.num_slices))
    for _ in range(ROUNDS):
        if not wanted:
            break
        with engine(options.engine_name(), num_workers=options.num_workers()) as (runner, workers):
            lots = plan.lots(wanted, max_lots=MAX_LOTS)
            lot_runner = LotRunner(plan, settings, workers, report=tracker.add)
            futures = runner.map(run_lot, {"lot": list(lots), "runner": unmapped(lot_runner)})
            results = [_result_of(future) for future in futures]
        failed = [(lot, error) for lot, error in zip(lots, results, strict=True) if isinstance(error, BaseException)]
        for lot, error in failed:
            errors |= _problems_of(lot, error)
        again = [index for lot, error in failed if may_pass(error) for index in lot.slice_indexes]
        wanted = _without_receipt(plan, settings.destination, again)
    return errors


def _problems_of(lot: Lot, error: BaseException) -> dict[int, str]:
    """Give what was heard of each slice of a lot that failed."""
    if isinstance(error, LotError):
        return error.problems
    return dict.fromkeys(lot.slice_indexes, f"{type(error).__name__}: {error}")


def _result_of(future: PrefectFuture[Any]) -> Any:  # noqa: ANN401 - a lot's counts, or what it raised
    """Wait for a lot in short turns: polars handles SIGINT so that a wait without end goes on after Ctrl-C."""
    while True:
        try:
            return future.result(timeout=WAIT_SECONDS, raise_on_failure=False)
        except TimeoutError:
            continue


def _without_receipt(plan: Plan, destination: str, indexes: list[int]) -> tuple[int, ...]:
    store = open_store(destination)
    names = ((index, receipt_name(generation=plan.generation, slice_index=index)) for index in indexes)
    return tuple(index for index, name in names if store.size(name) is None)


def summary(manifest: Manifest) -> dict[str, Any]:
    """Give what was published as plain numbers and names."""
    counts = manifest.counts
    return {
        "generation": manifest.generation,
        "fingerprint": manifest.fingerprint,
        "planned": counts.planned,
        "stored": counts.stored,
        "filtered": dict(counts.filtered),
        "failed": dict(counts.failed),
        "dropped": sum(rows.stop - rows.start for rows in manifest.dropped),
        "rows_per_rank": list(manifest.rows_per_rank().values()),
        "slices": len(manifest.slices),
        "chunks": len(manifest.chunks),
        "bytes": manifest.num_bytes,
    }


if __name__ == "__main__":
    import sys

    from flows.cli import main

    main(["ingest", *sys.argv[1:]])
