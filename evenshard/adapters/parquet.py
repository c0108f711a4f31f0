"""Parquet files: footers for planning, and the rows of one slice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet as pq

from evenshard.core.columns import NULL, Footer
from evenshard.core.recipe import Column, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.core.plan import Piece

NUM_READERS: Final = 8
"""Threads that read footers: the parsing lets go of the interpreter lock; more did not help on 2 cores."""
MAGIC: Final = b"PAR1"
TYPES: Final[dict[Kind, Any]] = {
    Kind.STR: pl.String,
    Kind.BYTES: pl.Binary,
    Kind.INT: pl.Int64,
    Kind.FLOAT: pl.Float64,
    Kind.BOOL: pl.Boolean,
}
OVERFLOWED: Final = "__overflowed__"


class FileChangedError(Exception):
    """The file has another size or version than its source."""


class UnreadableError(Exception):
    """The file, or the wanted part of it, cannot be read."""


def read_footers(paths: Sequence[str]) -> tuple[list[Footer], list[tuple[str, str]]]:
    """Read all footers in parallel, and nothing else of the files.

    Returns:
        The footers, in order, and (file, reason) pairs of the files that have none.
    """
    with ThreadPoolExecutor(NUM_READERS) as pool:
        found = list(pool.map(_read_footer, paths))
    footers = [footer for footer in found if isinstance(footer, Footer)]
    return footers, [problem for problem in found if not isinstance(problem, Footer)]


def _read_footer(path: str) -> Footer | tuple[str, str]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return path, "its name is no UTF-8, which plans are written in; rename it"
    try:
        metadata = pq.read_metadata(path)
        names = metadata.schema.to_arrow_schema().names
        if len(set(names)) < len(names):
            return path, f"two of its columns are called {next(name for name in names if names.count(name) > 1)!r}"
        state = os.stat(path)  # noqa: PTH116 - a path object for each of 10,000 files costs more than the call
        return Footer(
            path=path,
            num_rows=metadata.num_rows,
            num_bytes=state.st_size,
            version=str(state.st_mtime_ns),
            columns={field.name: kind_of(field.type) for field in metadata.schema.to_arrow_schema()},
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        return path, _why_no_footer(Path(path), error)


def kind_of(kind: pa.DataType) -> str:
    """Give the field type that holds a column of this type; its own name if there is none."""
    checks = (
        (pa.types.is_null, NULL),
        (pa.types.is_boolean, Kind.BOOL.value),
        (pa.types.is_integer, Kind.INT.value),
        (pa.types.is_floating, Kind.FLOAT.value),
        (_is_text, Kind.STR.value),
        (_is_binary, Kind.BYTES.value),
    )
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return next((name for check, name in checks if check(value)), str(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _why_no_footer(path: Path, error: Exception) -> str:
    """Say what a file looks like that is not a Parquet file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(256)
            file.seek(max(0, size - 4))
            tail = file.read(4)
    except OSError as problem:
        return f"cannot be opened: {problem.strerror}"
    if not size:
        return "the file is empty (0 bytes)"
    if not head.startswith(MAGIC):
        return f"not a Parquet file but {_looks_like(head)}"
    if tail != MAGIC:
        return f"cut short or overwritten at its end: {size} bytes without the end mark"
    return f"its footer is damaged: {_one_line(error)}"


def _looks_like(head: bytes) -> str:
    text = head.lstrip().lower()
    if head.startswith(b"\x1f\x8b"):
        return "gzip data; unpack it first"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    return "text" if head.isascii() else "something else"


def read_rows(pieces: Sequence[Piece], columns: Sequence[Column]) -> pl.DataFrame:
    """Read the rows of a slice: of each file only the row groups and columns that hold them.

    Args:
        pieces: file ranges, one or more, in row order.
        columns: what to read, each cast to its one type; None where an optional one is missing.

    Returns:
        The columns in order, and `OVERFLOWED`: true where a whole number does not fit its type exactly.

    Raises:
        FileChangedError: a file is not the one that was planned.
        UnreadableError: a file cannot be read; names file and rows.
    """
    return pl.concat([_read_piece(piece, columns) for piece in pieces])


def _read_piece(piece: Piece, columns: Sequence[Column]) -> pl.DataFrame:
    source = piece.source
    rows = f"{source.path}, rows {piece.start} to {piece.stop - 1}"
    try:
        state = os.stat(source.path)  # noqa: PTH116 - see above
        if (state.st_size, str(state.st_mtime_ns)) != (source.num_bytes, source.version):
            raise FileChangedError(f"{source.path} has changed since it was planned; plan again")
        lazy = pl.scan_parquet(source.path, glob=False, hive_partitioning=False)
        there = lazy.collect_schema()
        names = [column.name for column in columns if column.name in there]
        if not names:
            return _nulls(columns, num_rows=piece.num_rows)
        frame = _cast(lazy.select(cs.by_name(*names)).slice(piece.start, piece.num_rows).collect(), columns)
    except FileNotFoundError:
        raise FileChangedError(f"{source.path} is gone since it was planned") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableError(f"{rows}: {_one_line(error)}") from error
    if frame.height != piece.num_rows:
        raise UnreadableError(f"{rows}: the file gave {frame.height} of {piece.num_rows} rows")
    return frame


def _cast(frame: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Cast to the target types; a number that does not fit is flagged, not lost or rounded in silence."""
    values = {
        column.name: series_of(frame, column.name).cast(TYPES[column.kind], strict=False)
        if column.name in frame.columns
        else pl.Series([None] * frame.height, dtype=TYPES[column.kind])
        for column in columns
    }
    flags = pl.Series([False] * frame.height, dtype=pl.Boolean)
    for column in columns:
        if column.name in frame.columns:
            flags = flags | _is_inexact(column, series_of(frame, column.name).alias("number"))
    return pl.DataFrame({**values, OVERFLOWED: flags})


def series_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Give a column by its very name; polars would read `^...$` as a pattern, as it does in methods of series."""
    return frame.to_series(frame.columns.index(name))


def _is_inexact(column: Column, number: pl.Series) -> pl.Series:
    """Say where a whole number does not come out of its cast as it went in."""
    if not number.dtype.is_integer() or column.kind not in {Kind.INT, Kind.FLOAT}:
        return pl.Series([False] * len(number), dtype=pl.Boolean)
    cast = number.cast(TYPES[column.kind], strict=False).cast(pl.Int128, strict=False)
    return number.is_not_null() & cast.ne_missing(number.cast(pl.Int128))


def _nulls(columns: Sequence[Column], *, num_rows: int) -> pl.DataFrame:
    """Stand in for a file with none of the (optional) columns: as many rows, all of them None."""
    values = {column.name: pl.Series([None] * num_rows, dtype=TYPES[column.kind]) for column in columns}
    return pl.DataFrame({**values, OVERFLOWED: pl.Series([False] * num_rows, dtype=pl.Boolean)})


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
