"""The workers of a cluster, as a run's threads know them: each thread waits for one slice that is done elsewhere."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from evenshard import remote
from evenshard.core.errors import ClusterError, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenshard.adapters.cluster_process import ClusterProcess
    from evenshard.core.receipt import Receipt
    from evenshard.slices import SliceJob
    from evenshard.worker import Progress


class ClusterWorker:
    """Has slices done by whichever worker of a cluster is free.

    Args:
        cluster: the process that holds it; shared by all workers of a run.
        run: names the run.
    """

    def __init__(self, cluster: ClusterProcess, run: str) -> None:
        self._cluster, self._run = cluster, run

    def run(self, job: SliceJob, report: Callable[[Progress], None]) -> Receipt:
        """Do one slice there.

        Raises:
            WorkerDiedError: its worker died at it, or the cluster is gone.
            RunStoppedError: `kill` was called.
            Exception: whatever the slice, or `report`, raised.
        """
        try:
            answer = self._cluster.run(remote.pack(job, run=self._run), lambda data: report(_unpacked(data)))
        except ClusterError as error:
            raise WorkerDiedError(job.slice.index, str(error)) from error
        kind, message = _unpacked(answer)
        if kind == "error":
            raise message
        receipt: Receipt = message
        return receipt

    def kill(self) -> None:
        """Give up all slices of the run: a run is stopped as a whole."""
        self._cluster.stop()

    def close(self) -> None:
        """Give back nothing: the cluster is the others' too."""


def _unpacked(data: bytes) -> Any:  # noqa: ANN401 - what a worker of the run's own cluster packed
    return pickle.loads(data)  # noqa: S301 - as is said there
