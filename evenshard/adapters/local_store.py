"""A folder on a local or shared file system as a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from evenshard.core.errors import ObjectExistsError, ObjectMissingError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PART: Final = ".part"
"""Ending of files that are being written; one that outlives its writer is no object."""


class LocalStore:
    """Objects are files; each is written beside its place, flushed to disk, and moved there.

    Args:
        root: the folder; it is made at the first write.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).absolute()
        self.address = str(self._root)

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object from its joined parts, over any older one."""
        self._write(name, parts, move=os.replace)

    def put_new(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object only if there is none of that name.

        A hard link fails if its name exists, which a rename does not: that decides between two writers.
        """
        try:
            self._write(name, parts, move=_link_and_drop)
        except FileExistsError:
            raise ObjectExistsError(name, "exists already") from None

    def read(self, name: str) -> bytes:
        """Read a whole object."""
        return b"".join(self.read_blocks(name))

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in order, in blocks of at most `block_bytes`."""
        try:
            with self._path(name).open("rb", buffering=0) as file:
                while block := file.read(block_bytes):
                    yield block
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissingError(name, f"is not in {self.address}") from None
        except OSError as error:
            raise StoreError(name, f"cannot be read: {error.strerror}") from error

    def size(self, name: str) -> int | None:
        """Give an object's length in bytes, or None if there is none."""
        try:
            return self._path(name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(name, f"cannot be looked up: {error.strerror}") from error

    def names(self, prefix: str = "") -> list[str]:
        """Give the names that begin with `prefix`, sorted."""
        folder = self._path(prefix.rpartition("/")[0] or ".")
        found = (
            Path(where, file).relative_to(self._root).as_posix()
            for where, _, files in os.walk(folder)
            for file in files
            if not file.endswith(PART)
        )
        return sorted(name for name in found if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(name, f"cannot be removed: {error.strerror}") from error

    def _path(self, name: str) -> Path:
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(name, "is not a name inside the data set folder")
        return self._root / name

    def _write(self, name: str, parts: Sequence[bytes], *, move: Callable[[Path, Path], None]) -> None:
        path = self._path(name)
        part = path.with_name(f".{path.name}.{uuid4().hex}{PART}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("xb", buffering=0) as file:
                    _write_all(file.fileno(), parts)
                    os.fsync(file.fileno())
                move(part, path)
            finally:
                part.unlink(missing_ok=True)
            _sync_folder(path.parent)
        except FileExistsError:
            raise
        except OSError as error:
            raise StoreError(name, f"cannot be written in {self.address}: {error.strerror}") from error


def _link_and_drop(part: Path, path: Path) -> None:
    os.link(part, path)
    part.unlink()


def _write_all(descriptor: int, parts: Sequence[bytes]) -> None:
    """Write every byte: one call to the kernel may take fewer than it was given."""
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    """Make a new name outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
