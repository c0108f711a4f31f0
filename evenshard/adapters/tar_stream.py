"""The members of a tar, one after another, from a stream of bytes or by seeking in a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from evenshard.core.errors import DamagedArchiveError
from evenshard.core.outcome import Reason
from evenshard.core.sniff import describe
from evenshard.core.tar import (
    BLOCK_BYTES,
    MAX_END_BYTES,
    MAX_EXTENSION_BYTES,
    Header,
    Kind,
    Pax,
    long_name,
    padded,
    parse_header,
    parse_pax,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_ZEROS: Final = bytes(BLOCK_BYTES)
_END_BYTES: Final = 2 * BLOCK_BYTES
"""What ends a tar, and is all of an empty one."""
_MAP_GOES_ON: Final = 504
_EXTENSIONS: Final = (Kind.LONG_NAME, Kind.LONG_LINK, Kind.PAX, Kind.PAX_GLOBAL)


class Source(Protocol):
    """Bytes that are read from the front to the back."""

    @property
    def at(self) -> int:
        """How many bytes were taken or skipped."""

    def take(self, num_bytes: int) -> bytes:
        """Read on; fewer bytes than asked for at the end only."""

    def skip(self, num_bytes: int) -> None:
        """Pass over bytes.

        Raises:
            DamagedArchiveError: there are not as many.
        """


class PieceSource:
    """Bytes that come in pieces.

    Args:
        pieces: none of them empty for ever.
        max_bytes: as many are read at most.
    """

    def __init__(self, pieces: Iterator[bytes], *, max_bytes: int) -> None:
        self._pieces = pieces
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._piece = b""
        self._used = 0

    @property
    def at(self) -> int:
        """How many bytes were taken or skipped."""
        return self._num_bytes - len(self._piece) + self._used

    def take(self, num_bytes: int) -> bytes:
        """Read on; fewer bytes than asked for at the end only."""
        end = self._used + num_bytes
        if end <= len(self._piece):
            taken = self._piece[self._used : end]
            self._used = end
            return taken
        found = [self._piece[self._used :]]
        missing = num_bytes - len(found[0])
        while missing and self._next_piece():
            self._used = min(missing, len(self._piece))
            found.append(self._piece[: self._used])
            missing -= self._used
        return b"".join(found)

    def skip(self, num_bytes: int) -> None:
        """Pass over bytes, holding none of them."""
        missing = num_bytes - (len(self._piece) - self._used)
        if missing <= 0:
            self._used += num_bytes
            return
        while missing and self._next_piece():
            self._used = min(missing, len(self._piece))
            missing -= self._used
        if missing:
            raise _cut(f"{missing} bytes are missing at its end")

    def _next_piece(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            self._used = len(self._piece)
            return False
        self._piece, self._used = piece, 0
        self._num_bytes += len(piece)
        if self._num_bytes > self._max_bytes:
            raise DamagedArchiveError(Reason.ARCHIVE_TOO_LARGE, f"it unpacks to more than {self._max_bytes} bytes")
        return True


class FileSource:
    """Bytes of a file; what is passed over is not read.

    Args:
        descriptor: of the open file.
        num_bytes: its size.
    """

    def __init__(self, descriptor: int, num_bytes: int) -> None:
        self._descriptor = descriptor
        self.num_bytes = num_bytes
        self.at = 0

    def take(self, num_bytes: int) -> bytes:
        """Read on; fewer bytes than asked for at the end only."""
        taken = os.pread(self._descriptor, num_bytes, self.at)
        self.at += len(taken)
        return taken

    def skip(self, num_bytes: int) -> None:
        """Pass over bytes, reading none of them."""
        missing = self.at + num_bytes - self.num_bytes
        if missing > 0:
            raise _cut(f"{missing} bytes are missing at its end")
        self.at += num_bytes


def read_headers(source: Source, *, vouched: bool) -> Iterator[Header]:
    """Give each member's header while its data is next in the source; what is not taken of it is passed over.

    Zeros end a tar, but not the reading: tars joined end to end are read on.

    Args:
        source: at its first byte.
        vouched: whether something else, such as a check sum, says that nothing is missing at the end, so that
            the mark of the end need not be there.

    Raises:
        DamagedArchiveError: not a tar, cut, or damaged.
    """
    num_zeros, is_first, changes = 0, True, None
    while block := source.take(BLOCK_BYTES):
        if block == _ZEROS[: len(block)]:
            num_zeros += len(block)
            if num_zeros > MAX_END_BYTES:
                break
            continue
        header = _parse(block, is_first=is_first and not num_zeros)
        num_zeros, is_first = 0, False
        if header.kind in _EXTENSIONS:
            changes = _changed(changes or Pax(), header.kind, _extension(source, header))
            continue
        if header.goes_on:
            _pass_map(source)
        if changes is not None:
            header, changes = _apply(changes, header), None
        end = source.at + padded(header.num_bytes)
        yield header
        source.skip(end - source.at)
    if changes is not None:
        raise _cut("the last header has no member")
    _check_end(source, num_zeros, is_empty=is_first, vouched=vouched)


def _check_end(source: Source, num_zeros: int, *, is_empty: bool, vouched: bool) -> None:
    if not source.at:
        raise DamagedArchiveError(Reason.NOT_AN_ARCHIVE, "it is empty")
    if is_empty and not _END_BYTES <= num_zeros <= MAX_END_BYTES:
        raise DamagedArchiveError(Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros")
    if num_zeros > MAX_END_BYTES:
        raise _cut(f"only zeros follow byte {source.at - num_zeros}, too many for the end of a tar")
    if not (vouched or num_zeros >= BLOCK_BYTES):
        raise _cut("the mark of its end is missing")


def _parse(block: bytes, *, is_first: bool) -> Header:
    """Read a header, and tell a file that is no tar from a damaged one."""
    try:
        if len(block) < BLOCK_BYTES:
            raise _cut("it ends within a block")
        return parse_header(block)
    except DamagedArchiveError:
        if is_first:
            raise DamagedArchiveError(Reason.NOT_AN_ARCHIVE, f"it looks like {describe(block)}") from None
        raise


def _pass_map(source: Source) -> None:
    """Pass over the blocks with a map of holes."""
    goes_on = True
    while goes_on:
        block = source.take(BLOCK_BYTES)
        if len(block) < BLOCK_BYTES:
            raise _cut("it ends within a header")
        goes_on = block[_MAP_GOES_ON] != 0


def _extension(source: Source, header: Header) -> bytes:
    if header.num_bytes > MAX_EXTENSION_BYTES:
        problem = f"an extended header declares {header.num_bytes} bytes; at most {MAX_EXTENSION_BYTES} are read"
        raise DamagedArchiveError(Reason.BROKEN_ARCHIVE, problem)
    data = source.take(header.num_bytes)
    if len(data) < header.num_bytes:
        raise _cut("it ends within a header")
    source.skip(padded(header.num_bytes) - header.num_bytes)
    return data


def _changed(changes: Pax, kind: Kind, data: bytes) -> Pax:
    if kind is Kind.LONG_NAME:
        return changes._replace(name=long_name(data))
    if kind is not Kind.PAX:
        return changes
    found = parse_pax(data)
    return found if found.name is not None else found._replace(name=changes.name)


def _apply(changes: Pax, header: Header) -> Header:
    """What an extended header says goes before what the header itself says."""
    kind = Kind.SPARSE if changes.has_holes and header.kind is Kind.FILE else header.kind
    num_bytes = header.num_bytes
    if changes.num_bytes is not None and kind in (Kind.FILE, Kind.SPARSE, Kind.OTHER):
        num_bytes = changes.num_bytes
    return Header(header.name if changes.name is None else changes.name, kind, num_bytes)


def _cut(problem: str) -> DamagedArchiveError:
    return DamagedArchiveError(Reason.BROKEN_ARCHIVE, f"it is cut: {problem}")
