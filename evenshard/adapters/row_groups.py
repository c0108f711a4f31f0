"""Row groups through pyarrow: what is where in a Parquet file, and rows whose checksums were looked at."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evenshard.core.chunk_map import read_chunk_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from evenshard.adapters.at_hand import AtHand

BATCH_ROWS: Final = 8_192
"""Rows that are decoded at once on the way to those that are wanted."""

BUFFER_BYTES: Final = 1 << 20
"""A column chunk is read in steps of this, and not at once."""

FOREIGN_ERRORS: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, TypeError)
"""What pyarrow was seen to raise on files whose bytes were altered at random."""

END_BYTES: Final = 65_536
"""What is fetched of a far file's end first: most footers lie in it."""

SLACK_BYTES: Final = 100
"""What pyarrow reads beyond chunks that old writers understated. Source: PARQUET-816."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows [start, stop) of a file that lie in one row group, whose first row in the file is `first`."""

    group: int
    first: int
    start: int
    stop: int


def parts_of(metadata: pq.FileMetaData, start: int, stop: int) -> Iterator[Part]:
    """Cut rows [start, stop) of a file at its row groups; gives them in order, none empty."""
    first = 0
    for group in range(metadata.num_row_groups):
        end = first + metadata.row_group(group).num_rows
        if first < stop and end > start:
            yield Part(group=group, first=first, start=max(start, first), stop=min(stop, end))
        first = end


def leaves_of(schema: pa.Schema, names: Iterable[str]) -> list[int]:
    """Give the positions of the column chunks of some columns in every row group, nested ones with all in them.

    By position and not by name: `a.b` is a column of that name, and also what is called `b` in the column `a`.

    Raises:
        ValueError: a name stands for no column, or for several.
    """
    starts = list(accumulate((_num_leaves(each.type) for each in schema), initial=0))
    found: list[int] = []
    for name in names:
        indexes = schema.get_all_field_indices(name)
        if len(indexes) != 1:
            raise ValueError(f"{len(indexes)} columns are called {name!r}")
        found += range(starts[indexes[0]], starts[indexes[0] + 1])
    return sorted(found)


def _num_leaves(kind: pa.DataType) -> int:
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return sum(_num_leaves(kind.field(index).type) for index in range(kind.num_fields)) if kind.num_fields else 1


def has_checksums(path: str) -> bool:
    """Say whether the pages of a file carry checksums: whether its first one does, which follows the start mark.

    Source: parquet.thrift, PageHeader, in the compact protocol: the fields 1 to 3 are required 32-bit numbers,
    and field 4, the checksum, is one too; each stands after the byte 0x15, "next field, 32-bit number".
    """
    with Path(path).open("rb") as file:
        head = file.read(4 + 32)[4:]
    position = 0
    for _ in range(3):
        if head[position : position + 1] != b"\x15":
            return False
        position += 1
        while head[position : position + 1] >= b"\x80":  # a number goes on while the top bit is set
            position += 1
        position += 1
    return head[position : position + 1] == b"\x15"


def have_chunks(at_hand: AtHand, groups: Iterable[int], leaves: Iterable[int]) -> None:
    """Have some column chunks of a far file there, as its footer says where they are.

    Those that cannot be where it says are left out: reading them will tell.
    """
    size = at_hand.facts.num_bytes
    chunks = read_chunk_map(at_hand.bytes_at(max(0, size - 8 - have_footer(at_hand)), size - 8))
    ranges = (chunks[group][leaf] for group in groups for leaf in leaves if leaf < len(chunks[group]))
    at_hand.have([(start, stop + SLACK_BYTES) for start, stop in ranges if 0 < start < stop <= size])


def have_footer(at_hand: AtHand) -> int:
    """Have a file's footer there; gives its length in bytes, which may be nonsense where the file is damaged.

    Source: File format of Parquet: the footer is followed by its length, 4 bytes, and the end mark.
    """
    size = at_hand.facts.num_bytes
    at_hand.have([(max(0, size - END_BYTES), size)])
    length = int.from_bytes(at_hand.bytes_at(max(0, size - 8), size)[:4], "little")
    at_hand.have([(max(0, size - 8 - length), size)])
    return length


def statistics_of(file: pq.ParquetFile, group: int, leaf: int) -> pq.Statistics | None:
    """Give the statistics of a column chunk.

    A row is read first: where statistics do not fit the schema, that raises, and asking for them at once would
    end the process (pyarrow 26.0.1).

    Raises:
        FOREIGN_ERRORS: the chunk is damaged.
    """
    next(iter(file.reader.iter_batches(1, row_groups=[group], column_indices=[leaf])), None)
    return file.metadata.row_group(group).column(leaf).statistics


@contextmanager
def opened(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading rows; its footer is read."""
    options = {"pre_buffer": False, "buffer_size": BUFFER_BYTES, "page_checksum_verification": True}
    with pa.OSFile(path) as source, pq.ParquetFile(source, **options) as file:
        yield file


def read_part(file: pq.ParquetFile, part: Part, names: Sequence[str]) -> pl.DataFrame:
    """Read some columns of rows of one row group; text comes as bytes, unchecked.

    Rows before them in the row group are decoded and dropped, batch by batch.

    Raises:
        FOREIGN_ERRORS: the row group cannot be read up to these rows.
    """
    position, found = part.first, [pl.DataFrame()]
    leaves = leaves_of(file.schema_arrow, names)
    batches = file.reader.iter_batches(BATCH_ROWS, row_groups=[part.group], column_indices=leaves, use_threads=False)
    for batch in batches:
        low, high = max(part.start - position, 0), min(part.stop - position, batch.num_rows)
        if low < high:
            wanted = batch.slice(low, high - low)
            found.append(pl.DataFrame({name: _series(wanted.column(name)) for name in names}))
        position += batch.num_rows
        if position >= part.stop:
            break
    frame = pl.concat(found[1:] or found)
    if frame.height != part.stop - part.start:
        raise ValueError(f"it gave {frame.height} of {part.stop - part.start} rows")
    return frame


def _series(values: Any) -> pl.Series:  # noqa: ANN401 - pyarrow has no types
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type) or is_binary(values.type):
        values = values.cast(pa.large_binary())
    return pl.Series("values", pl.from_arrow(values))


def is_text(kind: pa.DataType) -> bool:
    """Say whether values of this type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Say whether values of this type are bytes."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def is_of_the_system(error: BaseException) -> bool:
    """Tell what the disk or the operating system refuses from what is wrong with the bytes of a file."""
    return isinstance(error, OSError) and error.errno is not None


def one_line(error: BaseException) -> str:
    """Write what a library said on one line of at most 300 printable characters."""
    text = " ".join(str(error).split())[:300]
    return "".join(char if char.isprintable() else "?" for char in text) or type(error).__name__
