"""Engines by name: what a run's lots are mapped on. The only place that knows them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prefect.task_runners import ThreadPoolTaskRunner

from evenshard.clients import Clients
from evenshard.core.errors import OptionError
from evenshard.worker import SliceWorker
from evenshard.workers import ProcessWorker, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextmanager
def _threads() -> Iterator[Workers]:
    with Clients() as clients, Workers(lambda: SliceWorker(clients)) as workers:
        yield workers


@contextmanager
def _processes() -> Iterator[Workers]:
    with Workers(ProcessWorker) as workers:
        yield workers


ENGINES: Final = {"threads": _threads, "processes": _processes}
"""Prefect's thread runner submits for both: a task costs 10 ms there and 200 ms on its process runner, whose
queued tasks are all lost when one worker dies. With `processes` each thread waits for a process of its own."""


@contextmanager
def engine(name: str, *, num_workers: int) -> Iterator[tuple[ThreadPoolTaskRunner[Any], Workers]]:
    """Start an engine: a task runner with as many threads as workers, and the workers.

    Args:
        name: `threads` or `processes`.
        num_workers: slices that run at once, 1 or more.

    Raises:
        OptionError: there is no such engine.
    """
    if name not in ENGINES:
        raise OptionError("engine", f"{name!r} is not one of {', '.join(ENGINES)}")
    runner: ThreadPoolTaskRunner[Any] = ThreadPoolTaskRunner(max_workers=num_workers)
    with ENGINES[name]() as workers, runner:
        try:
            yield runner, workers
        except BaseException:
            workers.stop()  # the runner waits for its threads, and those for their slices
            raise
