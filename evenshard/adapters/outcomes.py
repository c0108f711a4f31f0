"""The outcomes of a slice as a Parquet file: one row for each planned row."""

from __future__ import annotations

import dataclasses
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import polars as pl
import pyarrow.parquet as pq

from evenshard.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WHOLE: Final = ("row", "http_status", "num_bytes", "width", "height", "original_width", "original_height")
_PLACE: Final = ("chunk", "position")
SCHEMA: Final[dict[str, Any]] = {
    each.name: pl.Int64 if each.name in _WHOLE else pl.Int32 if each.name in _PLACE else pl.String
    for each in dataclasses.fields(Outcome)
}
"""Column names and types, in the order of `Outcome`'s fields."""


def pack_outcomes(outcomes: Sequence[Outcome]) -> bytes:
    """Write outcomes as a Parquet file; equal outcomes give equal bytes."""
    columns = {name: [getattr(outcome, name) for outcome in outcomes] for name in SCHEMA}
    buffer = io.BytesIO()
    pl.DataFrame(columns, schema=SCHEMA).write_parquet(buffer, compression="zstd", compression_level=3)
    return buffer.getvalue()


def write_rows(path: str, frames: Iterable[pl.DataFrame]) -> int:
    """Write outcomes as one Parquet file, frame by frame; gives their number.

    Raises:
        OSError: it cannot be written, or is there already; nothing is left of it.
    """
    final = Path(path)
    part = final.with_name(f".{final.name}.{uuid4().hex}.part")
    num_rows = 0
    try:
        with pq.ParquetWriter(part, pl.DataFrame(schema=SCHEMA).to_arrow().schema, compression="zstd") as writer:
            for frame in frames:
                writer.write_table(frame.to_arrow())
                num_rows += frame.height
        os.link(part, final)  # fails where a file of that name stands
    finally:
        part.unlink(missing_ok=True)
    return num_rows


def read_outcomes(data: bytes) -> pl.DataFrame:
    """Read such a file."""
    return pl.read_parquet(io.BytesIO(data)).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
