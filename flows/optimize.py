"""`optimize`: a callable of one's own over Parquet files, called from a program as its users know it."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle
from prefect import flow

from evenshard.core.errors import OptionError
from evenshard.core.sizes import parse_bytes
from evenshard.core.world import World
from evenshard.planning import Request
from evenshard.slices import RunSettings
from flows.config import IngestOptions, absolute
from flows.ingest import run, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader:
    """How the files are cut.

    Args:
        num_rows: rows that the callable gets at once at most, and that are redone together.
        to_pandas: False; the callable gets polars frames.
    """

    num_rows: int = 2048
    to_pandas: bool = False

    def __post_init__(self) -> None:
        """Refuse what is not there."""
        if self.to_pandas:
            raise OptionError("to_pandas", "only polars frames are given; call .to_pandas() in the callable")


def optimize(  # noqa: PLR0913 - the call that its users know
    fn: Callable[[pl.DataFrame], Iterable[object]],
    inputs: Sequence[str | os.PathLike[str]],
    output_dir: str | os.PathLike[str],
    *,
    num_workers: int | None = 1,
    reader: ParquetReader | None = None,
    chunk_bytes: str | int = "64MB",
) -> dict[str, Any]:
    """Give the rows of Parquet files to a callable, and store what it yields as a verified chunk data set.

    It runs as a Prefect flow with a worker process per worker; each has a copy of the callable, its state
    included. What the main program does beside defining the callable is not done again in the workers.

    Args:
        fn: takes a frame of at most `reader.num_rows` rows, yields at most one sample for each.
        inputs: Parquet files, in the order that their rows shall have.
        output_dir: a new or empty folder.
        num_workers: workers that share the rows, 1 or more; None is 1.
        reader: how the files are cut.
        chunk_bytes: size that a chunk does not pass.

    Returns:
        What was published, as the flow `ingest` gives it.

    Raises:
        UsageError: it cannot be done as asked; nothing is written.
        EvenshardError: the run failed; nothing is published.
    """
    reader, num_workers = reader or ParquetReader(), 1 if num_workers is None else num_workers
    kind = fn if inspect.isfunction(fn) or inspect.isclass(fn) else type(fn)
    request = Request(
        transform=f"{kind.__module__}:{kind.__qualname__}",
        given=fn,
        chunk_bytes=parse_bytes(chunk_bytes, option="chunk_bytes"),
        world=World(workers_per_node=num_workers),
        rows_per_slice=reader.num_rows,
    )
    files, destination = [os.fspath(path) for path in inputs], os.fspath(output_dir)
    settings = RunSettings(destination=absolute(destination), transform=cloudpickle.dumps(fn))
    options = IngestOptions(source=destination, destination=destination, engine="processes", engine_workers=num_workers)

    @flow(name="optimize", flow_run_name="optimize-{destination}")
    def optimize_files(destination: str) -> dict[str, Any]:  # noqa: ARG001 - shown in the run's name
        return summary(run(files, request, settings, options))

    return optimize_files(destination)
