"""Parquet files altered at random, read in a process of its own: `python -m tests.support.mutated FOLDER COUNT SEED`.

Prints how many files ended in which way, as JSON.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import resource
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from evenshard.adapters.at_hand import AtHand, local_source
from evenshard.adapters.footers import read_footers
from evenshard.adapters.parquet import UnreadableError, read_rows
from evenshard.adapters.source_files import SourceFile
from evenshard.core.errors import ColumnError
from evenshard.core.plan import Piece, Source
from evenshard.core.recipe import OnBadFile
from evenshard.planning import Request, _columns

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED = ("url", "row", "score", "word", "data")
MAX_BYTES = 6_000_000_000
"""Address space: a footer that names terabytes must not end the machine."""


def tables() -> Iterator[bytes]:
    """Write small tables in the ways that writers have."""
    columns = {
        "url": [f"http://h.example/{row}.jpg" if row % 7 else None for row in range(60)],
        "row": pa.array(range(60), pa.int64()),
        "score": [row * 0.37 for row in range(60)],
        "good": [row % 2 == 0 for row in range(60)],
        "word": pa.array(["red", "green", None] * 20).dictionary_encode(),
        "data": [bytes([row]) * row for row in range(60)],
        "tags": [[row, row + 1] for row in range(60)],
        "when": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * 60,
    }
    ways: list[dict[str, Any]] = [
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "row_group_size": 20, "data_page_version": "2.0"},
        {"row_group_size": 7, "write_page_checksum": True},
        {"compression": "none", "store_schema": False, "write_page_index": True, "data_page_size": 64},
    ]
    for way in ways:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, **way)
        yield sink.getvalue().to_pybytes()


def mutated(data: bytes, source: random.Random) -> bytes:
    """Alter a file in one to four places: bits, bytes, cuts, and ranges put elsewhere."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 3)):
        near_end = source.random() < 0.3
        at = max(0, len(changed) - source.randrange(1, 1_500)) if near_end else source.randrange(len(changed))
        size = source.choice([1, 1, 2, 4, 30])
        match source.randrange(10):
            case 0 | 1 | 2:
                changed[at] ^= 1 << source.randrange(8)
            case 3 | 4:
                changed[at : at + size] = source.randbytes(len(changed[at : at + size]))
            case 5 | 6:
                changed[at : at + size] = bytes([source.choice([0, 255, 127, 128])]) * len(changed[at : at + size])
            case 7 | 8:
                other = source.randrange(len(changed) - size)
                changed[at : at + size] = changed[other : other + len(changed[at : at + size])]
            case _:
                changed[at : at + size] = source.randbytes(source.choice([0, size]))
    return bytes(changed)


@contextmanager
def far(source: Source) -> Iterator[AtHand]:
    """Lend a local file as a far one."""
    with local_source(source) as at_hand:
        yield AtHand(path=at_hand.path, facts=at_hand.facts, fetch=lambda _: None)


def ended(path: Path) -> str:
    """Plan a file and read all of its rows in all ways; gives how it ended, if it was as it may."""
    footers, bad = read_footers([SourceFile(path=str(path))])
    if bad:
        return "no footer"
    (footer,) = footers
    read_footers([SourceFile(path=str(path), partition=(("row", "5"), ("word", "red")))])  # its statistics too
    try:
        columns, problems = _columns(footers, Request(transform="rows", columns=WANTED))
    except ColumnError:
        return "no column"
    if problems or not footer.num_rows:
        return "problems"
    source = Source(path=footer.path, num_rows=footer.num_rows, num_bytes=footer.num_bytes, version=footer.version)
    stop = min(footer.num_rows, 10_000)  # a footer may count more rows than there are
    piece = Piece(source=source, start=stop // 3, stop=stop)
    found = set()
    for on_bad_file in OnBadFile:
        for reach in (local_source, far):
            try:
                read = read_rows([piece], columns, on_bad_file=on_bad_file, reach=reach)
                found.add("faults" if read.faults else "rows")
            except UnreadableError:
                found.add("unreadable")
    return "+".join(sorted(found))


def main(folder: str, count: str, seed: str) -> None:
    """Alter and read so many files."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    source, whole, tally = random.Random(int(seed)), list(tables()), Counter[str]()
    for number in range(int(count)):
        path = Path(folder) / f"{number}.parquet"
        path.write_bytes(mutated(whole[number % len(whole)], source))
        tally[ended(path)] += 1
        path.unlink()
    sys.stdout.write(json.dumps(tally))


if __name__ == "__main__":
    main(*sys.argv[1:])
