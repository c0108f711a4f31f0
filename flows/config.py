"""Parameters of the flows, parsed once at the door; and the only reader of the environment."""

from __future__ import annotations

import inspect
import os
import secrets
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenshard.core.errors import OptionError
from evenshard.core.plan import Mode, OnChangedSource
from evenshard.core.recipe import TEXTS, Encode, ImageOptions, OnBadFile, Resize
from evenshard.core.s3_place import S3Settings
from evenshard.core.sizes import parse_bytes
from evenshard.core.world import Remainder, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")  # a wait that ends is no error to a person


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


def cluster_environment(*, is_local: bool) -> dict[str, str]:
    """Give the environment of the process that holds a cluster: Ray's daemons and workers get it, too.

    Args:
        is_local: whether the cluster is started there.
    """
    given = {
        "RAY_USAGE_STATS_ENABLED": "0",  # nobody is told what you run
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # workers use what is installed, and fetch nothing
        "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # a head that is gone is noticed in less than Ray's minute
    }
    if is_local:
        given |= {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's own way to listen on loopback only, on Linux as well
            "RAY_AUTH_MODE": "token",  # nobody else on this machine hands it code
            "RAY_AUTH_TOKEN": secrets.token_hex(32),  # of this run; Ray keeps one in the home folder otherwise
        }
    return {**os.environ, **given}


def use_api(url: str) -> None:
    """Have Prefect use this server; to be called before its first import."""
    os.environ["PREFECT_API_URL"] = url


def num_cores() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hosts_allowed_here() -> list[str]:
    """Read which hosts are open on this machine: names between commas."""
    return [name.strip() for name in os.environ.get("EVENSHARD_ALLOW_HOSTS", "").split(",") if name.strip()]


def s3_endpoint_here() -> str | None:
    """Read where S3 is on this machine, as boto3 does, so that workers on other machines find the same."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


class StoreOptions(BaseModel):
    """How S3 is reached; nothing here changes the output. Credentials are those that boto3 finds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint_url: str | None = Field(
        default=None,
        description="Address of the S3 server; that of AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL by default, else AWS.",
    )
    path_style: bool | None = Field(
        default=None,
        description="Name the bucket in the path, not in the host; true by default where an endpoint is given.",
    )

    def s3(self) -> S3Settings:
        """Give the engine's own form of it."""
        return S3Settings(endpoint_url=self.endpoint_url or s3_endpoint_here(), path_style=self.path_style)


class PlanOptions(StoreOptions):
    """What decides the output."""

    source: str = Field(
        description="Parquet file, folder of them, quoted glob pattern, http(s) address of a file, or any in s3://."
    )
    on_bad_file: OnBadFile = Field(
        default=OnBadFile.FAIL,
        description="Files that are no Parquet files, or lack a column: fail (name all), or skip (leave out, record).",
    )
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
    respect_opt_outs: bool = Field(
        default=True,
        description="Leave out pictures whose server says noai, noimageai, noindex or noimageindex (X-Robots-Tag).",
    )
    min_side: int = Field(
        default=0, ge=0, le=2**31, description="Pictures whose short side has fewer pixels are left out."
    )
    max_aspect: float | None = Field(
        default=None, ge=1, allow_inf_nan=False, description="Those whose long side is more times the short one, too."
    )
    min_area: int = Field(default=0, ge=0, le=2**62, description="Those with fewer pixels in all, too.")
    picture_memory: str = Field(
        default="400MB", description="Memory that one picture may need at most; those that may need more fail."
    )
    chunk_bytes: str = Field(default="64MB", description="Size that a chunk does not pass; MB is 10^6, MiB 2^20.")

    def request(self) -> Request:
        """Give the engine's own form of it."""
        from evenshard.planning import Request  # noqa: PLC0415 - its libraries take a second; --help must not wait

        if self.transform == TEXTS:
            raise OptionError("transform", "archives of text are ingested by `evenshard text`")
        return Request(
            transform=self.transform,
            url_column=self.url_column,
            caption_column=self.caption_column,
            columns=None if self.columns is None else tuple(self.columns),
            respect_opt_outs=self.respect_opt_outs,
            image=ImageOptions(
                size_px=self.image_size,
                resize=self.resize,
                encode=self.encode,
                quality=self.quality,
                min_side_px=self.min_side,
                max_aspect=self.max_aspect,
                min_area_px=self.min_area,
                max_working_bytes=parse_bytes(self.picture_memory, option="picture_memory"),
            ),
            chunk_bytes=parse_bytes(self.chunk_bytes, option="chunk_bytes"),
            world=World(num_nodes=self.nodes, workers_per_node=self.workers_per_node),
            rows_per_slice=self.rows_per_slice,
            remainder=self.remainder,
            on_bad_file=self.on_bad_file,
        )


