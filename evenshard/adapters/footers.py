"""Footers of Parquet files: what planning needs of each, and why a file has none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from evenshard.adapters.at_hand import AtHand, look_at
from evenshard.adapters.ranged import FileChangedError, UnreachableError
from evenshard.adapters.row_groups import (
    FOREIGN_ERRORS,
    have_footer,
    is_binary,
    is_of_the_system,
    is_text,
    leaves_of,
    one_line,
    opened,
    statistics_of,
)
from evenshard.core.columns import Footer
from evenshard.core.partition import MISSING, NULL, doubles_in
from evenshard.core.recipe import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from evenshard.adapters.source_files import SourceFile

NUM_READERS: Final = 8
"""Threads that read footers: the parsing lets go of the interpreter lock; more did not help on 2 cores."""

MAGIC: Final = b"PAR1"
HEAD_BYTES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFile:
    """A file that cannot be used.

    Args:
        path: of the file.
        reason: one line, the same whenever the file is the same.
        detail: what a library said, which may be other words each time.
        may_be_left_out: whether it is what the file holds that is bad. A file that cannot be opened, or not
            now, may hold good rows: leaving it out would lose them without a word.
    """

    path: str
    reason: str
    detail: str = ""
    may_be_left_out: bool = True

    @property
    def told(self) -> str:
        """Say all that is known."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


def read_footers(
    files: Sequence[SourceFile], *, reach: Callable[[SourceFile], AbstractContextManager[AtHand]] | None = None
) -> tuple[list[Footer], list[BadFile]]:
    """Read all footers in parallel, and nothing else of the files.

    Args:
        files: what to read.
        reach: has a file at hand; local ones only by default.

    Returns:
        The footers, in order, and the files that have none.
    """
    with ThreadPoolExecutor(NUM_READERS) as pool:
        found = list(pool.map(partial(_read_footer, reach=reach or _local), files))
    footers = [footer for footer in found if isinstance(footer, Footer)]
    return footers, [problem for problem in found if isinstance(problem, BadFile)]


@contextmanager
def _local(file: SourceFile) -> Iterator[AtHand]:
    yield look_at(file.path)


def _read_footer(
    file: SourceFile, *, reach: Callable[[SourceFile], AbstractContextManager[AtHand]]
) -> Footer | BadFile:
    try:
        file.path.encode()
        with reach(file) as at_hand:
            return _footer_of(file, at_hand)
    except UnicodeEncodeError:
        reason = "its name is no UTF-8, which plans are written in; rename it"
    except OSError as error:
        reason = f"cannot be opened: {error.strerror or one_line(error)}"
    except (UnreachableError, FileChangedError) as error:
        reason = str(error)
    return BadFile(path=file.path, reason=reason, may_be_left_out=False)


def _footer_of(file: SourceFile, at_hand: AtHand) -> Footer | BadFile:
    bad = _why_no_footer(at_hand) if at_hand.is_far else None
    if bad is not None:
        return BadFile(path=file.path, reason=bad)
    try:
        with pa.OSFile(at_hand.path) as source:
            metadata = pq.read_metadata(source)
        _check_rows(metadata)
        schema = metadata.schema.to_arrow_schema()
        columns = {field.name: kind_of(field.type) for field in schema}
        return Footer(
            path=file.path,
            num_rows=metadata.num_rows,
            num_bytes=at_hand.facts.num_bytes,
            version=at_hand.facts.version,
            columns=columns | _annotated(metadata, columns),
            partition=file.partition,
            unusable=_unusable(metadata, schema, file, at_hand.path),
        )
    except (*FOREIGN_ERRORS, MemoryError) as error:
        if is_of_the_system(error):
            raise
        why = _why_no_footer(at_hand)
        known = {"reason": why} if why else {"reason": "its footer is damaged", "detail": one_line(error)}
        return BadFile(path=file.path, may_be_left_out=not isinstance(error, MemoryError), **known)


