"""The flow `ingest`: a table of links, or of anything, becomes a verified chunk data set."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, cast

from prefect import flow, unmapped
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.errors import LotError, may_pass
from evenshard.core.plan import MAX_LOTS
from evenshard.core.source_address import shown
from evenshard.node import without_receipt
from evenshard.stores import open_store
from flows.alone import alone
from flows.config import IngestOptions, RunOptions, takes
from flows.progress import LISTENER, Tracker, log_listener
from flows.results import summary
from flows.runners import check_engine, engine
from tasks.lots import LotRunner, run_lot
from tasks.plan import plan_table
from tasks.publish import Collected, publish_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prefect.futures import PrefectFuture

    from evenshard.core.manifest import Manifest
    from evenshard.core.plan import Lot, Plan
    from evenshard.planning import Request
    from evenshard.slices import RunSettings

WAIT_SECONDS: Final = 0.5
ROUNDS: Final = 2
"""Slices that are missing after all retries are planned once more, on a fresh engine."""


def _run_name() -> str:
    """Name a run by what and where, without what an address holds of secrets."""
    return f"ingest-{shown(flow_run.parameters['source'])}-to-{flow_run.parameters['destination']}"


@flow(name="ingest", version=version("evenshard"), flow_run_name=_run_name)
@takes(IngestOptions)
def ingest(options: IngestOptions) -> dict[str, Any]:
    """Turn a table of links into a verified chunk data set: plan, map over slices, publish.

    Returns what was published, as `summary` gives it. It fails, and publishes nothing, when a single
    slice is missing or anything does not add up.
    """
    with reaching_s3(options.s3()), alone(options):
        return summary(run(options.source, options.request(), options.settings(), options))


def run(
    source: str | Sequence[str],
    request: Request,
    settings: RunSettings,
    options: RunOptions,
    *,
    do: Callable[[Plan, RunSettings], dict[int, str]] | None = None,
) -> Manifest:
    """Plan, map and publish; inside a flow run.

    Args:
        source: the table.
        request: what is wanted.
        settings: where and how.
        options: how, as a person gave it.
        do: does the slices of a plan, and gives what was last heard of those that failed; here by default.
    """
    logger = get_run_logger()
    check_engine(options)
    while True:
        work = plan_table(source, request, settings.destination)
        for path in work.gone:
            logger.warning("%s is gone; the samples made from it stay", path)
        if work.plan is None:
            logger.info("nothing is new: all of the source is in the data set")
            return cast("Manifest", work.current)
        last_errors = do(work.plan, settings) if do else run_slices(work.plan, settings, options)
        manifest = publish_set(Collected(work.plan, last_errors), settings.destination, options.max_failure_rate)
        if not work.is_resumed:
            return manifest


def run_slices(
    plan: Plan, settings: RunSettings, options: RunOptions, *, slices: tuple[int, ...] | None = None
) -> dict[int, str]:
    """Map over the slices, all of the plan's by default; gives what was last heard of those that failed."""
    logger = get_run_logger()
    wanted = tuple(range(plan.num_slices)) if slices is None else slices
    num_rows = plan.num_rows if slices is None else sum(plan.slice_at(index).num_rows for index in slices)
    what = "members" if plan.recipe.is_of_members else "rows"
    logger.info("%d %s in %d slices over %d ranks", num_rows, what, len(wanted), plan.world.world_size)
    listener = LISTENER.get() or log_listener(logger)
    tracker = Tracker(num_rows, listener, max_failure_rate=options.max_failure_rate)
    errors: dict[int, str] = {}
    for _ in range(ROUNDS):
        if not wanted:
            break
        with engine(options) as running:
            lots = plan.lots(wanted, max_lots=MAX_LOTS)
            share = settings.shared_out(running.num_processes)
            lot_runner = LotRunner(plan, share, running.workers, report=tracker.add)
            futures = running.runner.map(run_lot, {"lot": list(lots), "runner": unmapped(lot_runner)})
            results = [_result_of(future, tracker) for future in futures]
        failed = [(lot, error) for lot, error in zip(lots, results, strict=True) if isinstance(error, BaseException)]
        for lot, error in failed:
            errors |= _problems_of(lot, error)
        again = [index for lot, error in failed if may_pass(error) for index in lot.slice_indexes]
        wanted = without_receipt(plan, open_store(settings.destination), again)
    if not errors:
        tracker.check_totals()
    return errors


def _problems_of(lot: Lot, error: BaseException) -> dict[int, str]:
    """Give what was heard of each slice of a lot that failed."""
    if isinstance(error, LotError):
        return error.problems
    return dict.fromkeys(lot.slice_indexes, f"{type(error).__name__}: {error}")


def _result_of(future: PrefectFuture[Any], tracker: Tracker) -> Any:  # noqa: ANN401 - a lot's counts, or what it raised
    """Wait for a lot in short turns: polars handles SIGINT so that a wait without end goes on after Ctrl-C.

    Between them the first rows are looked at; with too many failures the wait, and the run, ends.
    """
    while True:
        tracker.check()
        try:
            return future.result(timeout=WAIT_SECONDS, raise_on_failure=False)
        except TimeoutError:
            continue


if __name__ == "__main__":
    import sys

    from flows.cli import main

    main(["ingest", *sys.argv[1:]])
