"""A source file as what reads Parquet sees it: a path that can be opened, and a way to have parts of it there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenshard.adapters.ranged import FileChangedError, FileFacts
from evenshard.core.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.plan import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class AtHand:
    """A file that can be opened under a local path, for as long as it is lent.

    Args:
        path: where to open it.
        facts: its size and version now.
        fetch: has ranges there before they are read; None where all of it is.
    """

    path: str
    facts: FileFacts
    fetch: Callable[[Iterable[Interval]], None] | None = None

    @property
    def is_far(self) -> bool:
        """Say whether parts of it must be fetched."""
        return self.fetch is not None

    def have(self, ranges: Iterable[Interval]) -> None:
        """Have ranges there, wherever the file is."""
        if self.fetch is not None:
            self.fetch(ranges)

    def bytes_at(self, start: int, stop: int) -> bytes:
        """Read a range."""
        self.have([(start, stop)])
        with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123 - see `look_at`
            file.seek(start)
            return file.read(stop - start)


def look_at(path: str) -> AtHand:
    """Give a local file with its facts.

    Raises:
        OSError: it is not there.
    """
    state = os.stat(path)  # noqa: PTH116 - a path object for each of 10,000 files costs more than the call
    return AtHand(path=path, facts=FileFacts(num_bytes=state.st_size, version=str(state.st_mtime_ns)))


@contextmanager
def local_source(source: Source) -> Iterator[AtHand]:
    """Lend a planned file of the local file system.

    Raises:
        FileChangedError: it is not the one that was planned, or is gone.
    """
    try:
        found = look_at(source.path)
    except FileNotFoundError:
        raise FileChangedError("is gone since it was planned") from None
    if found.facts != FileFacts(num_bytes=source.num_bytes, version=source.version):
        raise FileChangedError("has changed since it was planned")
    yield found
