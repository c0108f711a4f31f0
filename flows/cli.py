"""The command line `evenshard`.

Exit codes: 0 done; 1 the run failed, nothing was published; 2 asked for what cannot be done, nothing was
written; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import csv
import signal
import sys
import time
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.errors import EvenshardError, OptionError, UsageError
from evenshard.core.source_address import shown
from flows.benchmark_config import BenchmarkOptions, check_extra
from flows.config import IngestOptions, PlanOptions, RunOptions, StoreOptions, parse
from flows.console import GOES_ON, make_console, printable, warnings_told
from flows.text_config import OF_THE_WEB, TextOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from pydantic import BaseModel

    from evenshard.core.plan import Plan
    from evenshard.work import Work

FAILED: Final = 1
MISUSED: Final = 2
STOPPED: Final = 130
TERMINATED: Final = 143
LISTS: Final = {"columns": "columns", "allow_hosts": "allow_host", "workers": "workers"}
"""Options that take several values, and their names as they are typed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end with its exit code; errors that are the caller's to mend take one line."""
    sys.path.append(str(Path.cwd()))  # --transform finds modules beside the caller, which stand in for nobody else's
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character still gets the line
    stop = _Stop()
    before = signal.signal(signal.SIGTERM, stop.terminate)
    try:
        with warnings_told("evenshard.adapters.s3_store"):
            commands(
                args=list(sys.argv[1:] if arguments is None else arguments),
                prog_name="evenshard",
                standalone_mode=False,
            )
    except click.ClickException as error:
        _leave(error.format_message(), MISUSED)
    except UsageError as error:
        _leave(_as_typed(error), MISUSED)
    except EvenshardError as error:
        _leave(str(error), FAILED)
    except OSError as error:  # such as a full disk behind standard output
        _leave(f"cannot write the output: {error}", FAILED)
    except (KeyboardInterrupt, click.Abort):
        _leave(f"{stop.word}; {GOES_ON}", stop.code)
    finally:
        signal.signal(signal.SIGTERM, before)


class _Stop:
    """What stopped the program: Ctrl-C, or SIGTERM, which ends a run in the same way."""

    def __init__(self) -> None:
        self.word, self.code = "stopped", STOPPED

    def terminate(self, _number: int, _frame: FrameType | None) -> None:
        """Take SIGTERM. Whoever is in between may turn the exception into another, so the fact is kept here."""
        self.word, self.code = "terminated", TERMINATED
        raise KeyboardInterrupt


def _leave(message: str, code: int) -> None:
    click.echo(f"evenshard: {printable(message)}", err=True)
    sys.exit(code)


def _as_typed(error: UsageError) -> str:
    """Name an option as it is typed on the command line."""
    if isinstance(error, OptionError) and error.option not in {"source", "destination"}:
        return f"{_typed(error.option)}: {error.problem}"
    return str(error)