def _check_rows(metadata: pq.FileMetaData) -> None:
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if min([metadata.num_rows, *sizes]) < 0 or sum(sizes) != metadata.num_rows:
        raise ValueError(f"it counts {metadata.num_rows} rows, its row groups {sum(sizes)}")


def kind_of(kind: pa.DataType) -> str:
    """Give the field type that holds a column of this type; its own name if there is none."""
    checks = (
        (pa.types.is_null, NULL),
        (pa.types.is_boolean, Kind.BOOL.value),
        (pa.types.is_integer, Kind.INT.value),
        (pa.types.is_floating, Kind.FLOAT.value),
        (is_text, Kind.STR.value),
        (is_binary, Kind.BYTES.value),
    )
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    value = value.storage_type if isinstance(value, pa.BaseExtensionType) else value
    return next((name for check, name in checks if check(value)), str(kind))


def _annotated(metadata: pq.FileMetaData, columns: Mapping[str, str]) -> dict[str, str]:
    """Find texts that pyarrow takes for bytes: those annotated as ENUM. Source: LogicalTypes.md of Parquet."""
    if Kind.BYTES not in columns.values():
        return {}
    leaves = (metadata.schema.column(index) for index in range(metadata.num_columns))
    enums = {leaf.path for leaf in leaves if leaf.converted_type == "ENUM" and not leaf.max_repetition_level}
    return {name: Kind.STR.value for name, kind in columns.items() if kind == Kind.BYTES and name in enums}


def _unusable(metadata: pq.FileMetaData, schema: pa.Schema, file: SourceFile, path: str) -> dict[str, str]:
    """Name the columns whose values could be the one or the other."""
    names = schema.names
    doubled = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    found = dict.fromkeys(doubled, "stands in the file more than once")
    found |= dict.fromkeys(doubles_in(file.partition), "stands in the names of its folders more than once")
    for name, value in file.partition:
        if name in names and name not in found and metadata.num_rows and not _agrees(path, name, value):
            written = MISSING if value is None else value
            found[name] = f"is not known to hold only {written!r}, as the name of its folder says; rename one of them"
    return found


def _agrees(path: str, name: str, value: str | None) -> bool:
    """Say whether the statistics of a column show that all of its values are the one that a folder's name says."""
    try:
        with opened(path) as file:
            (leaf,) = leaves_of(file.schema_arrow, [name])
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            found = ((statistics_of(file, group, leaf), size) for group, size in enumerate(sizes) if size)
            return all(_holds_only(statistics, size, value) for statistics, size in found)
    except FOREIGN_ERRORS:
        return False


def _holds_only(statistics: pq.Statistics | None, num_rows: int, value: str | None) -> bool:
    if statistics is None or not statistics.has_null_count:
        return False
    if value is None:
        return bool(statistics.null_count == num_rows)
    if statistics.null_count or not statistics.has_min_max:
        return False
    return {value} == {_written(statistics.min), _written(statistics.max)}


def _written(value: Any) -> str:  # noqa: ANN401 - whatever type the column has
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _why_no_footer(at_hand: AtHand) -> str | None:
    """Say what a file looks like that is not a whole Parquet file; has the footer there, if it is."""
    size = at_hand.facts.num_bytes
    if not size:
        return "the file is empty (0 bytes)"
    head, tail = at_hand.bytes_at(0, HEAD_BYTES), at_hand.bytes_at(max(0, size - 8), size)
    if not head.startswith(MAGIC):
        return f"not a Parquet file but {_looks_like(head)}"
    if not tail.endswith(MAGIC):
        return f"cut short or overwritten at its end: {size} bytes without the end mark"
    length = have_footer(at_hand)
    return f"its footer is damaged: {length} bytes in a file of {size}" if length > size - 12 else None


def _looks_like(head: bytes) -> str:
    text = head.lstrip().lower()
    if head.startswith(b"\x1f\x8b"):
        return "gzip data; unpack it first"
    if head.startswith(b"PARE"):
        return "an encrypted one, which is not read"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    return "text" if head.isascii() else "something else"
