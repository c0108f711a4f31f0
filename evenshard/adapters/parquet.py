"""The rows of one slice from Parquet files.

Two libraries read. polars reads ordinary files: it passes over pages that hold no wanted row, which on a row
group of a million rows takes a tenth of the time. pyarrow has the last word on all others, and where polars
fails: it looks at checksums of pages, which polars does not (2.1.0), takes column types that make polars panic,
and gives texts that are no UTF-8 as bytes, so that one such value fails its own row and no other.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import polars.selectors as cs
import pyarrow as pa

from evenshard.adapters import row_groups
from evenshard.adapters.at_hand import AtHand, local_source
from evenshard.adapters.ranged import FileChangedError, UnreachableError
from evenshard.adapters.row_groups import FOREIGN_ERRORS, Part, is_of_the_system, one_line
from evenshard.core.outcome import Failure, Reason
from evenshard.core.recipe import Column, Kind, OnBadFile
from evenshard.core.source_address import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow.parquet as pq

    from evenshard.core.plan import Piece, Source

TYPES: Final[dict[Kind, Any]] = {
    Kind.STR: pl.String,
    Kind.BYTES: pl.Binary,
    Kind.INT: pl.Int64,
    Kind.FLOAT: pl.Float64,
    Kind.BOOL: pl.Boolean,
}

_PLAIN_TYPES: Final = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    row_groups.is_text,
    row_groups.is_binary,
    pa.types.is_date,
    pa.types.is_decimal128,
)
"""Column types that polars takes whether they are wanted or not; a time zone that it does not know makes it panic."""


_LOG = logging.getLogger(__name__)


class UnreadableError(Exception):
    """The wanted rows of a file cannot be read."""


MAX_GAP_ROWS: Final = 4_096
"""Rows that are read to no use rather than to begin anew: to open a file costs some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a slice.

    Args:
        frame: the wanted columns in order, each of its one type.
        faults: rows that no sample can be made of, by position, with the reason.
    """

    frame: pl.DataFrame
    faults: dict[int, Failure] = field(default_factory=dict)


def read_rows(
    pieces: Sequence[Piece],
    columns: Sequence[Column],
    *,
    on_bad_file: OnBadFile = OnBadFile.FAIL,
    reach: Callable[[Source], AbstractContextManager[AtHand]] = local_source,
) -> Rows:
    """Read the rows of a slice: of each file only the row groups and columns that hold them.

    Args:
        pieces: file ranges, one or more, in row order.
        columns: what to read, each cast to its one type; None where an optional one is missing.
        on_bad_file: whether rows in a row group that cannot be read end the slice, or fail each by itself.
        reach: has a file at hand; local ones only by default.

    Returns:
        All rows. At fault are those with a text that is no UTF-8, or a whole number that its type cannot hold
        exactly, and those that cannot be read.

    Raises:
        FileChangedError: a file is not the one that was planned.
        UnreachableError: a file cannot be had now.
        UnreadableError: rows cannot be read; names file and rows.
    """
    frames: list[pl.DataFrame] = []
    faults: dict[int, Failure] = {}
    num_rows = 0
    for piece, picked in spans_of(pieces):
        try:
            with reach(piece.source) as at_hand:
                read = _PieceReader(piece, columns, at_hand, on_bad_file).read()
        except (FileChangedError, UnreachableError) as error:
            raise type(error)(f"{shown(piece.source.path)} {error}") from error
        frames.append(read.frame[picked])
        faults |= {num_rows + at: read.faults[row] for at, row in enumerate(picked) if row in read.faults}
        num_rows += len(picked)
    return Rows(frame=pl.concat(frames), faults=faults)


def spans_of(pieces: Sequence[Piece]) -> list[tuple[Piece, list[int]]]:
    """Join ranges of one file that lie near each other: rows picked here and there are read in one go.

    Returns:
        (range to read, positions in it of the rows that are wanted) pairs, in row order.
    """
    spans: list[tuple[Piece, list[int]]] = []
    for piece in pieces:
        last, picked = spans[-1] if spans else (None, [])
        if last is not None and last.source is piece.source and 0 <= piece.start - last.stop <= MAX_GAP_ROWS:
            picked += range(piece.start - last.start, piece.stop - last.start)
            spans[-1] = (replace(last, stop=piece.stop), picked)
        else:
            spans.append((piece, list(range(piece.num_rows))))
    return spans


class _PieceReader:
    """Reads one range of rows of one file."""

    def __init__(self, piece: Piece, columns: Sequence[Column], at_hand: AtHand, on_bad_file: OnBadFile) -> None:
        self._piece, self._columns, self._at_hand, self._on_bad_file = piece, columns, at_hand, on_bad_file
        self._name = shown(piece.source.path)

    def read(self) -> Rows:
        piece = self._piece
        try:
            if self._at_hand.is_far:
                row_groups.have_footer(self._at_hand)
            elif _is_ordinary(piece.source):
                frame = self._by_polars()
                if frame is not None:
                    return self._typed(frame)
            with row_groups.opened(self._at_hand.path) as file:
                return self._by_row_groups(file)
        except FileNotFoundError:
            raise FileChangedError("is gone since it was planned") from None
        except (*FOREIGN_ERRORS, MemoryError) as error:
            raise self._unreadable(piece.start, piece.stop, error) from error

    def _by_polars(self) -> pl.DataFrame | None:
        """Give the rows, or None where polars fails, which may have reasons that others do not have."""
        piece = self._piece
        try:
            lazy = pl.scan_parquet(self._at_hand.path, glob=False, hive_partitioning=False)
            names = self._names_in(lazy.collect_schema().names())
            if not names:
                return pl.DataFrame(height=piece.num_rows)
            frame = lazy.select(cs.by_name(*names)).slice(piece.start, piece.num_rows).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            return None
        return frame if frame.height == piece.num_rows else None

    def _by_row_groups(self, file: pq.ParquetFile) -> Rows:
        parts = list(row_groups.parts_of(file.metadata, self._piece.start, self._piece.stop))
        if sum(part.stop - part.start for part in parts) != self._piece.num_rows:
            raise ValueError(f"the file has {file.metadata.num_rows} rows")
        names = self._names_in(file.schema_arrow.names)
        if self._at_hand.is_far:
            leaves = row_groups.leaves_of(file.schema_arrow, names)
            row_groups.have_chunks(self._at_hand, [part.group for part in parts], leaves)
        frames: list[pl.DataFrame] = []
        faults: dict[int, Failure] = {}
        for part in parts:
            read = self._part(file, part, names)
            frames.append(read.frame)
            faults |= {part.start - self._piece.start + row: failure for row, failure in read.faults.items()}
        return Rows(frame=pl.concat(frames), faults=faults)

    def _part(self, file: pq.ParquetFile, part: Part, names: Sequence[str]) -> Rows:
        num_rows = part.stop - part.start
        try:
            frame = row_groups.read_part(file, part, names) if names else pl.DataFrame(height=num_rows)
        except FOREIGN_ERRORS as error:
            if self._on_bad_file is OnBadFile.FAIL or is_of_the_system(error):
                raise self._unreadable(part.start, part.stop, error) from error
            # What the library says may be other words each time, and outcomes are the same bytes each time.
            _LOG.info("%s: row group %d cannot be read: %s", self._name, part.group, one_line(error))
            failure = Failure(reason=Reason.UNREADABLE_ROWS, detail=f"row group {part.group}")
            missing = self._typed(pl.DataFrame(height=num_rows)).frame
            return Rows(frame=missing, faults=dict.fromkeys(range(num_rows), failure))
        return self._typed(frame)

    def _names_in(self, names: Iterable[str]) -> list[str]:
        there = set(names)
        return [column.name for column in self._columns if column.name in there]

    def _typed(self, frame: pl.DataFrame) -> Rows:
        """Cast to the target types; what the file has not comes from its folders' names, or is None."""
        values: dict[str, pl.Series] = {}
        faults: dict[int, Failure] = {}
        there, folders = set(frame.columns), dict(self._piece.source.partition)
        for column in self._columns:
            if column.name in there:
                values[column.name], bad = _cast(column, series_of(frame, column.name).alias("values"))
                faults = bad | faults
            else:
                value = pl.Series([folders.get(column.name)], dtype=pl.String).cast(TYPES[column.kind])
                values[column.name] = value.new_from_index(0, frame.height)
        return Rows(frame=pl.DataFrame(values) if values else pl.DataFrame(height=frame.height), faults=faults)

    def _unreadable(self, start: int, stop: int, error: BaseException) -> UnreadableError:
        return UnreadableError(f"{self._name}, rows {start} to {stop - 1}: {one_line(error)}")