def _options(
    model: type[BaseModel], *, but: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each field of a model, with its description and default."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for name, field in reversed(model.model_fields.items()):
            if name in but:
                continue
            default = None if field.is_required() else field.get_default()
            shown = f" [default: {default}]" if default is not None else ""
            again = " Commas between several, or given again." if name in LISTS else ""
            command = click.option(
                _typed(name), name, default=None, multiple=name in LISTS, help=f"{field.description}{again}{shown}"
            )(command)
        return command

    return decorate


def _stored(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reaching S3, and have it reached so while it runs."""

    def run(*, endpoint_url: str | None, path_style: str | None, **values: Any) -> None:  # noqa: ANN401 - of the command
        given = _given({"endpoint_url": endpoint_url, "path_style": path_style})
        with reaching_s3(parse(StoreOptions, given).s3()):
            command(**values)

    return _options(StoreOptions)(update_wrapper(run, command))


def _typed(name: str) -> str:
    """Give an option as it is typed."""
    return "--" + LISTS.get(name, name).replace("_", "-")


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Keep what was typed; lists are typed with commas, or piece by piece."""
    given = {name: value for name, value in values.items() if value not in (None, ())}
    for name in LISTS.keys() & given.keys():
        given[name] = [each for text in given[name] for each in _names_in(text)]
    return given


def _names_in(text: str) -> list[str]:
    """Part names at commas; with a quotation mark in the text as CSV has it, for commas and blanks in names."""
    if '"' in text:
        return next(csv.reader([text], skipinitialspace=True))
    return [name.strip() for name in text.split(",") if name.strip()]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="evenshard")
def commands() -> None:
    """Turn tables of links, and archives of text, into verified, training-ready chunk data sets."""


@commands.command()
@click.argument("source")
@click.argument("destination")
@_options(IngestOptions, but=["source", "destination"])
def ingest(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Fetch the links of SOURCE and write a chunk data set to DESTINATION.

    SOURCE is a Parquet file, a folder of them, a quoted glob pattern, or the http(s) address of a file;
    DESTINATION is a folder; both can be addresses in S3: s3://bucket/prefix.
    """
    options = parse(IngestOptions, _given(values))
    _say(f"looking through {shown(options.source)}")
    from evenshard.planning import plans_kept  # noqa: PLC0415 - its libraries take a second; say something first
    from flows.session import run_ingest  # noqa: PLC0415 - see above

    with plans_kept():  # the flow asks for the plan that is made while Prefect starts
        run_ingest(options, _preparation(options, "files"))


@commands.command()
@click.argument("source")
@click.argument("destination")
@_options(TextOptions, but=["source", "destination", *OF_THE_WEB])
def text(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Write the documents of the archives SOURCE to a chunk data set at DESTINATION.

    SOURCE is a tar of packed tars of texts, as those of OpenWebText are, a folder of such .tar files, or a quoted glob
    pattern.
    """
    options = parse(TextOptions, _given(values))
    _say(f"looking through {shown(options.source)}")
    from evenshard.planning import plans_kept  # noqa: PLC0415 - its libraries take a second; say something first
    from flows.session import run_flow  # noqa: PLC0415 - see above

    with plans_kept():
        run_flow("flows.text:ingest_text", options, _preparation(options, "archives"))


@commands.command()
@click.argument("source")
@_options(BenchmarkOptions, but=["source"])
def benchmark(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Measure how fast the archives SOURCE load, with 1 to 20 workers, and draw it.

    SOURCE is as for `evenshard text`. Each pass is a process of its own: a loader, the shuffle behind it, and the
    samples thrown away. The times go to timings.csv as they come.
    """
    options = parse(BenchmarkOptions, _given(values))
    check_extra()
    _say(f"looking through {shown(options.source)}")
    from flows.benchmark_session import run_benchmark  # noqa: PLC0415 - its libraries take a second

    run_benchmark(options)


@commands.command()
@click.argument("source")
@_options(PlanOptions, but=["source"])
def plan(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Show what an ingestion of SOURCE would do; fetches no link, writes nothing."""
    options = parse(PlanOptions, _given(values))
    _say(f"looking through {shown(options.source)}")
    with reaching_s3(options.s3()):
        made = _plan(options)
    from flows.tables import show_plan  # noqa: PLC0415 - see above

    show_plan(make_console(), made)


@commands.command()
@click.argument("destination")
@click.option("--quick", "depth", flag_value="quick", help="Only look whether every file is there with its size.")
@click.option("--deep", "depth", flag_value="deep", help="Also read every field, and decode every tenth picture.")
@_stored
def verify(destination: str, *, depth: str | None) -> None:
    """Check a published data set: every byte of every chunk, and that all counts agree."""
    _say(f"looking for every chunk of {destination}" if depth == "quick" else f"reading every chunk of {destination}")
    from evenshard.core.errors import ObjectMissingError  # noqa: PLC0415
    from evenshard.inspection import Depth  # noqa: PLC0415
    from evenshard.inspection import verify as check  # noqa: PLC0415
    from evenshard.stores import open_store  # noqa: PLC0415
    from flows.tables import show_set  # noqa: PLC0415

    try:
        manifest = check(open_store(destination), depth=Depth(depth or Depth.WHOLE))
    except ObjectMissingError as error:
        raise UsageError(f"{destination} holds no published data set: {error}") from error
    show_set(make_console(), manifest, destination=destination)


@commands.command()
@click.argument("destination")
@click.option("--failed", is_flag=True, help="Show the failed rows.")
@click.option("--reason", "reasons", multiple=True, help="Show rows of this reason; given again for several.")
@click.option("--to", default=None, help="Write the rows, all of them by default, to a new Parquet file.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10**9), help="Rows shown at most.")
@_stored
def outcomes(destination: str, *, failed: bool, reasons: tuple[str, ...], to: str | None, limit: int) -> None:
    """Count what became of each row, by reason and host; or show or write the rows themselves.

    It also works on the destination of a run that failed or is going on.
    """
    from flows.outcomes import list_rows, show_counts, write_rows  # noqa: PLC0415 - its libraries take a second

    if to is not None:
        write_rows(make_console(), destination, failed=failed, reasons=reasons, to=to)
    elif failed or reasons:
        list_rows(make_console(), destination, failed=failed, reasons=reasons, limit=limit)
    else:
        show_counts(make_console(), destination)


@commands.command("retry-failed")
@click.argument("destination")
@_options(RunOptions, but=["destination"])
def retry_failed(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Try rows again whose failure may have passed; what they give is added as a new generation."""
    options = parse(RunOptions, _given(values))
    _say(f"reading the outcomes of {options.destination}")
    from flows.session import run_flow  # noqa: PLC0415 - its libraries take a second

    run_flow("flows.retry:retry_failed", options)


@commands.command()
@click.argument("destination")
@_options(RunOptions, but=["destination"])
def repair(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Look a data set over, and make its bad chunks again from their own rows; sound ones are left alone."""
    options = parse(RunOptions, _given(values))
    _say(f"reading every chunk of {options.destination}")
    from flows.session import run_flow  # noqa: PLC0415 - its libraries take a second

    run_flow("flows.repair:repair", options)


@commands.command()
@click.argument("destination")
@_stored
def history(destination: str) -> None:
    """List the generations of a data set: what made them, rows, chunks, bytes, sources, when."""
    from flows.upkeep import show_history  # noqa: PLC0415 - its libraries take a second

    show_history(make_console(), destination)


@commands.command()
@click.argument("destination")
@click.argument("generation", type=int)
@_stored
def rollback(destination: str, generation: int) -> None:
    """Publish an earlier GENERATION once more, as a new one; nothing is fetched, nothing removed."""
    from flows.upkeep import roll_back_to  # noqa: PLC0415 - see above

    roll_back_to(make_console(), destination, generation)


@commands.command()
@click.argument("destination")
@click.option("--older-than", default="1d", show_default=True, help="Spare what is younger: 90s, 15m, 12h, 7d.")
@click.option("--unfinished", is_flag=True, help="Also give up a run that was not finished.")
@click.option("--old-generations", is_flag=True, help="Also remove states before the current one, and their chunks.")
@click.option("--dry-run", is_flag=True, help="Only name what would be removed.")
@_stored
def sweep(destination: str, *, older_than: str, unfinished: bool, old_generations: bool, dry_run: bool) -> None:
    """Remove what no published state needs: files of attempts that lost, and of runs that were killed."""
    from evenshard.core.spans import parse_span  # noqa: PLC0415 - see above
    from evenshard.sweep import Sweep  # noqa: PLC0415
    from flows import upkeep  # noqa: PLC0415

    before = time.time() - parse_span(older_than, option="older_than")
    wanted = Sweep(before=before, unfinished=unfinished, old_generations=old_generations)
    upkeep.sweep(make_console(), destination, wanted, dry_run=dry_run)


@commands.command()
@click.argument("directory", default="evenshard-demo")
def demo(directory: str) -> None:
    """Draw pictures, serve them on this machine, and ingest them into DIRECTORY; needs no network."""
    _say(f"drawing pictures in {directory}")
    from flows.demo import run_demo  # noqa: PLC0415 - see above

    run_demo(Path(directory))


def _preparation(options: IngestOptions | TextOptions, sources: str) -> Callable[[], bool]:
    """Give what looks for work while Prefect starts, and says whether there is any."""

    def prepare() -> bool:
        work = _find_work(options)
        for path in work.gone:
            _say(f"{path} is gone; the samples made from it stay")
        if work.plan is None and work.is_half_published:
            return True
        if work.plan is None:
            _say("nothing is new: all of the source is in the data set")
            return False
        plan = work.plan
        rows = "members" if plan.recipe.is_of_members else "rows"
        _say(f"{plan.num_rows:,} {rows} of {len(plan.sources):,} {sources}, in {plan.num_slices:,} slices")
        return True

    return prepare if options.on_busy == "go" else lambda: True  # what is there will change


def _plan(options: PlanOptions) -> Plan:
    from evenshard.planning import make_plan  # noqa: PLC0415 - see above

    return make_plan(options.source, options.request())


def _find_work(options: IngestOptions | TextOptions) -> Work:
    from evenshard.stores import open_store  # noqa: PLC0415
    from evenshard.work import find_work  # noqa: PLC0415 - see above

    return find_work(options.source, options.request(), open_store(options.destination))


def _say(message: str) -> None:
    click.echo(f"evenshard: {printable(message)}")


if __name__ == "__main__":
    main()
