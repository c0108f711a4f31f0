"""Parameters of an ingestion of text archives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from evenshard.core.plan import Mode, OnChangedSource
from evenshard.core.recipe import TEXTS, OnBadFile
from evenshard.core.sizes import parse_bytes
from evenshard.core.world import World
from flows.config import RunOptions

if TYPE_CHECKING:
    from evenshard.planning import Request

OF_THE_WEB: Final = ("concurrency", "timeout", "attempts", "per_host", "contact", "allow_hosts")
"""Options of runs that say nothing where no link is asked for."""


class TextOptions(RunOptions):
    """What decides the output of an ingestion of archives, and how the run is done."""

    source: str = Field(description="Archive (a tar of packed tars of texts), folder of them, or quoted glob pattern.")
    destination: str = Field(
        description="Folder, or s3://bucket/prefix, that the data set is written to; new, empty, or of a run to finish."
    )
    on_bad_file: OnBadFile = Field(
        default=OnBadFile.FAIL,
        description="Archives that are no tars, or are cut: fail (name all), or skip (leave out what is no tar, take "
        "the whole members of the others, and record it).",
    )
    nodes: int = Field(default=1, ge=1, description="Machines that share the members.")
    workers_per_node: int = Field(default=1, ge=1, description="Workers on each of them.")
    members_per_slice: int = Field(
        default=8, ge=1, description="Members of archives that are done, and redone, together at most."
    )
    chunk_bytes: str = Field(default="64MB", description="Size that a chunk does not pass; MB is 10^6, MiB 2^20.")
    mode: Literal["create", "append", "overwrite"] = Field(
        default="create",
        description="create a data set, append what is new in the source to one, or overwrite one.",
    )
    on_changed_source: OnChangedSource = Field(
        default=OnChangedSource.ERROR,
        description="An archive changed since samples were made from it: error, or reingest its members in place of "
        "the old.",
    )

    def request(self) -> Request:
        """Give the engine's own form of what decides the output."""
        from evenshard.planning import Request  # noqa: PLC0415 - its libraries take a second; --help must not wait

        return Request(
            transform=TEXTS,
            chunk_bytes=parse_bytes(self.chunk_bytes, option="chunk_bytes"),
            world=World(num_nodes=self.nodes, workers_per_node=self.workers_per_node),
            rows_per_slice=self.members_per_slice,
            mode=Mode(self.mode),
            on_changed=self.on_changed_source,
            on_bad_file=self.on_bad_file,
        )
