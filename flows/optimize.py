"""`optimize`: a callable of one's own over Parquet files, called from a program as its users know it."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import cloudpickle
from prefect import flow

from evenshard.adapters.s3_settings import reaching_s3
from evenshard.core.errors import OptionError
from evenshard.core.plan import Mode
from evenshard.core.sizes import parse_bytes
from evenshard.core.world import World
from evenshard.planning import Request
from evenshard.source_access import logins_of
from flows.config import IngestOptions, parse
from flows.ingest import run
from flows.results import summary

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
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output_dir: str | os.PathLike[str],
    *,
    num_workers: int | None = 1,
    reader: ParquetReader | None = None,
    chunk_bytes: str | int = "64MB",
    allow_hosts: Sequence[str] | None = None,
    mode: Literal["create", "append", "overwrite"] = "create",
    on_bad_file: Literal["fail", "skip"] = "fail",
    engine: str = "processes",
    engine_address: str | None = None,
) -> dict[str, Any]:
    """Give the rows of Parquet files to a callable, and store what it yields as a verified chunk data set.

    It runs as a Prefect flow with a worker process per worker; each has a copy of the callable, its state
    included. What the main program does beside defining the callable is not done again in the workers.

    Args:
        fn: takes a frame of at most `reader.num_rows` rows, yields at most one sample for each.
        inputs: Parquet files, in the order that their rows shall have; or one, or what else a source can be.
        output_dir: a new or empty folder.
        num_workers: workers that share the rows, 1 or more; None is 1.
        reader: how the files are cut.
        chunk_bytes: size that a chunk does not pass.
        allow_hosts: hosts that `download_image_with_retry` may ask though they are not public; those of
            the environment's EVENSHARD_ALLOW_HOSTS by default.
        mode: create a data set, append what is new in `inputs` to one, or overwrite one.
        on_bad_file: fail, naming all files that cannot be read, or skip and record them.
        engine: what runs it: processes, dask or ray.
        engine_address: of a cluster of dask or ray; `num_workers` slices run there at once.

    Returns:
        What was published, as the flow `ingest` gives it.

    Raises:
        UsageError: it cannot be done as asked; nothing is written.
        EvenshardError: the run failed; nothing is published.
    """
    files = _files_in(inputs)
    if not callable(fn):
        raise OptionError("fn", f"{fn!r:.80} cannot be called; give a function of a polars DataFrame")
    reader, num_workers = reader or ParquetReader(), 1 if num_workers is None else num_workers
    kind = fn if inspect.isfunction(fn) or inspect.isclass(fn) else type(fn)
    destination = os.fspath(output_dir)
    given: dict[str, Any] = {"mode": mode, "on_bad_file": on_bad_file}
    given |= {"engine": engine, "engine_address": engine_address, "engine_workers": num_workers}
    given |= {} if allow_hosts is None else {"allow_hosts": list(allow_hosts)}
    options = parse(IngestOptions, {"source": destination, "destination": destination, **given})
    request = Request(
        transform=f"{kind.__module__}:{kind.__qualname__}",
        given=fn,
        chunk_bytes=parse_bytes(chunk_bytes, option="chunk_bytes"),
        world=World(workers_per_node=num_workers),
        rows_per_slice=reader.num_rows,
        mode=Mode(options.mode),
        on_bad_file=options.on_bad_file,
    )
    settings = replace(options.settings(), transform=cloudpickle.dumps(fn), logins=logins_of(files))

    @flow(name="optimize", flow_run_name="optimize-{destination}")
    def optimize_files(destination: str) -> dict[str, Any]:  # noqa: ARG001 - shown in the run's name
        with reaching_s3(settings.s3):
            return summary(run(files, request, settings, options))

    return optimize_files(destination)


def _files_in(inputs: object) -> list[str]:
    """Take one path, or several; a text is a path, and not the letters of it."""
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    try:
        return [os.fsdecode(path) for path in cast("Iterable[Any]", inputs)]
    except TypeError as error:
        raise OptionError("inputs", f"{inputs!r:.80} is no list of paths: {error}") from None
