"""Passes of the loaders over a grid of workers, each a program of its own, and the file that their times go to."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from evenshard.chunk_loader import is_of_texts
from evenshard.chunk_reader import ChunkReader
from evenshard.core.errors import ObjectMissingError, OptionError, PassError, StoreError
from evenshard.core.timing import Kind, Pass
from evenshard.text_planning import find_archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

COLUMNS: Final = tuple(field.name for field in fields(Pass))
TIMINGS: Final = "timings.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One pass to come.

    Args:
        kind: what is read.
        source: where it is.
        num_workers: given to the loader.
        repeat: which pass over the grid it belongs to, from 1; 0 is one to warm up, whose time counts for nothing.
        num_samples: at most.
        prefetch: given to the loader.
        buffer_size: of the shuffle behind it; 0 leaves it out.
    """

    kind: Kind
    source: str
    num_workers: int
    repeat: int
    num_samples: int
    prefetch: int
    buffer_size: int

    @property
    def arguments(self) -> list[str]:
        """Its command."""
        given = {"--workers": self.num_workers, "--samples": self.num_samples, "--prefetch": self.prefetch}
        given["--buffer"] = self.buffer_size
        options = [text for name, value in given.items() for text in (name, str(value))]
        return [sys.executable, "-P", "-m", "evenshard.load", *options, "--", self.kind, self.source]


def plan_passes(  # noqa: PLR0913 - they are the grid
    sources: Sequence[tuple[Kind, str]],
    *,
    workers: Sequence[int],
    repeats: int,
    warm_ups: int,
    num_samples: int,
    prefetch: int,
    buffer_size: int,
) -> list[PlannedPass]:
    """Put passes in order: first those to warm up, then the whole grid again and again.

    A machine that grows slower meanwhile so does it to all points of the grid, and not to the last ones.
    """
    most = max(workers)  # as many readers as there will be warm the most up
    rounds = [(0, [most])] * warm_ups + [(repeat, list(workers)) for repeat in range(1, repeats + 1)]
    return [
        PlannedPass(
            kind=kind,
            source=source,
            num_workers=number,
            repeat=repeat,
            num_samples=num_samples,
            prefetch=prefetch,
            buffer_size=buffer_size,
        )
        for repeat, numbers in rounds
        for kind, source in sources
        for number in numbers
    ]


def check_sources(sources: Sequence[tuple[Kind, str]]) -> None:
    """Look whether all that is to be read is there.

    Raises:
        OptionError: it is not, or is of another kind.
    """
    for kind, source in sources:
        _check(kind, source)


def _check(kind: Kind, source: str) -> None:
    if kind is Kind.ARCHIVES:
        find_archives(source)
        return
    try:
        schema = ChunkReader(source).schema
    except ObjectMissingError as error:
        raise OptionError("chunks", f"{source} holds no published data set; `evenshard text` makes one") from error
    except StoreError as error:
        raise OptionError("chunks", str(error)) from error
    if schema is None or not is_of_texts(schema):
        raise OptionError("chunks", f"{source} is not of texts; give a set that `evenshard text` made")


def run_pass(planned: PlannedPass) -> Pass:
    """Do a pass in a process of its own, to its end.

    Raises:
        PassError: it failed, or found no sample.
    """
    start = time.perf_counter()
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    done = subprocess.run(planned.arguments, check=False, **pipes)  # noqa: S603 - this Python, and no shell
    elapsed = time.perf_counter() - start
    command = shlex.join(planned.arguments)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode} and said nothing"]
        raise PassError(command, lines[-1].removeprefix("evenshard: "))
    measured: dict[str, Any] = json.loads(done.stdout)
    if not measured["num_samples"]:
        raise PassError(command, f"{planned.source} holds no sample")
    return Pass(
        num_workers=planned.num_workers,
        elapsed_seconds=elapsed,
        command=command,
        kind=planned.kind,
        repeat=planned.repeat,
        **measured,
    )


@contextmanager
def timings_file(folder: Path) -> Iterator[Callable[[Pass], None]]:
    """Make a folder's `timings.csv`; gives what writes a pass to it, at once, so that a kill loses none.

    Raises:
        OptionError: there is one already, or it cannot be written.
    """
    path = folder / TIMINGS
    check_out(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise OptionError("out", f"{path} cannot be written: {error.strerror}") from error
    with file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)

        def write(each: Pass) -> None:
            writer.writerow([_cell(getattr(each, name)) for name in COLUMNS])
            file.flush()

        yield write


def check_out(folder: Path) -> None:
    """Look whether a folder may take the times.

    Raises:
        OptionError: it holds some.
    """
    if (folder / TIMINGS).exists():
        raise OptionError("out", f"{folder / TIMINGS} exists; give another folder, or move it away")


def _cell(value: Any) -> Any:  # noqa: ANN401 - of any column
    return f"{value:.4f}" if isinstance(value, float) else value
