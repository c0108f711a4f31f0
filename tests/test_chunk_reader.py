"""The reader: any sample of a published set by its number, from any kind of store, believing no chunk."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard import ChunkReader
from evenshard.adapters import chunk_files
from evenshard.adapters.litdata import encode_sample, pack_chunk
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import DamagedChunkError, ObjectMissingError, OptionError, VerificationError
from evenshard.core.recipe import NONE_VALUES, Container, Kind
from evenshard.planning import Request
from tests.support.chunk_sets import NUMBERED, numbered, schema_of, store_chunks, store_packed
from tests.support.elsewhere import sum_rows
from tests.support.memory_store import MemoryStore
from tests.support.rows_set import append_rows
from tests.support.sets import publish_table
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenshard.core.store import Store

ROOT = Path(__file__).parents[1]
SIZES = (5, 1, 300, 4)
TOTAL = sum(SIZES)
# Python 3.12 and later warn of any fork where there are threads, as there are under the test runner.
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def as_dicts(samples: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Give numbered samples as a reader gives them."""
    return [dict(zip(("row", "text"), sample, strict=True)) for sample in samples]


EXPECTED = as_dicts(sample for chunk in numbered(*SIZES) for sample in chunk)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of four chunks, one of which has two runs."""
    store_chunks(LocalStore(tmp_path / "set"), NUMBERED, numbered(*SIZES))
    return tmp_path / "set"


@pytest.fixture(params=["mapped", "read", "memory"])
def reader(request: pytest.FixtureRequest, folder: Path) -> ChunkReader:
    """A reader of it by memory map, by reading parts of files, and of a store that is no folder."""
    if request.param == "memory":
        store = MemoryStore()
        store_chunks(store, NUMBERED, numbered(*SIZES))
        return ChunkReader(store)
    return ChunkReader(folder, memory_map=request.param == "mapped")


# --- Samples


def test_samples_come_by_number_and_in_order(reader: ChunkReader) -> None:
    """Every number gives its sample, from the end too; iterating and slices give them in order."""
    assert TOTAL == len(reader)
    assert EXPECTED == list(reader) == reader[:]
    numbers = list(range(-TOTAL, TOTAL))
    Random(1).shuffle(numbers)
    assert [EXPECTED[number] for number in numbers] == [reader[number] for number in numbers]
    assert EXPECTED[-3:1:-7] == reader[-3:1:-7]
    assert EXPECTED[::-1] == list(reversed(reader))
    assert EXPECTED[7] == reader[cast("int", np.int64(7))]


def test_number_out_of_range_is_an_error(reader: ChunkReader) -> None:
    """What is not there is an IndexError, as a list's, and names the range; a number that is none is a TypeError."""
    for number in (TOTAL, -TOTAL - 1, 10**30):
        with pytest.raises(IndexError, match=rf"sample {number} is out of range: there are {TOTAL}"):
            reader[number]
    with pytest.raises(TypeError):
        reader["row"]  # type: ignore[call-overload]


def test_place_of_a_sample_is_its_chunk_and_position(reader: ChunkReader) -> None:
    """Chunks are told by their number in the manifest, which has their names; negative numbers are as in a list."""
    assert [(0, 4), (1, 0), (2, 299), (3, 3)] == [reader.locate(number) for number in (4, 5, 305, -1)]
    assert 4 == len(reader.chunks)
    assert all(name.startswith("chunk-g0001-s000000-00") for name in reader.chunks)


def test_reader_tells_its_fields(reader: ChunkReader) -> None:
    """Names and types as declared, in order, and which generation it is."""
    assert {"row": "int", "text": "str"} == reader.fields
    assert (1, NUMBERED) == (reader.generation, reader.schema)


@pytest.mark.parametrize(
    ("container", "expected"),
    [(Container.DICT, {"a": 1, "b": "x"}), (Container.LIST, [1, "x"]), (Container.TUPLE, (1, "x"))],
    ids=list(Container),
)
def test_sample_has_the_declared_shape(container: Container, expected: object) -> None:
    """A dict, a list or a tuple, as litdata's reader gives it."""
    store = MemoryStore()
    store_chunks(store, schema_of(container, a=Kind.INT, b=Kind.STR), [[(1, "x")]])
    assert expected == ChunkReader(store)[0]


