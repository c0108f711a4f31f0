"""The demo: pictures drawn, served on this machine with the faults of the web, ingested and verified."""

from __future__ import annotations

import io
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

import click
import polars as pl
from PIL import Image, ImageDraw

from evenshard.core.errors import DestinationError
from evenshard.stores import open_store
from evenshard.verification import verify
from flows.config import IngestOptions
from flows.session import run_ingest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NUM_PICTURES: Final = 400
FILE_ROWS: Final = (10, 55, 120, 215)
"""Four uneven files; together as many rows as pictures."""
TIMEOUT_SECONDS: Final = 2.0
WORDS: Final = ("ein Käse", "una manzana", "赤い車", "a dog", "кот", "un café", "ένα δέντρο", "a house")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # its own five are fewer than a client's connections at once, and the rest are dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the demo's server answers at one path.

    Args:
        body: what it sends.
        busy: how many times it answers 503 before.
        seconds: how long it waits before it answers.
        status: what it answers in the end.
    """

    body: bytes
    busy: int = 0
    seconds: float = 0.0
    status: int = 200


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
        )
        run_ingest(options)
    verify(open_store(str(destination)))
    click.echo("evenshard: verified: every byte of every chunk is what was signed for")
    for what, where in (("table", table), ("data set", destination), ("index", destination / "index.json")):
        click.echo(f"evenshard: {what}: {where}")


def draw_pages(count: int) -> dict[str, Page]:
    """Draw what the server serves, by path: pictures of many kinds, and some faults."""
    rng = random.Random(20)  # noqa: S311 - the same pictures each time
    pages = {f"/{number:03d}": Page(body=_picture(rng, number)) for number in range(count)}
    body = {number: pages[f"/{number:03d}"].body for number in range(count)}
    faults = {
        40: Page(body=b"gone", status=404),
        41: Page(body=body[41][: len(body[41]) // 2]),
        42: Page(body=b"<!doctype html><title>Sign in</title><p>Please sign in to see this picture.</p>"),
        44: Page(body=body[44], seconds=3 * TIMEOUT_SECONDS),
        **{number: Page(body=b"gone", status=404) for number in range(60, count, 70)},
        **{number: Page(body=body[number], busy=1) for number in range(7, count, 50)},
    }
    return pages | {f"/{number:03d}": page for number, page in faults.items()}


def _picture(rng: random.Random, number: int) -> bytes:
    """Draw one picture; the number decides its kind, so that every kind is there."""
    size = (rng.randint(80, 640), rng.randint(80, 480))
    image = Image.new("RGB", size, _colour(rng))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randint(4, 12)):
        x, y, radius = rng.randrange(size[0]), rng.randrange(size[1]), rng.randint(5, 120)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(rng))
    match number % 10:
        case 1:
            image.putalpha(Image.linear_gradient("L").resize(size))
            return _saved(image, "PNG")
        case 2:
            return _saved(image, "WEBP", quality=80)
        case 3:
            return _saved(image.convert("CMYK"), "JPEG")
        case 4:
            exif = Image.Exif()
            exif[0x0112] = rng.randint(2, 8)  # the EXIF tag of orientation
            return _saved(image, "JPEG", exif=exif.tobytes())
        case 5:
            return _saved(image.quantize(32), "PNG")
    return _saved(image, "JPEG", quality=rng.choice([75, 85, 92]), progressive=number % 4 == 0)


def _colour(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


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


@contextmanager
def served(pages: dict[str, Page]) -> Iterator[str]:
    """Serve pages on loopback for the block; gives the server's address."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = pages[self.path]
            asked[self.path] += 1
            time.sleep(page.seconds)
            busy = asked[self.path] <= page.busy
            status, body = (503, b"busy") if busy else (page.status, page.body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # a client that waited no longer
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
