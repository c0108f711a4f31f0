"""The upkeep of a data set, as a person asks for it: its history, rolling back, sweeping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.core.errors import ObjectMissingError, UsageError
from evenshard.core.sizes import format_bytes
from evenshard.generations import find_current, list_generations, read_generation
from evenshard.rollback import roll_back
from evenshard.stores import open_store
from evenshard.sweep import find_litter
from flows.console import printable
from flows.tables import make_table, show_set

if TYPE_CHECKING:
    from rich.console import Console

    from evenshard.core.manifest import Manifest
    from evenshard.sweep import Sweep


def show_history(console: Console, destination: str) -> None:
    """Print all generations that are kept."""
    store = open_store(destination)
    current = find_current(store)
    if current is None:
        raise UsageError(f"{destination} holds no published data set")
    table = make_table("", "generation", "made by", "rows", "stored", "chunks", "bytes", "sources", "published")
    for number in list_generations(store):
        manifest = read_generation(store, number)
        mark = "*" if number == current.generation else ""
        table.add_row(
            mark, str(number), manifest.made_by.value, *_figures(manifest), manifest.published_at[:16].replace("T", " ")
        )
    console.print(table)


def _figures(manifest: Manifest) -> tuple[str, ...]:
    sources = {source.path for part in manifest.parts for source in part.plan.sources}
    counts = manifest.counts
    size = format_bytes(manifest.num_bytes)
    return f"{counts.planned:,}", f"{counts.stored:,}", f"{len(manifest.chunks):,}", size, f"{len(sources):,}"


def roll_back_to(console: Console, destination: str, generation: int) -> None:
    """Publish an earlier generation once more."""
    manifest = roll_back(open_store(destination), generation)
    show_set(console, manifest, destination=destination)


def sweep(console: Console, destination: str, wanted: Sweep, *, dry_run: bool = False) -> None:
    """Remove what nothing needs, and say what it was."""
    store = open_store(destination)
    try:
        litter = find_litter(store, wanted)
    except ObjectMissingError as error:
        raise UsageError(f"{destination}: {error.problem}") from error
    for entry in litter:
        if dry_run:
            console.print(printable(entry.name))
        else:
            store.delete(entry.name)
    num_parts = 0 if dry_run else store.delete_unfinished(before=wanted.before)
    done = "would be removed" if dry_run else "removed"
    size = format_bytes(sum(entry.num_bytes for entry in litter))
    console.print(f"evenshard: {len(litter):,} objects ({size}) and {num_parts:,} half-written files {done}")