VALUES = {
    Kind.STR: st.text(st.characters(exclude_categories=["Cs"])),
    Kind.BYTES: st.binary(max_size=200),
    Kind.INT: st.integers(-(2**63), 2**63 - 1),
    Kind.FLOAT: st.floats(allow_nan=False),
    Kind.BOOL: st.booleans(),
    Kind.PIL: st.binary(max_size=20),
}
EVERY_KIND = schema_of(Container.DICT, **{kind.value: kind for kind in VALUES})


@settings(max_examples=60, deadline=None, derandomize=True)
@given(chunks=st.lists(st.lists(st.tuples(*VALUES.values()), min_size=1, max_size=6), max_size=5))
def test_samples_come_back_whatever_they_hold(chunks: list[list[tuple[Any, ...]]]) -> None:
    """Values of every type come back equal and as Python's own: text, bytes, int, float, bool."""
    store = MemoryStore()
    store_chunks(store, EVERY_KIND, chunks)
    reader = ChunkReader(store)
    expected = [dict(zip([kind.value for kind in VALUES], sample, strict=True)) for each in chunks for sample in each]
    assert expected == list(reader) == [reader[number] for number in range(len(expected))]
    types = (str, bytes, int, float, bool, bytes)
    assert {types} >= {tuple(map(type, sample.values())) for sample in reader}


def test_missing_value_comes_back_as_stated() -> None:
    """A value that was missing is what `NONE_VALUES` states for its type."""
    store = MemoryStore()
    store_chunks(store, EVERY_KIND, [[(None,) * len(VALUES)]])
    sample = ChunkReader(store)[0]
    assert math.isnan(sample.pop("float"))
    assert {kind.value: value for kind, value in NONE_VALUES.items() if kind is not Kind.FLOAT} == sample


def test_published_set_reads_back(tmp_path: Path) -> None:
    """What a run published is what its table holds."""
    source = write_table(tmp_path / "t.parquet", plain_columns(50))
    publish_table(source, tmp_path / "set", Request(transform="rows", rows_per_slice=7))
    reader = ChunkReader(str(tmp_path / "set"))
    assert (list(range(50)), 8) == ([sample["row"] for sample in reader], len(reader.chunks))


@pytest.mark.parametrize("schema", [NUMBERED, None], ids=["with-fields", "without"])
def test_set_without_samples_is_empty(schema: Any) -> None:  # noqa: ANN401 - one or none
    """Nothing comes of nothing."""
    store = MemoryStore()
    store_chunks(store, schema, [])
    reader = ChunkReader(store)
    assert (0, [], []) == (len(reader), list(reader), reader[:])
    with pytest.raises(IndexError):
        reader[0]


# --- Generations


def test_reader_stays_with_its_generation(tmp_path: Path) -> None:
    """A reader that is open goes on while the set grows; others open the new state, or the old one by its number."""
    for start in (0, 5):
        write_table(tmp_path / f"t/{start}.parquet", plain_columns(5, start=start))
        append_rows(tmp_path / "t", tmp_path / "set")
        if start == 0:
            reader = ChunkReader(tmp_path / "set")
            first = reader[0]
    assert list(range(5)) == [sample["row"] for sample in reader]
    assert list(range(5)) == [sample["row"] for sample in ChunkReader(tmp_path / "set", 1)]
    assert list(range(10)) == [sample["row"] for sample in ChunkReader(tmp_path / "set")]
    assert (1, first) == (reader.generation, reader[0])


def test_mapped_chunks_outlive_a_sweep(folder: Path) -> None:
    """What is mapped can be read when its file is gone; of another chunk it is said what happened."""
    reader = ChunkReader(folder)
    assert EXPECTED[0] == reader[0]
    for name in reader.chunks:
        (folder / name).unlink()
    assert EXPECTED[1:5] == reader[1:5]
    message = rf"^{reader.chunks[1]}: is not in .*; if generation 1 was swept, open the current one$"
    with pytest.raises(ObjectMissingError, match=message):
        reader[5]


def test_set_that_is_not_there_is_an_error(tmp_path: Path, folder: Path) -> None:
    """No set, no such generation, and a manifest that cannot be are told apart."""
    with pytest.raises(ObjectMissingError, match=r"^manifest\.json: is not in "):
        ChunkReader(tmp_path / "none")
    with pytest.raises(OptionError, match=r"^generation: 7 is not kept in .*; kept are: 1$"):
        ChunkReader(folder, 7)
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"num_samples": 300', b'"num_samples": -3'))
    with pytest.raises(VerificationError, match="its chunks cannot be"):
        ChunkReader(folder)


