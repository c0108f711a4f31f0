"""Published sets, as tests look at them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from evenshard.adapters.litdata import read_samples
from evenshard.adapters.local_store import LocalStore
from evenshard.adapters.outcomes import read_outcomes
from evenshard.core.layout import OUTCOMES
from evenshard.verification import read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def read_set(folder: Path) -> list[dict[str, Any]]:
    """Read all samples of a published set, by its manifest, in order, as dicts."""
    store = LocalStore(folder)
    manifest = read_manifest(store)
    if manifest.schema is None:
        return []
    names = [field.name for field in manifest.schema.fields]
    kinds = [field.kind for field in manifest.schema.fields]
    chunks = (store.read(chunk.name) for chunk in manifest.chunks)
    return [dict(zip(names, values, strict=True)) for data in chunks for values in read_samples(data, kinds)]


def outcomes_of(folder: Path) -> list[dict[str, Any]]:
    """Read the outcomes of all slices, in row order."""
    store = LocalStore(folder)
    frames: list[pl.DataFrame] = [read_outcomes(store.read(name)) for name in store.names(OUTCOMES)]
    return [row for frame in frames for row in frame.iter_rows(named=True)]


def published_bytes(folder: Path) -> dict[str, bytes]:
    """Give every published file by name; times are taken out of the manifest."""
    store = LocalStore(folder)
    names = ["index.json", *(name for name in store.names() if name.startswith(("chunk-", OUTCOMES)))]
    manifest = json.loads(store.read("manifest.json"))
    del manifest["published_at"]
    return {**{name: store.read(name) for name in names}, "manifest.json": json.dumps(manifest).encode()}
