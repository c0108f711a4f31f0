"""A run started from the command line: Prefect started if need be, progress shown, the result printed."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from evenshard.adapters.local_store import LocalStore
from evenshard.verification import read_manifest
from flows.config import api_url, quiet_prefect
from flows.progress import LISTENER, Snapshot
from flows.tables import show_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flows.config import IngestOptions

PLAIN_SECONDS: Final = 5.0
"""How often progress is told where there is no terminal to draw a bar on."""


def run_ingest(options: IngestOptions) -> dict[str, Any]:
    """Run the flow `ingest` and show it to a person; gives what the flow gives.

    Raises:
        EvenshardError: whatever made the flow fail.
    """
    console = Console(highlight=False, soft_wrap=True)
    quiet_prefect()
    with prefect_api(console):
        from flows.ingest import ingest  # noqa: PLC0415 - Prefect must find its settings made

        began = time.monotonic()
        with progress_shown(console):
            result: dict[str, Any] = ingest(**options.model_dump())
        seconds = time.monotonic() - began
    manifest = read_manifest(LocalStore(options.destination))
    show_set(console, manifest, destination=options.destination, seconds=seconds)
    return result


@contextmanager
def prefect_api(console: Console) -> Iterator[None]:
    """Have a Prefect API for the block: the one that is set, or one of this run's own."""
    if url := api_url():
        console.print(f"evenshard: using the Prefect server at {url}")
    else:
        console.print("evenshard: starting Prefect for this run; 10 to 40 s the first time, some 10 s later")
    with console.status("waiting for Prefect"):
        from prefect.client.orchestration import get_client  # noqa: PLC0415 - takes seconds

        client = get_client(sync_client=True)
    with client:
        yield


@contextmanager
def progress_shown(console: Console) -> Iterator[None]:
    """Show the progress of runs in this process while the block lasts: a bar, or a line now and then."""
    if not console.is_terminal:
        with _listening(_plain_listener(console)):
            yield
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        rows = bar.add_task("waiting for the first rows", total=None)

        def listen(snapshot: Snapshot) -> None:
            bar.update(rows, total=snapshot.planned, completed=snapshot.num_ended, description=snapshot.line())

        with _listening(listen):
            yield


@contextmanager
def _listening(listener: Callable[[Snapshot], None]) -> Iterator[None]:
    token = LISTENER.set(listener)
    try:
        yield
    finally:
        LISTENER.reset(token)


def _plain_listener(console: Console) -> Callable[[Snapshot], None]:
    due = 0.0

    def listen(snapshot: Snapshot) -> None:
        nonlocal due
        if snapshot.seconds >= due or snapshot.num_ended == snapshot.planned:
            due = snapshot.seconds + PLAIN_SECONDS
            console.print(f"evenshard: {snapshot.line()}")

    return listen
