"""The demo: pictures drawn, served on this machine with the faults of the web, ingested and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import polars as pl

from evenshard.core.errors import DestinationError
from evenshard.inspection import verify
from evenshard.stores import open_store
from flows.config import IngestOptions
from flows.demo_pages import TIMEOUT_SECONDS, draw_pages
from flows.demo_web import served
from flows.session import run_ingest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NUM_PICTURES: Final = 400
FILE_ROWS: Final = (10, 55, 120, 215)
"""Four uneven files; together as many rows as pictures."""
WORDS: Final = ("ein Käse", "una manzana", "赤い車", "a dog", "кот", "un café", "ένα δέντρο", "a house")


def run_demo(folder: Path) -> None:
    """Draw, serve, ingest and verify, and say where everything is.

    Raises:
        DestinationError: the folder is in use.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DestinationError(f"{folder} is in use; remove it, or name another: evenshard demo NAME")
    pages = draw_pages(NUM_PICTURES)
    table, destination = folder / "table", folder / "dataset"
    with served(pages) as address:
        write_tables(table, [f"{address}{path}" for path in pages])
        click.echo(f"evenshard: {NUM_PICTURES} links in {len(FILE_ROWS)} Parquet files, served at {address}")
        options = IngestOptions(
            source=str(table),
            destination=str(destination),
            workers_per_node=2,
            rows_per_slice=50,
            caption_column="caption",
            columns=["number"],
            timeout=TIMEOUT_SECONDS,
            attempts=2,
            allow_hosts=["127.0.0.1"],
        )
        run_ingest(options)
    verify(open_store(str(destination)))
    click.echo("evenshard: verified: every byte of every chunk is what was signed for")
    for what, where in (("table", table), ("data set", destination), ("index", destination / "index.json")):
        click.echo(f"evenshard: {what}: {where}")


def write_tables(folder: Path, links: Sequence[str]) -> None:
    """Write the links with their captions as four uneven Parquet files."""
    folder.mkdir(parents=True)
    numbers = range(len(links))
    captions = [f"{WORDS[number % len(WORDS)]}, picture {number}" for number in numbers]
    table = pl.DataFrame({"number": numbers, "url": links, "caption": captions})
    start = 0
    for part, rows in enumerate(FILE_ROWS):
        table[start : start + rows].write_parquet(folder / f"part-{part}.parquet", row_group_size=40)
        start += rows
