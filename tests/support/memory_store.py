"""A store in memory, on which faults can be staged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from evenshard.core.errors import ObjectExistsError, ObjectMissingError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class MemoryStore:
    """Objects in a dict; keeps the same contract as the real ones."""

    def __init__(self) -> None:
        self.address = "memory"
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object."""
        self._check(name)
        self.objects[name] = b"".join(parts)

    def put_new(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object only if there is none of that name."""
        self._check(name)
        with self._lock:
            if name in self.objects:
                raise ObjectExistsError(name, "exists already")
            self.objects[name] = b"".join(parts)

    def read(self, name: str) -> bytes:
        """Read a whole object."""
        if name not in self.objects:
            raise ObjectMissingError(name, "is not in memory")
        return self.objects[name]

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in blocks."""
        data = self.read(name)
        return (data[start : start + block_bytes] for start in range(0, len(data), block_bytes))

    def size(self, name: str) -> int | None:
        """Give an object's length."""
        return len(self.objects[name]) if name in self.objects else None

    def names(self, prefix: str = "") -> list[str]:
        """Give the names under a prefix, sorted."""
        return sorted(name for name in self.objects if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        self.objects.pop(name, None)

    @staticmethod
    def _check(name: str) -> None:
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(name, "is not a name inside the data set folder")
