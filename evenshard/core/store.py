"""What evenshard asks of a store of objects: little enough for a folder and for S3 alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Store(Protocol):
    """A data set folder. Names are relative, with `/` between their parts.

    No reader ever sees a half-written object, and what a method has returned from outlives a crash.
    """

    address: str
    """Where it is, as a person would write it."""

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object from its joined parts, whole or not at all, over any older one."""

    def put_new(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object only if there is none of that name.

        Raises:
            ObjectExistsError: there is one; it is left as it was.
        """

    def read(self, name: str) -> bytes:
        """Read a whole object.

        Raises:
            ObjectMissingError: there is none.
        """

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in order, in blocks of at most `block_bytes`."""

    def size(self, name: str) -> int | None:
        """Give an object's length in bytes, or None if there is none."""

    def names(self, prefix: str = "") -> Iterable[str]:
        """Give the names that begin with `prefix`, sorted. Unfinished writes are no objects."""

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
