"""Published sets, as tests look at them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from evenshard import ChunkReader
from evenshard.adapters.fetch import FetchOptions
from evenshard.adapters.local_store import LocalStore
from evenshard.adapters.outcomes import read_outcomes
from evenshard.clients import Clients
from evenshard.core.address import OpenHosts
from evenshard.core.layout import OUTCOMES
from evenshard.destination import claim
from evenshard.planning import make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.worker import SliceWorker

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from evenshard.core.manifest import Manifest
    from evenshard.core.store import Store
    from evenshard.planning import Request


def read_set(place: Path | Store) -> list[dict[str, Any]]:
    """Read all samples of a published set, by its manifest, in order, as dicts."""
    reader = ChunkReader(place)
    return [sample if isinstance(sample, dict) else dict(zip(reader.fields, sample, strict=True)) for sample in reader]


def _opened(place: Path | Store) -> Store:
    return LocalStore(place) if isinstance(place, str | os.PathLike) else place


def publish_table(source: Path, destination: Path, request: Request, **fetch: Any) -> Manifest:  # noqa: ANN401
    """Do all slices of a table in this thread, with links to this machine open, and publish.

    Args:
        source: the table.
        destination: a new folder.
        request: what is wanted.
        fetch: how the web is asked, as `FetchOptions` has it.
    """
    plan, store = make_plan(str(source), request), LocalStore(destination)
    claim(store, plan)
    options = FetchOptions(**{"open_hosts": OpenHosts.parse(["127.0.0.1"]), **fetch})
    settings, fingerprint = RunSettings(destination=str(destination), fetch=options), plan.fingerprint
    with Clients() as clients:
        worker = SliceWorker(clients)
        for index in range(plan.num_slices):
            worker.run(make_job(plan, index, settings, fingerprint=fingerprint), lambda _: None)
    return publish(plan, store)


def outcomes_of(folder: Path) -> list[dict[str, Any]]:
    """Read the outcomes of all slices, in row order."""
    store = LocalStore(folder)
    frames: list[pl.DataFrame] = [read_outcomes(store.read(name)) for name in store.names(OUTCOMES)]
    return [row for frame in frames for row in frame.iter_rows(named=True)]


def published_bytes(place: Path | Store) -> dict[str, bytes]:
    """Give every published file by name; times are taken out of the manifest."""
    store = _opened(place)
    names = ["index.json", *(name for name in store.names() if name.startswith(("chunk-", OUTCOMES)))]
    manifest = json.loads(store.read("manifest.json"))
    del manifest["published_at"]
    return {**{name: store.read(name) for name in names}, "manifest.json": json.dumps(manifest).encode()}
