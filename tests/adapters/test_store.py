"""One contract for every store; a fake in memory keeps it too, so that faults can be staged on it.

Stores in S3 keep it on each server: moto's, SeaweedFS, and with --ceph a Ceph gateway.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.local_store import PART, LocalStore
from evenshard.core.errors import ObjectChangedError, ObjectExistsError, ObjectMissingError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from evenshard.core.store import Store


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


def test_object_is_left_alone_when_the_same_is_put_as_new_again(store: Store) -> None:
    """Who comes second is told so even with the same content."""
    store.put_new("x", [b"same"])
    with pytest.raises(ObjectExistsError, match=r"^x: "):
        store.put_new("x", [b"same"])


def test_object_is_replaced_when_it_is_as_expected(store: Store) -> None:
    """Content, emptiness and absence can be expected."""
    store.replace("x", [b"fir", b"st"], expected=None)
    store.replace("x", [b""], expected=b"first")
    store.replace("x", [b"third"], expected=b"")
    assert b"third" == store.read("x")


@pytest.mark.parametrize("expected", [None, b"", b"other"], ids=["none", "empty", "another"])
def test_object_is_left_alone_when_it_is_not_as_expected(store: Store, expected: bytes | None) -> None:
    """A wrong expectation is an error, and changes nothing; that of something absent, too."""
    store.put("x", [b"first"])
    with pytest.raises(ObjectChangedError, match=r"^x: "):
        store.replace("x", [b"second"], expected=expected)
    assert b"first" == store.read("x")
    with pytest.raises(ObjectChangedError, match=r"^y: "):
        store.replace("y", [b"second"], expected=b"first")
    assert store.size("y") is None


def test_one_writer_wins_when_many_replace_one_object(store: Store) -> None:
    """Of 16 threads that saw the same state and replace it at once, exactly one is told that it did."""
    store.put("manifest", [b"before"])
    barrier, won = threading.Barrier(16), []

    def replace(number: int) -> None:
        barrier.wait()
        try:
            store.replace("manifest", [bytes([number]) * 1000], expected=b"before")
        except ObjectChangedError:
            return
        won.append(number)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 == len(won)
    assert bytes(won) * 1000 == store.read("manifest")


def test_large_object_is_whole_when_put(store: Store) -> None:
    """What a store in S3 sends in parts, and reads by ranges, comes back as it was; nothing unfinished is left."""
    data = random.Random(1).randbytes(12 * 2**20)
    store.put("large", [data[:7], data[7 : 9 * 2**20], data[9 * 2**20 :]])
    assert (data, len(data)) == (store.read("large"), store.size("large"))
    assert sha256(data).digest() == sha256(b"".join(store.read_blocks("large"))).digest()
    assert 0 == store.delete_unfinished(before=time.time() + 60)


@pytest.mark.parametrize("name", ["a b", "ü/ö.bin", "100%25+&=?#", "x" * 200])
def test_object_is_found_when_its_name_is_odd(store: Store, name: str) -> None:
    """Names are kept as they are, in listings, too."""
    store.put(name, [b"1"])
    assert ([name], b"1") == (list(store.names()), store.read(name))
    assert [name] == list(store.names(name[:2]))


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


def test_entries_tell_size_and_age(store: Store) -> None:
    """A listing gives each object's length, and when it was written by a clock near ours."""
    store.put("a/x", [b"123"])
    store.put_new("b", [b""])
    entries = list(store.entries())
    assert [("a/x", 3), ("b", 0)] == [(entry.name, entry.num_bytes) for entry in entries]
    assert all(abs(entry.modified_at - time.time()) < 60 for entry in entries)
    assert [] == list(store.entries("c"))


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


def test_unfinished_writes_are_removed_when_old_enough(tmp_path: Path) -> None:
    """What a killed writer left goes once it is old; objects, and what is being written now, stay."""
    store = LocalStore(tmp_path)
    store.put("a/x", [b"1"])
    old, new = tmp_path / f"a/.y.1{PART}", tmp_path / f".z.2{PART}"
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (1_000_000, 1_000_000))
    assert 1 == store.delete_unfinished(before=1_000_001)
    assert (False, True, b"1") == (old.exists(), new.exists(), store.read("a/x"))


def test_unfinished_write_is_no_object_when_listed(tmp_path: Path) -> None:
    """What a killed writer left is not listed."""
    (tmp_path / f".chunk.0{PART}").write_bytes(b"half")
    assert [] == LocalStore(tmp_path).names()


def test_file_in_the_way_of_a_folder_is_no_object_of_that_name(tmp_path: Path) -> None:
    """A dangling link where the folder should be is an error of the store, not `exists already`."""
    (tmp_path / "set").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="cannot be written in") as error:
        LocalStore(tmp_path / "set").put_new("a/b.json", [b"x"])
    assert not isinstance(error.value, ObjectExistsError)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(0, 6, b"onetwo"), (2, 4, b"et"), (4, 99, b"wo"), (6, 9, b""), (99, 100, b""), (3, 3, b"")],
    ids=["all", "middle", "past-the-end", "at-the-end", "beyond", "nothing"],
)
def test_part_of_an_object_is_read_by_its_place(store: Store, start: int, stop: int, expected: bytes) -> None:
    """Bytes [start, stop) come, and fewer where the object ends before; an object that is not there is an error."""
    store.put("x", [b"one", b"two"])
    assert expected == store.read_range("x", start, stop)
    with pytest.raises(ObjectMissingError, match=r"^none: "):
        store.read_range("none", start, stop)