class RunOptions(StoreOptions):
    """How a run is done; nothing here changes the output."""

    destination: str = Field(description="Folder of the data set, or s3://bucket/prefix.")
    concurrency: int = Field(default=32, ge=1, le=1024, description="Requests in flight per process.")
    timeout: float = Field(
        default=10.0, ge=0.05, le=3600, description="Seconds for one whole answer, redirects included."
    )
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts at a link whose failure may pass.")
    per_host: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Requests that one host gets at once, shared out among processes, one for each at least.",
    )
    contact: str = Field(default="", description="Page or mail address that your requests name, for owners of servers.")
    allow_hosts: list[str] | None = Field(
        default=None,
        description="Hosts that links may lead to though they are not public: names, *.name, addresses, networks; "
        "those of EVENSHARD_ALLOW_HOSTS by default.",
    )
    engine: Literal["auto", "threads", "processes", "dask", "ray"] = Field(
        default="auto", description="What runs the slices; auto is processes on more than one core, else threads."
    )
    engine_address: str | None = Field(
        default=None,
        min_length=1,
        description="Cluster of dask (tcp://host:8786) or ray (host:6379, ray://host:10001, auto); by default one is "
        "started here for the run.",
    )
    engine_workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Slices that run at once; as many as cores by default, or all that a cluster at an address can do.",
    )
    on_busy: Literal["go", "wait", "stop"] = Field(
        default="go",
        description="Another run of this Prefect server is at work on the destination: go on (the store lets one "
        "plan win), wait for its end, or stop.",
    )
    max_failure_rate: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of rows that may fail, 0 to 1; with more nothing is published, and the first rows "
        "of the slices stop the run early.",
    )

    def settings(self) -> RunSettings:
        """Give the engine's own form of how the run is done."""
        from evenshard.adapters.fetch import FetchOptions  # noqa: PLC0415 - see above
        from evenshard.core.address import OpenHosts  # noqa: PLC0415
        from evenshard.slices import RunSettings  # noqa: PLC0415

        fetch = FetchOptions(
            concurrency=self.concurrency,
            timeout_seconds=self.timeout,
            attempts=self.attempts,
            per_host=self.per_host,
            contact=self.contact,
            open_hosts=OpenHosts.parse(hosts_allowed_here() if self.allow_hosts is None else self.allow_hosts),
        )
        return RunSettings(destination=absolute(self.destination), fetch=fetch, s3=self.s3())

    def num_workers(self) -> int:
        """Say how many slices run at once."""
        return self.engine_workers or num_cores()

    def engine_name(self) -> str:
        """Settle what runs the slices."""
        return self.engine if self.engine != "auto" else "processes" if num_cores() > 1 else "threads"


class IngestOptions(RunOptions, PlanOptions):
    """What decides the output, and how the run is done."""

    destination: str = Field(
        description="Folder, or s3://bucket/prefix, that the data set is written to; new, empty, or of a run to finish."
    )
    mode: Literal["create", "append", "overwrite"] = Field(
        default="create",
        description="create a data set, append what is new in the source to one, or overwrite one.",
    )
    on_changed_source: OnChangedSource = Field(
        default=OnChangedSource.ERROR,
        description="A file changed since samples were made from it: error, or reingest its rows in place of the old.",
    )

    def request(self) -> Request:
        """Give the engine's own form of what decides the output."""
        return replace(super().request(), mode=Mode(self.mode), on_changed=self.on_changed_source)

    def settings(self) -> RunSettings:
        """Give the engine's own form of how the run is done, logins of the source included."""
        from evenshard.source_access import logins_of  # noqa: PLC0415 - see above

        return replace(super().settings(), logins=logins_of(self.source))


class NodesOptions(IngestOptions):
    """Those of an ingestion by several machines."""

    node_deployment: str = Field(
        default="ingest-node/ingest-node", description="Flow and deployment that each node is a run of."
    )
    node_attempts: int = Field(default=2, ge=1, le=10, description="Runs of a node that crashes, one after another.")
    node_patience: float = Field(
        default=900.0,
        ge=1,
        description="Seconds that a node may neither start nor sign for a slice; then it is given up.",
    )


class NodeOptions(RunOptions):
    """What one node of a plan is told."""

    node: int = Field(ge=0, description="Which node of the plan, from 0.")
    generation: int = Field(ge=1, description="Generation that the plan makes.")
    fingerprint: str = Field(description="The plan's fingerprint; the node does no other plan.")
    source: str = Field(default="", description="What was planned, for the logins that addresses were given with.")

    def settings(self) -> RunSettings:
        """Give the engine's own form of how the run is done, logins of the source included."""
        from evenshard.source_access import logins_of  # noqa: PLC0415 - see above

        return replace(super().settings(), logins=logins_of(self.source) if self.source else ())


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


def takes(
    model: type[_Options], *, but: Sequence[str] = ()
) -> Callable[[Callable[[_Options], _Result]], Callable[..., _Result]]:
    """Give a function the fields of a model as its flat parameters, and their descriptions.

    So that a deployment's override of one parameter replaces that one alone, Prefect's form shows each
    with its description, and each is written down once.

    Args:
        model: options; the function gets one instance of it.
        but: fields that are of no use there, and stay as they are by default.
    """
    fields = {name: field for name, field in model.model_fields.items() if name not in but}
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
