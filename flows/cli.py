"""The command line `evenshard`: ingest, plan, verify, demo.

Exit codes: 0 done; 1 the run failed, nothing was published; 2 asked for what cannot be done, nothing was
written; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evenshard.core.errors import EvenshardError, OptionError, UsageError
from flows.config import IngestOptions, PlanOptions, parse
from flows.console import make_console, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from evenshard.core.plan import Plan

FAILED: Final = 1
MISUSED: Final = 2
STOPPED: Final = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end with its exit code; errors that are the caller's to mend take one line."""
    sys.path.append(str(Path.cwd()))  # --transform finds modules beside the caller, which stand in for nobody else's
    try:
        commands(
            args=list(sys.argv[1:] if arguments is None else arguments), prog_name="evenshard", standalone_mode=False
        )
    except click.ClickException as error:
        _leave(error.format_message(), MISUSED)
    except UsageError as error:
        _leave(_as_typed(error), MISUSED)
    except EvenshardError as error:
        _leave(str(error), FAILED)
    except (KeyboardInterrupt, click.Abort):
        _leave("stopped; a run goes on where it was when the same command is run again", STOPPED)


def _leave(message: str, code: int) -> None:
    click.echo(f"evenshard: {printable(message)}", err=True)
    sys.exit(code)


def _as_typed(error: UsageError) -> str:
    """Name an option as it is typed on the command line."""
    if isinstance(error, OptionError) and error.option not in {"source", "destination"}:
        return f"--{error.option.replace('_', '-')}: {error.problem}"
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
            option = "--" + name.replace("_", "-")
            command = click.option(option, name, default=None, help=f"{field.description}{shown}")(command)
        return command

    return decorate


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Keep what was typed; a list is typed with commas."""
    given = {name: value for name, value in values.items() if value is not None}
    if "columns" in given:
        given["columns"] = [name.strip() for name in given["columns"].split(",") if name.strip()]
    return given


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="evenshard")
def commands() -> None:
    """Turn tables of links into verified, training-ready chunk data sets."""


@commands.command()
@click.argument("source")
@click.argument("destination")
@_options(IngestOptions, but=["source", "destination"])
def ingest(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Fetch the links of SOURCE and write a chunk data set to DESTINATION.

    SOURCE is a Parquet file, a folder of them, or a quoted glob pattern.
    """
    options = parse(IngestOptions, _given(values))
    _say(f"reading the footers of {options.source}")
    from flows.session import run_ingest  # noqa: PLC0415 - its libraries take a second; say something first

    def prepare() -> None:
        plan = _plan(options, destination=options.destination)
        _say(f"{plan.num_rows:,} rows of {len(plan.sources):,} files, in {plan.num_slices:,} slices")

    run_ingest(options, prepare)


@commands.command()
@click.argument("source")
@_options(PlanOptions, but=["source"])
def plan(**values: Any) -> None:  # noqa: ANN401 - checked by the model
    """Show what an ingestion of SOURCE would do; asks nothing of the web, writes nothing."""
    options = parse(PlanOptions, _given(values))
    _say(f"reading the footers of {options.source}")
    made = _plan(options)
    from flows.tables import show_plan  # noqa: PLC0415 - see above

    show_plan(make_console(), made)


@commands.command()
@click.argument("destination")
def verify(destination: str) -> None:
    """Check a published data set: every byte of every chunk, and that all counts agree."""
    _say(f"reading every chunk of {destination}")
    from evenshard.core.errors import ObjectMissingError  # noqa: PLC0415
    from evenshard.stores import open_store  # noqa: PLC0415
    from evenshard.verification import verify as check  # noqa: PLC0415
    from flows.tables import show_set  # noqa: PLC0415

    try:
        manifest = check(open_store(destination))
    except ObjectMissingError as error:
        raise UsageError(f"{destination} holds no published data set: {error}") from error
    show_set(make_console(), manifest, destination=destination)


@commands.command()
@click.argument("directory", default="evenshard-demo")
def demo(directory: str) -> None:
    """Draw pictures, serve them on this machine, and ingest them into DIRECTORY; needs no network."""
    _say(f"drawing pictures in {directory}")
    from flows.demo import run_demo  # noqa: PLC0415 - see above

    run_demo(Path(directory))


def _plan(options: PlanOptions, *, destination: str | None = None) -> Plan:
    from evenshard.destination import check  # noqa: PLC0415
    from evenshard.planning import make_plan  # noqa: PLC0415
    from evenshard.stores import open_store  # noqa: PLC0415 - see above

    made = make_plan(options.source, options.request())
    if destination is not None:
        check(open_store(destination), made)
    return made


def _say(message: str) -> None:
    click.echo(f"evenshard: {printable(message)}")


if __name__ == "__main__":
    main()
