"""Samples that wait for an earlier row: a few in memory, the rest in a file without a name."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

MAX_HELD_BYTES: Final = 32_000_000
"""What waits in memory. A slow first row may hold up a whole slice of large pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spilled:
    """Where in the file a sample is."""

    start: int
    num_bytes: int


class Spill:
    """Keeps samples until they are asked for, each once. However it ends, its file is gone then."""

    def __init__(self, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self._max_held_bytes = max_held_bytes
        self._num_held_bytes = self._end = 0
        self._file: int | None = None

    def keep(self, sample: bytes) -> bytes | Spilled:
        """Take a sample that has to wait; gives what `take` gives it back for.

        Raises:
            OSError: there is no room for it on the disk of temporary files.
        """
        if self._num_held_bytes + len(sample) <= self._max_held_bytes:
            self._num_held_bytes += len(sample)
            return sample
        if self._file is None:
            self._file, name = tempfile.mkstemp(prefix="evenshard-")
            os.unlink(name)  # noqa: PTH108 - nobody else opens it, and no kill leaves it behind
        place = Spilled(start=self._end, num_bytes=len(sample))
        view = memoryview(sample)
        while view:
            written = os.pwrite(self._file, view, self._end)
            self._end += written
            view = view[written:]
        return place

    def take(self, kept: bytes | Spilled) -> bytes:
        """Give a kept sample back."""
        if isinstance(kept, bytes):
            self._num_held_bytes -= len(kept)
            return kept
        if self._file is None:
            raise ValueError("nothing was spilled")
        return os.pread(self._file, kept.num_bytes, kept.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
