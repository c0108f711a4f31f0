"""Encoded samples out of stored chunks. No number in a chunk is believed further than it fits manifest and file."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from evenshard.adapters.litdata import find_misplaced, table_bytes
from evenshard.core.errors import DamagedChunkError, ObjectMissingError

if TYPE_CHECKING:
    from evenshard.adapters.local_store import LocalStore
    from evenshard.core.chunk_list import ChunkList, Run
    from evenshard.core.store import Store

MAX_MAPPED: Final = 128
"""Chunks that a process maps at once; each takes a file descriptor, of which there are often 1,024."""


class ChunkFiles(ABC):
    """What chunks hold, by place. It is for any thread, and for copies of this process.

    Args:
        chunks: as the manifest has them.
    """

    def __init__(self, chunks: ChunkList) -> None:
        self._chunks = chunks

    def samples(self, run: Run) -> list[memoryview]:
        """Give the bytes of samples that follow each other.

        Raises:
            DamagedChunkError: they are not where they can be; names chunk and sample.
            ObjectMissingError: the chunk is not there.
        """
        chunk, first, stop = run
        table = self._part(chunk, 4 + 4 * first, 8 + 4 * stop)
        offsets = struct.unpack(f"<{stop - first + 1}I", table)
        sizes = {"num_samples": self._chunks.samples_in(chunk), "num_bytes": self._chunks.num_bytes[chunk]}
        bad = find_misplaced(offsets, first=first, **sizes)
        if bad is not None:
            raise DamagedChunkError(self._chunks.names[chunk], bad, "its place in the chunk cannot be")
        start = offsets[0]
        data = self._part(chunk, start, offsets[-1])
        return [data[one - start : next_one - start] for one, next_one in pairwise(offsets)]

    @abstractmethod
    def _part(self, chunk: int, start: int, stop: int) -> memoryview:
        """Give bytes [start, stop) of a chunk, which has been checked as a whole before."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; it can be used again."""

    def _check(self, chunk: int, *, num_bytes: int, head: bytes) -> None:
        """Check what can be told of a chunk without reading it: length, count, room for the table."""
        name, wanted = self._chunks.names[chunk], self._chunks.num_bytes[chunk]
        num_samples, found = self._chunks.samples_in(chunk), int.from_bytes(head, "little")
        if num_bytes != wanted:
            raise DamagedChunkError(name, None, f"has {num_bytes} bytes instead of {wanted}")
        if len(head) < 4 or table_bytes(num_samples) > num_bytes:
            raise DamagedChunkError(name, None, "is shorter than its table of offsets")
        if found != num_samples:
            raise DamagedChunkError(name, None, f"holds {found} samples instead of {num_samples}")


class MappedChunks(ChunkFiles):
    """Chunks in a local folder, mapped into memory; those mapped first go when there are too many.

    Args:
        chunks: as the manifest has them.
        store: the folder.
    """

    def __init__(self, chunks: ChunkList, store: LocalStore) -> None:
        super().__init__(chunks)
        self._store = store
        self._views: dict[int, memoryview] = {}
        self._in_order: deque[int] = deque()

    def close(self) -> None:
        """Let go of all maps; each goes when nobody looks at it any more."""
        self._in_order.clear()
        self._views.clear()

    def _part(self, chunk: int, start: int, stop: int) -> memoryview:
        view = self._views.get(chunk)
        if view is None:
            view = self._map(chunk)
        return view[start:stop]

    def _map(self, chunk: int) -> memoryview:
        """Map and check one more. Each step is one for the interpreter: there is no lock that a fork could copy."""
        view = self._store.map(self._chunks.names[chunk])
        self._check(chunk, num_bytes=len(view), head=bytes(view[:4]))
        self._views[chunk] = view
        self._in_order.append(chunk)
        if len(self._in_order) > MAX_MAPPED:
            self._views.pop(self._in_order.popleft(), None)
        return view


class RangedChunks(ChunkFiles):
    """Chunks in any store, of which parts are read: two for samples that follow each other.

    Args:
        chunks: as the manifest has them.
        store: where they are.
    """

    def __init__(self, chunks: ChunkList, store: Store) -> None:
        super().__init__(chunks)
        self._store = store
        self._is_checked = bytearray(len(chunks.names))

    def close(self) -> None:
        """Have nothing to give back."""

    def _part(self, chunk: int, start: int, stop: int) -> memoryview:
        name = self._chunks.names[chunk]
        if not self._is_checked[chunk]:
            num_bytes = self._store.size(name)
            if num_bytes is None:
                raise ObjectMissingError(name, f"is not in {self._store.address}")
            self._check(chunk, num_bytes=num_bytes, head=self._store.read_range(name, 0, 4))
            self._is_checked[chunk] = 1
        data = self._store.read_range(name, start, stop)
        if len(data) != stop - start:
            raise DamagedChunkError(name, None, "is shorter than it was")
        return memoryview(data)
