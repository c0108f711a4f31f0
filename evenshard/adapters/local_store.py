"""A folder on a local or shared file system as a store."""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from evenshard.core.errors import ObjectChangedError, ObjectExistsError, ObjectMissingError, StoreError
from evenshard.core.store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import FileIO

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
        self._write(name, parts, move=_link_and_drop)

    def replace(self, name: str, parts: Sequence[bytes], *, expected: bytes | None) -> None:
        """Write an object only if it is as expected.

        Looking and moving are one step for those who lock the folder, as this does; where the file system has no
        locks, such as some over a network, another writer may come between the two.
        """
        if expected is not None:
            self._write(name, parts, move=partial(_move_over, expected=expected))
            return
        try:
            self.put_new(name, parts)
        except ObjectExistsError:
            raise ObjectChangedError(name, "was written meanwhile") from None

    def read(self, name: str) -> bytes:
        """Read a whole object."""
        return b"".join(self.read_blocks(name))

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in order, in blocks of at most `block_bytes`."""
        with self._reading(name) as file:
            while block := file.read(block_bytes):
                yield block

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop) of an object; fewer where it ends before."""
        parts = []
        with self._reading(name) as file:
            while start < stop and (part := os.pread(file.fileno(), stop - start, start)):
                parts.append(part)
                start += len(part)
        return b"".join(parts)

    def map(self, name: str) -> memoryview:
        """Give a whole object as memory that the system fills as it is looked at.

        It stays as it is when the object is replaced or removed, and goes with the last view of it. A file that
        somebody cuts in place meanwhile would end the process; no method of a store does that.

        Raises:
            ObjectMissingError: there is none.
        """
        with self._reading(name) as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")  # nothing cannot be mapped
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

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
        found = (self._name(file) for file in _files(folder) if not file.name.endswith(PART))
        return sorted(name for name in found if name.startswith(prefix))

    def entries(self, prefix: str = "") -> list[Entry]:
        """Give the objects whose names begin with `prefix`, sorted by name."""
        found = []
        for name in self.names(prefix):
            with suppress(FileNotFoundError):  # gone since it was listed
                state = self._path(name).stat()
                found.append(Entry(name=name, num_bytes=state.st_size, modified_at=state.st_mtime))
        return found

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(name, f"cannot be removed: {error.strerror}") from error

    def delete_unfinished(self, *, before: float) -> int:
        """Remove files that interrupted writers left, and give their number."""
        num_removed = 0
        for file in _files(self._root):
            if file.name.endswith(PART):
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime < before:
                        file.unlink()
                        num_removed += 1
        return num_removed

    @contextmanager
    def _reading(self, name: str) -> Iterator[FileIO]:
        try:
            with self._path(name).open("rb", buffering=0) as file:
                yield file
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissingError(name, f"is not in {self.address}") from None
        except OSError as error:
            raise StoreError(name, f"cannot be read: {error.strerror}") from error

    def _name(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix()

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
        except _NameTakenError:
            raise ObjectExistsError(name, "exists already") from None
        except _OtherError:
            raise ObjectChangedError(name, "was written meanwhile") from None
        except OSError as error:
            raise StoreError(name, f"cannot be written in {self.address}: {error.strerror}") from error


class _NameTakenError(Exception):
    """There is an object of that name; not to be taken for another thing in the way, such as a file for a folder."""


class _OtherError(Exception):
    """What was to be replaced is not as expected."""


def _link_and_drop(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except FileExistsError:
        raise _NameTakenError from None
    part.unlink()


def _move_over(part: Path, path: Path, *, expected: bytes) -> None:
    with _locked(path.parent):
        try:
            is_expected = path.read_bytes() == expected
        except FileNotFoundError:
            is_expected = False
        if not is_expected:
            raise _OtherError
        part.replace(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _files(folder: Path) -> Iterator[Path]:
    return (Path(where, file) for where, _, files in os.walk(folder) for file in files)


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
