"""A store in memory, on which faults can be staged."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from evenshard.core.errors import ObjectChangedError, ObjectExistsError, ObjectMissingError, StoreError
from evenshard.core.store import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class MemoryStore:
    """Objects in a dict; keeps the same contract as the real ones."""

    def __init__(self) -> None:
        self.address = "memory"
        self.objects: dict[str, bytes] = {}
        self._written: dict[str, float] = {}
        self._lock = threading.Lock()

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object."""
        self._check(name)
        self.objects[name], self._written[name] = b"".join(parts), time.time()

    def put_new(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object only if there is none of that name."""
        self._check(name)
        with self._lock:
            if name in self.objects:
                raise ObjectExistsError(name, "exists already")
            self.objects[name], self._written[name] = b"".join(parts), time.time()

    def replace(self, name: str, parts: Sequence[bytes], *, expected: bytes | None) -> None:
        """Write an object only if it is as expected."""
        self._check(name)
        with self._lock:
            if self.objects.get(name) != expected:
                raise ObjectChangedError(name, "was written meanwhile")
            self.objects[name], self._written[name] = b"".join(parts), time.time()

    def read(self, name: str) -> bytes:
        """Read a whole object."""
        if name not in self.objects:
            raise ObjectMissingError(name, "is not in memory")
        return self.objects[name]

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in blocks."""
        data = self.read(name)
        return (data[start : start + block_bytes] for start in range(0, len(data), block_bytes))

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read a part of an object."""
        return self.read(name)[start:stop]

    def size(self, name: str) -> int | None:
        """Give an object's length."""
        return len(self.objects[name]) if name in self.objects else None

    def names(self, prefix: str = "") -> list[str]:
        """Give the names under a prefix, sorted."""
        return sorted(name for name in self.objects if name.startswith(prefix))

    def entries(self, prefix: str = "") -> list[Entry]:
        """Give the objects under a prefix, sorted."""
        return [
            Entry(name=name, num_bytes=len(self.objects[name]), modified_at=self._written[name])
            for name in self.names(prefix)
        ]

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        self.objects.pop(name, None)

    def delete_unfinished(self, *, before: float) -> int:  # noqa: ARG002 - there is none
        """Remove nothing: every write is one step."""
        return 0

    @staticmethod
    def _check(name: str) -> None:
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(name, "is not a name inside the data set folder")
