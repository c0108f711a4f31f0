"""Files elsewhere, read by byte ranges into a stand-in on the local disk.

The stand-in is as long as the file, and has holes where nothing was asked for. So what reads Parquet from
local files reads every other file too, byte for byte in the same way, and what is fetched are the ranges that
it will look at. A file whose server gives no ranges is a stand-in without holes.

Its disk space is given back by the kernel when the process ends, in whatever way: it has no name.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from evenshard.core.intervals import Interval, joined, without

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

MAX_HELD_BYTES: Final = 2_000_000_000
"""Disk space of the stand-ins of one process that nobody uses just now; one in use may pass it."""

MAX_STAND_INS: Final = 64
"""Each takes a file descriptor; common limits are 1,024."""

GAP_BYTES: Final = 65_536
"""What is fetched in vain, at most, to save a request: some 10 ms of a usual line."""


class UnreachableError(Exception):
    """The file, or a part of it, could not be had, whatever it may hold; the message names no file."""


class FileChangedError(Exception):
    """The file is not the one that was planned any more, or is gone; the message names no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What tells one state of a file from another."""

    num_bytes: int
    version: str


class Ranged(Protocol):
    """A file elsewhere, of which parts can be had. One for each kind of place: HTTP, object stores."""

    def open(self, write: Callable[[int, bytes], None]) -> FileFacts:
        """Find out what the file is, and write its end, or all of it if that is simpler.

        Args:
            write: takes a position in the file and the bytes that stand there.

        Raises:
            UnreachableError: it cannot be had.
        """

    def read(self, start: int, stop: int, write: Callable[[int, bytes], None]) -> None:
        """Write the bytes [start, stop), or all of the file if parts cannot be had.

        Raises:
            UnreachableError: they cannot be had.
            FileChangedError: the file is not the one that it was.
        """


class StandIn:
    """A local file in place of one elsewhere. Threads may share it.

    Args:
        ranged: the file elsewhere.
        facts: what it is, where that is known.
    """

    def __init__(self, ranged: Ranged, facts: FileFacts | None = None) -> None:
        self._ranged = ranged
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by whoever gives it up
        self._held: list[Interval] = []
        self._lock = threading.Lock()
        self.path = f"/proc/self/fd/{self._file.fileno()}"
        try:
            self.facts = ranged.open(self._write) if facts is None else facts
            with _room_told():
                self._file.truncate(self.facts.num_bytes)
        except BaseException:
            self._file.close()
            raise

    @property
    def num_bytes(self) -> int:
        """Bytes that are held."""
        return sum(stop - start for start, stop in self._held)

    def fetch(self, wanted: Iterable[Interval]) -> None:
        """Have these ranges here, as far as the file goes; what is here already is not asked for again.

        Raises:
            UnreachableError, FileChangedError: see `Ranged.read`.
        """
        with self._lock:
            end = self.facts.num_bytes
            inside = [(start, min(stop, end)) for start, stop in wanted]
            for start, stop in joined(without(inside, self._held), gap=GAP_BYTES):
                if without([(start, stop)], self._held):  # else it has come with the one before
                    self._ranged.read(start, stop, self._write)

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()

    def _write(self, position: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            with _room_told():
                num_written = os.pwrite(self._file.fileno(), left, position)
            self._held = joined([*self._held, (position, position + num_written)])
            position, left = position + num_written, left[num_written:]


@contextmanager
def _room_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        told = f"the disk of {tempfile.gettempdir()} does not take it: {error.strerror}; TMPDIR names another"
        raise UnreachableError(told) from error


class StandIns:
    """The stand-ins of one process: those used last are kept as long as there is room.

    Args:
        max_bytes: disk space that those may take that nobody uses.
    """

    def __init__(self, *, max_bytes: int = MAX_HELD_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, StandIn] = OrderedDict()
        self._users: dict[Hashable, int] = {}

    @contextmanager
    def lent(self, key: Hashable, new: StandIn) -> Iterator[StandIn]:
        """Lend the stand-in that is kept under a key, or else keep the new one; none is given up while it is lent."""
        with self._lock:
            stand_in = self._kept.pop(key, new)
            self._kept[key] = stand_in
            self._users[key] = self._users.get(key, 0) + 1
            self._give_up()
        if stand_in is not new:
            new.close()
        try:
            yield stand_in
        finally:
            with self._lock:
                self._users[key] -= 1
                self._give_up()

    def close(self) -> None:
        """Give up all that nobody uses."""
        with self._lock:
            self._give_up(max_bytes=-1)

    def _give_up(self, *, max_bytes: int | None = None) -> None:
        """Close what nobody uses, the longest unused first, until the rest is small enough."""
        max_bytes = self._max_bytes if max_bytes is None else max_bytes
        idle = [key for key in self._kept if not self._users.get(key)]
        num_bytes = sum(self._kept[key].num_bytes for key in idle)
        for key in idle:
            if num_bytes <= max_bytes and len(self._kept) <= MAX_STAND_INS:
                break
            self._users.pop(key, None)
            stand_in = self._kept.pop(key)
            num_bytes -= stand_in.num_bytes
            stand_in.close()
