"""What evenshard asks of a store of objects: little enough for a folder and for S3 alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a listing tells of an object.

    Args:
        name: of the object.
        num_bytes: its length.
        modified_at: when it was written, in seconds since the epoch, as the store's clock has it.
    """

    name: str
    num_bytes: int
    modified_at: float


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

    def replace(self, name: str, parts: Sequence[bytes], *, expected: bytes | None) -> None:
        """Write an object only if it is as expected, so that of two writers that saw the same one wins.

        Args:
            name: of the object.
            parts: what it shall hold.
            expected: what it holds; None if there is none.

        Raises:
            ObjectChangedError: it is another; it is left as it was.
        """

    def read(self, name: str) -> bytes:
        """Read a whole object.

        Raises:
            ObjectMissingError: there is none.
        """

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in order, in blocks of at most `block_bytes`."""

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop) of an object; fewer where it ends before.

        Raises:
            ObjectMissingError: there is none.
        """

    def size(self, name: str) -> int | None:
        """Give an object's length in bytes, or None if there is none."""

    def names(self, prefix: str = "") -> Iterable[str]:
        """Give the names that begin with `prefix`, sorted. Unfinished writes are no objects."""

    def entries(self, prefix: str = "") -> Iterable[Entry]:
        """Give the objects whose names begin with `prefix`, sorted by name."""

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""

    def delete_unfinished(self, *, before: float) -> int:
        """Remove what writers that died left of objects, and give its number.

        Args:
            before: seconds since the epoch; what was touched later may still be in the making.
        """