# --- Damage


def a_chunk(*samples: bytes) -> bytes:
    """Pack samples of one text."""
    return b"".join(pack_chunk([encode_sample([each]) for each in samples]))


WHOLE = a_chunk(b"one", b"two", b"three")
"""Offsets 20, 27, 34, 43; a sample is a length and a text."""


def with_number(position: int, number: int) -> bytes:
    """Put a 32-bit number into the whole chunk."""
    return WHOLE[:position] + struct.pack("<I", number) + WHOLE[position + 4 :]


DAMAGED: dict[str, tuple[bytes, int | None, str]] = {
    "cut": (WHOLE[:-1], None, "has 42 bytes instead of 43"),
    "longer": (WHOLE + b"x", None, "has 44 bytes instead of 43"),
    "empty": (b"", None, "has 0 bytes instead of 43"),
    "count-huge": (with_number(0, 2**32 - 1), None, "holds 4294967295 samples instead of 3"),
    "count-less": (with_number(0, 2), None, "holds 2 samples instead of 3"),
    "offset-huge": (with_number(12, 2**32 - 1), 1, "its place in the chunk cannot be"),
    "offset-into-table": (with_number(4, 0), 0, "its place in the chunk cannot be"),
    "offset-shifted": (with_number(4, 21), 0, "its place in the chunk cannot be"),
    "offset-back": (with_number(8, 35), 1, "its place in the chunk cannot be"),
    "end-early": (with_number(16, 42), 2, "its place in the chunk cannot be"),
    "length-huge": (with_number(27, 2**32 - 1), 1, "its fields do not fill it"),
    "length-less": (with_number(20, 2), 0, "its fields do not fill it"),
    "text-not-utf-8": (WHOLE.replace(b"two", b"t\xffo"), 1, "its text is not UTF-8"),
}


