"""The mapped task: one lot, which is one slice, or several of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from evenshard.core.errors import EvenshardError, LotError, RunStoppedError, SliceError, may_pass
from evenshard.core.outcome import Counts
from evenshard.core.plan import Lot, Plan
from evenshard.slices import RunSettings, make_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefect.client.schemas.objects import State, TaskRun
    from prefect.tasks import Task

    from evenshard.worker import Progress
    from evenshard.workers import Workers

RETRIES: Final = 2


class LotRunner:
    """Does lots of one plan on given workers. A plain class, since Prefect walks through values of others.

    Args:
        plan: what the lots are of.
        settings: where and how.
        workers: who does the slices.
        report: told how far they are.
    """

    def __init__(
        self, plan: Plan, settings: RunSettings, workers: Workers, *, report: Callable[[Progress], None]
    ) -> None:
        self._plan, self._settings, self._workers, self._report = plan, settings, workers, report
        self._fingerprint = plan.fingerprint

    def run(self, lot: Lot) -> Counts:
        """Do the slices of a lot, one after another; those with a valid receipt are passed over.

        Raises:
            LotError: some could not be finished; all of them were tried.
            RunStoppedError: the run was stopped.
        """
        counts: list[Counts] = []
        errors: dict[int, Exception] = {}
        for index in lot.slice_indexes:
            job = make_job(self._plan, index, self._settings, fingerprint=self._fingerprint)
            try:
                counts.append(self._workers.run(job, self._report).counts)
            except RunStoppedError:
                raise
            except Exception as error:  # noqa: BLE001 - the other slices of the lot go on; this one is named below
                errors[index] = error
        if errors:
            told = {index: _told(error) for index, error in errors.items()}
            raise LotError(told, may_pass=any(map(may_pass, errors.values())))
        return Counts.total(counts)


def _told(error: Exception) -> str:
    if isinstance(error, SliceError):
        return error.problem
    return str(error) if isinstance(error, EvenshardError) else f"{type(error).__name__}: {error}"


def _may_pass(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    return may_pass(state.result(raise_on_failure=False))


@task(
    name="lot",
    task_run_name="rank-{lot.rank}-slices-{lot.start}-to-{lot.last}",
    retries=RETRIES,
    retry_delay_seconds=1,
    retry_condition_fn=_may_pass,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def run_lot(lot: Lot, runner: LotRunner) -> dict[str, Any]:
    """Do one lot; gives its counts."""
    counts = runner.run(lot)
    return {"planned": counts.planned, "stored": counts.stored, "failed": counts.num_failed}
