"""A run started from the command line: Prefect started if need be, progress shown, the result printed."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.generations import read_manifest
from evenshard.stores import open_store
from flows.config import api_url, quiet_prefect, use_api
from flows.console import make_console, printable
from flows.progress import LISTENER, Snapshot
from flows.results import summary
from flows.server import PrefectServer, check_api
from flows.tables import show_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from flows.config import IngestOptions, RunOptions

PLAIN_SECONDS: Final = 5.0
"""How often progress is told where there is no terminal to draw a bar on."""


def run_ingest(options: IngestOptions, prepare: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Run the flow `ingest` and show it to a person; otherwise as `run_flow`."""
    return run_flow("flows.ingest:ingest", options, prepare)


def run_flow(name: str, options: RunOptions, prepare: Callable[[], bool] = lambda: True) -> dict[str, Any]:
    """Run a flow and show it to a person; gives what the flow gives.

    Args:
        name: `module:flow`; imported when Prefect's settings are made.
        options: of the flow.
        prepare: done while Prefect starts; says whether there is anything to do. What it raises ends the run
            before it began.

    Raises:
        EvenshardError: whatever made the flow fail.
    """
    with reaching_s3(options.s3()):
        return _run_flow(name, options, prepare)


def _run_flow(name: str, options: RunOptions, prepare: Callable[[], bool]) -> dict[str, Any]:
    console = make_console()
    quiet_prefect()
    wait_until_ready = start_prefect(console)
    if not prepare():
        manifest = read_manifest(open_store(options.destination))
        show_set(console, manifest, destination=options.destination)
        return summary(manifest)
    wait_until_ready()
    with progress_shown(console) as display:
        module, _, attribute = name.partition(":")
        result: dict[str, Any] = getattr(import_module(module), attribute)(**options.model_dump(exclude_unset=True))
    manifest = read_manifest(open_store(options.destination))
    show_set(console, manifest, destination=options.destination, rows_per_second=display.last.rows_per_second)
    return result


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
        say: prints a line.
    """

    def __init__(self, show: Callable[[Snapshot], None], say: Callable[[str], None]) -> None:
        self._show, self._say, self._warned = show, say, False
        self.last = Snapshot(planned=0)

    def __call__(self, snapshot: Snapshot) -> None:
        """Show a state; a warning once."""
        if snapshot.notice:
            self._say(f"evenshard: {printable(snapshot.notice)}")
            return
        if snapshot.warning and not self._warned:
            self._warned = True
            self._say(f"evenshard: warning: {printable(snapshot.warning)}")
        self.last = snapshot
        self._show(snapshot)


@contextmanager
def progress_shown(console: Console) -> Iterator[Display]:
    """Show the progress of runs in this process while the block lasts: a bar, or a line now and then."""
    if not console.is_terminal:
        with _listening(Display(_plain_show(console), console.print)) as display:
            yield display
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        rows = bar.add_task("waiting for the first rows", total=None)

        def show(snapshot: Snapshot) -> None:
            bar.update(rows, total=snapshot.planned, completed=snapshot.num_done, description=snapshot.line())

        with _listening(Display(show, console.print)) as display:
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
        if snapshot.seconds >= due or snapshot.num_done == snapshot.planned:
            due = snapshot.seconds + PLAIN_SECONDS
            console.print(f"evenshard: {snapshot.line()}")

    return show
