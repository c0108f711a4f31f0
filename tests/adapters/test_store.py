"""One contract for every store; a fake in memory keeps it too, so that faults can be staged on it."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.local_store import PART, LocalStore
from evenshard.core.errors import ObjectExistsError, ObjectMissingError, StoreError
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from evenshard.core.store import Store


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each kind of store, empty."""
    return LocalStore(tmp_path / "set") if request.param == "local" else MemoryStore()


def test_object_is_the_joined_parts_when_put(store: Store) -> None:
    """What is put is read back, whole and in blocks, and has its size."""
    store.put("a/b.bin", [b"one", b"", b"two"])
    assert (b"onetwo", 6) == (store.read("a/b.bin"), store.size("a/b.bin"))
    assert [b"on", b"et", b"wo"] == list(store.read_blocks("a/b.bin", block_bytes=2))


def test_object_is_replaced_when_put_again(store: Store) -> None:
    """The later write wins, whole."""
    store.put("x", [b"a long first text"])
    store.put("x", [b"short"])
    assert b"short" == store.read("x")


def test_object_is_left_alone_when_put_as_new_twice(store: Store) -> None:
    """Create-if-absent refuses the second."""
    store.put_new("x", [b"first"])
    with pytest.raises(ObjectExistsError, match=r"^x: "):
        store.put_new("x", [b"second"])
    assert b"first" == store.read("x")


def test_one_writer_wins_when_many_create_one_object(store: Store) -> None:
    """Of 16 threads that create one name at once, exactly one is told that it did, and its bytes are there."""
    barrier, won = threading.Barrier(16), []

    def create(number: int) -> None:
        barrier.wait()
        try:
            store.put_new("receipt", [bytes([number]) * 1000])
        except ObjectExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 == len(won)
    assert bytes(won) * 1000 == store.read("receipt")


def test_nothing_is_found_when_there_is_no_object(store: Store) -> None:
    """Absence is an answer for `size`, an error for reading, and nothing for deleting."""
    assert store.size("none") is None
    store.delete("none")
    with pytest.raises(ObjectMissingError, match=r"^none: "):
        store.read("none")
    with pytest.raises(ObjectMissingError):
        list(store.read_blocks("folder/none"))


def test_names_are_sorted_and_under_the_prefix_when_listed(store: Store) -> None:
    """A prefix may end inside a name; nothing else is listed."""
    for name in ("b/2", "a", "b/10", "bc", "b/c/1"):
        store.put(name, [b""])
    assert ["a", "b/10", "b/2", "b/c/1", "bc"] == list(store.names())
    assert ["b/10", "b/2", "b/c/1"] == list(store.names("b/"))
    assert ["b/10"] == list(store.names("b/1"))
    assert [] == list(store.names("nothing/"))


def test_object_is_gone_when_deleted(store: Store) -> None:
    """Deleting removes one object."""
    store.put("x", [b"1"])
    store.delete("x")
    assert [] == list(store.names())


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_name_is_refused_when_it_climbs_out(store: Store, name: str) -> None:
    """No name leads out of the data set folder."""
    with pytest.raises(StoreError, match="not a name inside"):
        store.put(name, [b""])


def test_folder_is_clean_when_a_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails leaves no object, no temp file, and names object and folder."""
    store = LocalStore(tmp_path)
    store.put("x", [b"old"])

    def full(_descriptor: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match=r"x: cannot be written in .*: No space left on device"):
        store.put("x", [b"new"])
    assert [tmp_path / "x"] == list(tmp_path.iterdir())
    assert b"old" == store.read("x")


def test_unfinished_write_is_no_object_when_listed(tmp_path: Path) -> None:
    """What a killed writer left is not listed."""
    (tmp_path / f".chunk.0{PART}").write_bytes(b"half")
    assert [] == LocalStore(tmp_path).names()
