"""Faults of disks: bits that flip, space that ends, readers that look while things change."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from evenshard import work as work_module
from evenshard import worker as worker_module
from evenshard.adapters.litdata import encode_sample, pack_chunk
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import DestinationError, StoreError, VerificationError
from evenshard.core.recipe import Kind
from evenshard.inspection import Depth, verify
from tests.support import rows_set
from tests.support.chunk_sets import schema_of, store_packed
from tests.support.memory_store import MemoryStore
from tests.support.programs import ROOT, environment
from tests.support.rows_set import append_rows
from tests.support.sets import published_bytes, read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NUM_FLIPS = 1_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write a folder with one file of ten rows."""
    write_table(tmp_path / "t/0.parquet", plain_columns(10))
    return tmp_path / "t"


def test_each_flipped_bit_is_found_and_its_file_named(table: Path, tmp_path: Path) -> None:
    """1,000 single bits flipped, over chunks, receipts, outcomes, plans, manifest and index, one at a time."""
    append_rows(table, tmp_path / "set")
    write_table(table / "1.parquet", plain_columns(4, start=10))
    append_rows(table, tmp_path / "set")
    store, random = LocalStore(tmp_path / "set"), Random(4)
    names = [name for name in store.names() if name != ".evenshard/generations/g0001.json"]  # an earlier state
    for _ in range(NUM_FLIPS):
        name = random.choice(names)
        path = tmp_path / "set" / name
        whole = path.read_bytes()
        at = random.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(VerificationError) as found:
            verify(store)
        assert any(name in problem for problem in found.value.problems), (name, found.value.problems)
        path.write_bytes(whole)
    assert 14 == verify(store, depth=Depth.DEEP).counts.stored


@pytest.mark.parametrize(
    ("depth", "finds"), [(Depth.QUICK, False), (Depth.WHOLE, True), (Depth.DEEP, True)], ids=["quick", "whole", "deep"]
)
def test_quick_look_finds_what_is_missing_and_not_what_is_altered(
    table: Path, tmp_path: Path, depth: Depth, finds: bool
) -> None:
    """Every depth finds a chunk that is gone; only those that read it find one that is altered."""
    append_rows(table, tmp_path / "set")
    chunk = sorted((tmp_path / "set").glob("chunk-*"))[1]
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    if finds:
        with pytest.raises(VerificationError, match=chunk.name):
            verify(LocalStore(tmp_path / "set"), depth=depth)
    else:
        verify(LocalStore(tmp_path / "set"), depth=depth)
    chunk.unlink()
    with pytest.raises(VerificationError, match=rf"{chunk.name} is missing"):
        verify(LocalStore(tmp_path / "set"), depth=depth)


def test_deep_look_names_a_sample_that_cannot_be_read() -> None:
    """A chunk whose bytes are as signed for, but hold no sample of the declared fields, is named with the sample."""
    store = MemoryStore()
    schema = schema_of(n=Kind.INT)
    good, bad = encode_sample([bytes(8)]), encode_sample([b"odd"])
    manifest = store_packed(store, schema, [(3, b"".join(pack_chunk([good, good, bad])))])
    with pytest.raises(VerificationError) as found:
        verify(store, depth=Depth.DEEP)
    problem = f"chunk {manifest.chunks[0].name} has a sample that cannot be read, 2: its int field has 3 bytes"
    assert f"slice 0: {problem}" in found.value.problems


class FillingStore(LocalStore):
    """A folder on a disk that is full from its n-th write on."""

    writes_left = 0

    def _write(self, name: str, parts: Sequence[bytes], **options: Any) -> None:  # noqa: ANN401 - as there
        FillingStore.writes_left -= 1
        if FillingStore.writes_left < 0:
            full = OSError(errno.ENOSPC, "No space left on device")
            raise StoreError(name, f"cannot be written in {self.address}: {full.strerror}") from full
        super()._write(name, parts, **options)


def test_run_is_finished_after_the_disk_was_full_at_any_write(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full at each write of an append in turn: a clear error, the old generation whole; with space it finishes."""
    append_rows(table, tmp_path / "undisturbed")
    append_rows(table, tmp_path / "start")
    write_table(table / "1.parquet", plain_columns(4, start=10))
    append_rows(table, tmp_path / "undisturbed")
    num_failed = 0
    for num_writes in range(100):
        folder = tmp_path / f"set{num_writes}"
        copy(tmp_path / "start", folder)
        FillingStore.writes_left = num_writes
        with monkeypatch.context() as patch:
            for module in (work_module, worker_module, rows_set):
                patch.setattr(module, "open_store" if module is not rows_set else "store_of", FillingStore)
            try:
                append_rows(table, folder)
            except (StoreError, DestinationError) as error:
                assert "No space left on device" in str(error)  # noqa: PT017 - the last one does not fail
                num_failed += 1
                verify_is_old_or_new(folder)
            else:
                break
        append_rows(table, folder)
        assert published_bytes(tmp_path / "undisturbed") == published_bytes(folder)
    assert num_failed == 1 + 2 * 3 + 3  # the plan; chunk, outcomes and receipt of two slices; manifests and index


def copy(source: Path, target: Path) -> None:
    """Copy a folder."""
    for file in source.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())


def verify_is_old_or_new(folder: Path) -> None:
    """Check that readers find a whole state: the index is of the old generation, or of the new one."""
    index = json.loads((folder / "index.json").read_bytes())
    store = LocalStore(folder)
    assert sum(chunk["chunk_size"] for chunk in index["chunks"]) in {10, 14}
    for chunk in index["chunks"]:
        assert store.size(chunk["filename"]) == chunk["chunk_bytes"]


def test_manifest_and_index_are_never_seen_half_written(tmp_path: Path) -> None:
    """A reader that looks all the time, while 200 appends happen, sees whole texts and only growing sets."""
    write_table(tmp_path / "t/000.parquet", plain_columns(1))
    append_rows(tmp_path / "t", tmp_path / "set")
    command = [sys.executable, "-m", "tests.support.look", str(tmp_path / "set")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment(), **pipes) as reader:
        for number in range(1, 201):
            write_table(tmp_path / f"t/{number:03d}.parquet", plain_columns(1, start=number))
            append_rows(tmp_path / "t", tmp_path / "set")
        said, complaint = reader.communicate(timeout=60)
    assert (0, b"") == (reader.returncode, complaint)
    num_looks, last = map(int, said.split())
    assert (True, 201) == (num_looks > 200, last)
    assert list(range(201)) == [sample["row"] for sample in read_set(tmp_path / "set")]
