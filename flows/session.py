"""A run started from the command line: Prefect started if need be, progress shown, the result printed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from evenshard.core.errors import RunStoppedError
from evenshard.stores import open_store
from evenshard.verification import read_manifest
from flows.config import api_url, quiet_prefect, use_api
from flows.console import make_console
from flows.progress import LISTENER, Snapshot
from flows.server import PrefectServer, check_api
from flows.tables import show_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from flows.config import IngestOptions

PLAIN_SECONDS: Final = 5.0
"""How often progress is told where there is no terminal to draw a bar on."""


def run_ingest(options: IngestOptions, prepare: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run the flow `ingest` and show it to a person; gives what the flow gives.

    Args:
        options: of the flow.
        prepare: done while Prefect starts; what it raises ends the run before it began.

    Raises:
        EvenshardError: whatever made the flow fail.
    """
    console = make_console()
    quiet_prefect()
    wait_until_ready = start_prefect(console)
    prepare()
    wait_until_ready()
    last, result = _run(options, console)
    manifest = read_manifest(open_store(options.destination))
    show_set(console, manifest, destination=options.destination, rows_per_second=last.rows_per_second)
    return result


def _run(options: IngestOptions, console: Console) -> tuple[Snapshot, dict[str, Any]]:
    """Run the flow; gives how far it was in the end, and what it gave."""
    from prefect.exceptions import TerminationSignal  # noqa: PLC0415 - Prefect must find its settings made

    from flows.ingest import ingest  # noqa: PLC0415

    try:
        with progress_shown(console) as display:
            result: dict[str, Any] = ingest(**options.model_dump())
    except TerminationSignal as signal:
        raise RunStoppedError("the run was terminated; run the same command again to go on where it was") from signal
    return display.last, result


def start_prefect(console: Console) -> Callable[[], None]:
    """Have a Prefect API: the one that is set, or one of this run's own. Gives what waits for it."""
    if url := api_url():
        check_api(url)
        return lambda: console.print(f"evenshard: using the Prefect server at {url}")
    server = PrefectServer()
    use_api(server.api_url)

    def wait() -> None:
        console.print("evenshard: starting Prefect for this run; 10 to 40 s the first time, some 10 s later")
        with console.status("waiting for Prefect"):
            import prefect  # noqa: F401, PLC0415 - takes seconds too, which the server needs anyway

            server.wait_until_ready()

    return wait


class Display:
    """Shows how far a run is, and keeps the last of it.

    Args:
        show: does the showing.
    """

    def __init__(self, show: Callable[[Snapshot], None]) -> None:
        self._show = show
        self.last = Snapshot(planned=0)

    def __call__(self, snapshot: Snapshot) -> None:
        """Show a state."""
        self.last = snapshot
        self._show(snapshot)


@contextmanager
def progress_shown(console: Console) -> Iterator[Display]:
    """Show the progress of runs in this process while the block lasts: a bar, or a line now and then."""
    if not console.is_terminal:
        with _listening(Display(_plain_show(console))) as display:
            yield display
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        rows = bar.add_task("waiting for the first rows", total=None)

        def show(snapshot: Snapshot) -> None:
            bar.update(rows, total=snapshot.planned, completed=snapshot.num_ended, description=snapshot.line())

        with _listening(Display(show)) as display:
            yield display


@contextmanager
def _listening(display: Display) -> Iterator[Display]:
    token = LISTENER.set(display)
    try:
        yield display
    finally:
        LISTENER.reset(token)


def _plain_show(console: Console) -> Callable[[Snapshot], None]:
    due = 0.0

    def show(snapshot: Snapshot) -> None:
        nonlocal due
        if snapshot.seconds >= due or snapshot.num_ended == snapshot.planned:
            due = snapshot.seconds + PLAIN_SECONDS
            console.print(f"evenshard: {snapshot.line()}")

    return show
