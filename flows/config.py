"""Parameters of the flows, parsed once at the door; and the only reader of the environment."""

from __future__ import annotations

import inspect
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenshard.core.errors import OptionError
from evenshard.core.recipe import Encode, ImageOptions, Resize
from evenshard.core.sizes import parse_bytes
from evenshard.core.world import Remainder, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenshard.planning import Request
    from evenshard.slices import RunSettings

_Options = TypeVar("_Options", bound=BaseModel)
_Result = TypeVar("_Result")

DEFAULTS: Final = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",  # nobody is told what you run
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",  # its own 20 s are too short for a first start
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",  # halves its CPU per task
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
}
"""Prefect's settings that a run needs; whatever is set already is left alone."""


def prepare_environment() -> None:
    """Set what Prefect should find when it is first imported."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def quiet_prefect() -> None:
    """Keep Prefect's own lines off the terminal; its API still gets them."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")


def api_url() -> str | None:
    """Give the address of the Prefect server to use, or None to start one for the run.

    It is set in the environment, or in the active profile, as `prefect config set` and `prefect cloud login`
    do. The profile is read here, since Prefect takes seconds to import, and a server can start meanwhile.
    """
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()
    try:
        profiles = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        profiles = {}
    active = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
    profile = profiles.get("profiles", {}).get(active, {})
    return os.environ.get("PREFECT_API_URL") or profile.get("PREFECT_API_URL") or None


def server_environment() -> dict[str, str]:
    """Give the environment of a server of a run's own: without the page that nobody can look at in time."""
    return {**os.environ, "PREFECT_SERVER_UI_ENABLED": "false"}


def use_api(url: str) -> None:
    """Have Prefect use this server; to be called before its first import."""
    os.environ["PREFECT_API_URL"] = url


def num_cores() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PlanOptions(BaseModel):
    """What decides the output."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(description="Parquet file, folder of them, or quoted glob pattern.")
    nodes: int = Field(default=1, ge=1, description="Machines that share the rows.")
    workers_per_node: int = Field(default=1, ge=1, description="Workers on each of them.")
    rows_per_slice: int = Field(default=2048, ge=1, description="Rows that are done, and redone, together at most.")
    remainder: Remainder = Field(
        default=Remainder.SPREAD,
        description="Rows that cannot be shared equally: spread (ranks differ by one row) or drop (and name them).",
    )
    transform: str = Field(
        default="images",
        description="images, rows (the table's rows as they are), or package.module:callable taking a DataFrame.",
    )
    url_column: str = Field(default="url", description="Column of links.")
    caption_column: str | None = Field(
        default=None, description="Column of captions; none are stored without it. A missing caption is stored empty."
    )
    columns: list[str] | None = Field(
        default=None, description="More columns to store (images), or those to read (other transforms; all by default)."
    )
    image_size: int = Field(default=224, ge=1, le=16_384, description="Pixels of the side that --resize speaks of.")
    resize: Resize = Field(
        default=Resize.SQUASH,
        description="squash to a square, crop its middle, pad to one, keep the shape, or none.",
    )
    encode: Encode = Field(default=Encode.JPEG, description="Format that pictures are stored in.")
    quality: int = Field(default=90, ge=1, le=100, description="Quality of JPEG and WebP.")
    chunk_bytes: str = Field(default="64MB", description="Size that a chunk does not pass; MB is 10^6, MiB 2^20.")

    def request(self) -> Request:
        """Give the engine's own form of it."""
        from evenshard.planning import Request  # noqa: PLC0415 - its libraries take a second; --help must not wait

        return Request(
            transform=self.transform,
            url_column=self.url_column,
            caption_column=self.caption_column,
            columns=None if self.columns is None else tuple(self.columns),
            image=ImageOptions(size_px=self.image_size, resize=self.resize, encode=self.encode, quality=self.quality),
            chunk_bytes=parse_bytes(self.chunk_bytes, option="chunk_bytes"),
            world=World(num_nodes=self.nodes, workers_per_node=self.workers_per_node),
            rows_per_slice=self.rows_per_slice,
            remainder=self.remainder,
        )


class IngestOptions(PlanOptions):
    """What decides the output, and how the run is done."""

    destination: str = Field(description="Folder that the data set is written to; new, empty, or of a run to finish.")
    concurrency: int = Field(default=32, ge=1, le=1024, description="Requests in flight per process.")
    timeout: float = Field(
        default=10.0, ge=0.05, le=3600, description="Seconds for one whole answer, redirects included."
    )
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts at a link whose failure may pass.")
    engine: Literal["auto", "threads", "processes"] = Field(
        default="auto", description="What runs the slices; auto is processes on more than one core, else threads."
    )
    engine_workers: int | None = Field(
        default=None, ge=1, le=1024, description="Slices that run at once; as many as cores by default."
    )
    max_failure_rate: float = Field(
        default=1.0, ge=0, le=1, description="Share of rows that may fail; with more, nothing is published."
    )

    def settings(self) -> RunSettings:
        """Give the engine's own form of how the run is done."""
        from evenshard.adapters.fetch import FetchOptions  # noqa: PLC0415 - see above
        from evenshard.slices import RunSettings  # noqa: PLC0415

        fetch = FetchOptions(concurrency=self.concurrency, timeout_seconds=self.timeout, attempts=self.attempts)
        return RunSettings(destination=absolute(self.destination), fetch=fetch)

    def num_workers(self) -> int:
        """Say how many slices run at once."""
        return self.engine_workers or num_cores()

    def engine_name(self) -> str:
        """Settle what runs the slices."""
        return self.engine if self.engine != "auto" else "processes" if num_cores() > 1 else "threads"


def absolute(address: str) -> str:
    """Give a folder's address that holds wherever a worker stands; other addresses as they are."""
    return address if "://" in address or "\0" in address else os.path.abspath(address)  # noqa: PTH100 - no links followed


def parse(model: type[_Options], values: dict[str, Any]) -> _Options:
    """Check options as a person gave them.

    Raises:
        OptionError: the first wrong one, in one line.
    """
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "options"
        problem = f"{first['msg'].lower()}, not {first['input']!r}" if "input" in first else first["msg"]
        raise OptionError(name, problem) from None


def takes(model: type[_Options]) -> Callable[[Callable[[_Options], _Result]], Callable[..., _Result]]:
    """Give a function the fields of a model as its flat parameters, and their descriptions.

    So that a deployment's override of one parameter replaces that one alone, Prefect's form shows each
    with its description, and each is written down once.

    Args:
        model: options; the function gets one instance of it.
    """
    fields = model.model_fields
    ordered = sorted(fields, key=lambda name: not fields[name].is_required())
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if fields[name].is_required() else fields[name].get_default(),
            annotation=fields[name].rebuild_annotation(),
        )
        for name in ordered
    ]
    described = "\n".join(f"    {name}: {fields[name].description}" for name in ordered)

    def decorate(function: Callable[[_Options], _Result]) -> Callable[..., _Result]:
        def flat(*args: Any, **kwargs: Any) -> _Result:  # noqa: ANN401 - checked by the model
            bound = signature.bind(*args, **kwargs)
            return function(parse(model, bound.arguments))

        signature = inspect.Signature(parameters, return_annotation=inspect.signature(function).return_annotation)
        for name in ("__module__", "__name__", "__qualname__"):
            setattr(flat, name, getattr(function, name))
        flat.__doc__ = f"{function.__doc__}\n\nArgs:\n{described}\n"
        vars(flat)["__signature__"] = signature  # what inspect.signature gives
        return flat

    return decorate