@pytest.mark.parametrize("kind", ["mapped", "read", "memory"])
@pytest.mark.parametrize(("data", "sample", "problem"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_chunk_is_an_error_that_names_it(
    tmp_path: Path, kind: str, data: bytes, sample: int | None, problem: str
) -> None:
    """Each kind of damage raises with chunk and sample, by number and by iteration, and sound samples still come."""
    store: Store = MemoryStore() if kind == "memory" else LocalStore(tmp_path)
    manifest = store_packed(store, schema_of(text=Kind.STR), [(1, a_chunk(b"zero")), (3, WHOLE)])
    name = manifest.chunks[1].name
    store.put(name, [data])
    reader = ChunkReader(store, memory_map=kind == "mapped")
    assert {"text": "zero"} == reader[0]
    for read in (lambda: reader[1 + (sample or 0)], lambda: list(reader)):
        with pytest.raises(DamagedChunkError, match=problem) as raised:
            read()
        assert (name, sample) == (raised.value.chunk, raised.value.sample)
        assert str(raised.value).startswith(f"chunk {name}" + (f", sample {sample}: " if sample is not None else ": "))
    far = () if sample is None else {0, 1, 2} - {sample - 1, sample, sample + 1}
    for other in far:
        assert ("one", "two", "three")[other] == reader[1 + other]["text"]


FIELDS = {
    "int-short": (Kind.INT, b"1234567"),
    "int-long": (Kind.INT, b"123456789"),
    "float-short": (Kind.FLOAT, b"1234"),
    "bool-empty": (Kind.BOOL, b""),
    "bool-long": (Kind.BOOL, b"\1\0"),
}


@pytest.mark.parametrize(("kind", "payload"), FIELDS.values(), ids=FIELDS.keys())
def test_number_of_another_length_is_damage(kind: Kind, payload: bytes) -> None:
    """A number has one length; nothing else is read as one."""
    store = MemoryStore()
    store_packed(store, schema_of(n=kind), [(1, a_chunk(payload))])
    with pytest.raises(DamagedChunkError, match=rf"sample 0: its {kind.value} field has {len(payload)} bytes"):
        ChunkReader(store)[0]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_damage_anywhere_gives_samples_or_the_named_error(data: st.DataObject) -> None:
    """Whatever bits are turned, each sample is one of its own length or the one kind of error, and nothing else."""
    damaged = bytearray(WHOLE)
    for place in data.draw(st.lists(st.integers(0, 8 * len(WHOLE) - 1), min_size=1, max_size=8)):
        damaged[place // 8] ^= 1 << place % 8
    store = MemoryStore()
    manifest = store_packed(store, schema_of(text=Kind.BYTES), [(3, WHOLE)])
    store.put(manifest.chunks[0].name, [bytes(damaged)])
    reader = ChunkReader(store)
    told = []
    for number in range(3):
        try:
            told.append(number if len(reader[number]["text"]) <= len(WHOLE) - 24 else -1)
        except DamagedChunkError as error:
            told.append(number if error.sample is None else error.sample)
    assert [0, 1, 2] == told


def test_manifest_that_claims_too_many_samples_costs_nothing(tmp_path: Path) -> None:
    """A table that would be longer than its chunk is never read, whatever manifest and header say."""
    store = LocalStore(tmp_path)
    store_packed(store, NUMBERED, [(2**30, struct.pack("<I", 2**30) + bytes(100))])
    for memory_map in (True, False):
        reader = ChunkReader(store, memory_map=memory_map)
        assert 2**30 == len(reader)
        with pytest.raises(DamagedChunkError, match="is shorter than its table of offsets"):
            reader[2**29]


# --- Many chunks, threads, processes


def open_files() -> int:
    """Count this process's open files."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


def test_few_chunks_are_mapped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many chunks are read, only so many files are open, and none when the reader is closed or gone."""
    monkeypatch.setattr(chunk_files, "MAX_MAPPED", 5)
    chunks = numbered(*[2] * 40)
    store_chunks(LocalStore(tmp_path), NUMBERED, chunks)
    before = open_files()
    with ChunkReader(tmp_path) as reader:
        for number in Random(3).choices(range(80), k=400):
            assert number == reader[number]["row"]
            assert open_files() <= before + 5
        assert before + 5 == open_files()
    assert before == open_files()
    assert 79 == reader[-1]["row"]
    del reader
    gc.collect()
    assert before == open_files()


def test_reader_is_for_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads that push each other's chunks out get every sample right."""
    monkeypatch.setattr(chunk_files, "MAX_MAPPED", 2)
    store_chunks(LocalStore(tmp_path), NUMBERED, numbered(*[2] * 20))
    reader, wrong = ChunkReader(tmp_path), list[int]()

    def read(seed: int) -> None:
        wrong.extend(number for number in Random(seed).choices(range(40), k=2_000) if reader[number]["row"] != number)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert [] == wrong
    assert len(reader._files._views) <= 2 + len(threads)  # type: ignore[attr-defined]


@FORKS
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_reader_works_in_other_processes(folder: Path, method: Any) -> None:  # noqa: ANN401 - a literal
    """A reader in use is forked, or sent to a new process, and reads there, and here meanwhile."""
    context = multiprocessing.get_context(method)
    reader, answers = ChunkReader(folder), context.SimpleQueue()
    reader[0]
    workers = [context.Process(target=sum_rows, args=(reader, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert EXPECTED == list(reader)
    for worker in workers:
        worker.join(60)
        assert 0 == worker.exitcode
    assert [sum(range(TOTAL))] * 2 == [answers.get() for _ in workers]


def test_reader_is_small_when_it_is_pickled(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy reads the same state without a manifest, from wherever its process is; no map goes with it."""
    monkeypatch.chdir(folder.parent)
    reader = ChunkReader("set")
    list(reader)
    data = pickle.dumps(reader)
    assert len(data) < 2_000
    (folder / "manifest.json").unlink()
    monkeypatch.chdir("/")
    copy = pickle.loads(data)  # noqa: S301 - made above
    assert (EXPECTED, reader.generation, reader.fields) == (list(copy), copy.generation, copy.fields)
    assert tmp_path in folder.parents


def test_reading_needs_neither_numpy_nor_the_orchestrator(folder: Path) -> None:
    """Opening and reading loads neither NumPy, Prefect, Polars, Pillow nor pyarrow; and no pickle is read."""
    code = (
        "import sys\nsys.modules['numpy'] = sys.modules['pickle'] = None\n"
        f"from evenshard import ChunkReader\nprint(len(list(ChunkReader({str(folder)!r}))))\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    count, names = done.stdout.splitlines()
    assert str(TOTAL) == count
    assert not {"prefect", "polars", "PIL", "pyarrow", "httpx"} & set(names.split())
