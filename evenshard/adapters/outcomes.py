"""The outcomes of a slice as a Parquet file: one row for each planned row."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from evenshard.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def read_outcomes(data: bytes) -> pl.DataFrame:
    """Read such a file."""
    return pl.read_parquet(io.BytesIO(data))