def series_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Give a column by its very name; polars would read `^...$` as a pattern, as it does in methods of series."""
    return frame.to_series(frame.columns.index(name))


def _cast(column: Column, values: pl.Series) -> tuple[pl.Series, dict[int, Failure]]:
    """Cast a column to its type; a value that does not come through is told, not lost or rounded in silence."""
    if column.kind is Kind.STR and values.dtype == pl.Binary:
        return _decoded(column, values)
    cast = values.cast(TYPES[column.kind], strict=False)
    if not values.dtype.is_integer() or column.kind not in {Kind.INT, Kind.FLOAT}:
        return cast, {}
    inexact = values.is_not_null() & cast.cast(pl.Int128, strict=False).ne_missing(values.cast(pl.Int128))
    failure = Failure(reason=Reason.VALUE_OUT_OF_RANGE, detail=f"column {column.name!r}")
    return cast, dict.fromkeys(inexact.arg_true().to_list(), failure)


def _decoded(column: Column, values: pl.Series) -> tuple[pl.Series, dict[int, Failure]]:
    try:
        return values.cast(pl.String), {}
    except pl.exceptions.PolarsError:  # some value is no UTF-8; which one, is not said
        texts = [_text_of(column, value) for value in values.to_list()]
    faults = {row: text for row, text in enumerate(texts) if isinstance(text, Failure)}
    return pl.Series([None if isinstance(text, Failure) else text for text in texts], dtype=pl.String), faults


def _text_of(column: Column, value: bytes | None) -> str | Failure | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        detail = f"column {column.name!r}: {error.reason} at byte {error.start} of {len(value or b'')}"
        return Failure(reason=Reason.BAD_TEXT, detail=detail)


@lru_cache(maxsize=4_096)
def _is_ordinary(source: Source) -> bool:
    """Say whether polars may read a local file: only plain types, and no checksums, which it would not look at."""
    try:
        with row_groups.opened(source.path) as file:
            return _has_plain_columns(file) and not row_groups.has_checksums(source.path)
    except FOREIGN_ERRORS as error:
        if is_of_the_system(error):
            raise
        return False


def _has_plain_columns(file: pq.ParquetFile) -> bool:
    schema = file.schema_arrow
    leaves = (file.metadata.schema.column(index) for index in range(file.metadata.num_columns))
    return (
        all(_is_plain(each.type) for each in schema)
        and len(set(schema.names)) == len(schema.names)
        and all(leaf.converted_type != "INTERVAL" for leaf in leaves)
    )


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.tz in {None, "UTC"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_struct(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    return any(is_plain(kind) for is_plain in _PLAIN_TYPES)
