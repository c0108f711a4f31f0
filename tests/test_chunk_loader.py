"""The loader over chunks: what the loader over archives promises, at the speed of memory."""

from __future__ import annotations

import gc
import json
import multiprocessing
import pickle
import threading
import tracemalloc
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard import ChunkLoader, OpenWebTextLoader, shuffle, take
from evenshard.adapters.local_store import LocalStore
from evenshard.core import chunk_list, drawing
from evenshard.core.errors import DamagedChunkError, ObjectMissingError, OptionError, StoreError, UsageError
from evenshard.core.recipe import Kind
from evenshard.read_ahead import PER_THREAD, ReadAhead
from tests.support.archives import documents, packed, write_archive
from tests.support.chance import chi_square_limit, chi_squared
from tests.support.chunk_sets import NUMBERED, TEXTS, numbered, schema_of, store_chunks, texts
from tests.support.elsewhere import send_places
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


TOTAL = 12 * 100
HANG_SECONDS = 30
# Python 3.12 and later warn of any fork where there are threads, as there are under the test runner.
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut runs small, so that small sets have many."""
    monkeypatch.setattr(chunk_list, "RUN_SAMPLES", 8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of 1,200 texts in four chunks."""
    store_chunks(LocalStore(tmp_path / "set"), TEXTS, texts(12, 100, per_chunk=333))
    return tmp_path / "set"


@pytest.fixture
def memory() -> MemoryStore:
    """The same in a store that is no folder."""
    store = MemoryStore()
    store_chunks(store, TEXTS, texts(12, 100, per_chunk=333))
    return store


def threads_left() -> list[str]:
    """Name the threads that read ahead, after those that were told to end had the time to."""
    for thread in (each for each in threading.enumerate() if each.name.startswith("evenshard-read-ahead")):
        thread.join(HANG_SECONDS)
    return [each.name for each in threading.enumerate() if each.name.startswith("evenshard-read-ahead")]


def rows(samples: Any) -> list[int]:  # noqa: ANN401 - any iterable of dicts
    """Give the numbers of numbered samples."""
    return [sample["row"] for sample in samples]


# --- Every sample once


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 40), max_size=5),
    prefetch=st.integers(0, 60),
    num_workers=st.integers(0, 3),
    seed=st.integers(0),
)
def test_every_sample_comes_once_in_each_epoch(sizes: list[int], prefetch: int, num_workers: int, seed: int) -> None:
    """Whatever the chunks, the pool and the workers are, each sample comes once, the next epoch likewise."""
    store = MemoryStore()
    store_chunks(store, NUMBERED, numbered(*sizes))
    loader = ChunkLoader(store, num_workers, prefetch, random_state=seed)
    first, second = rows(loader), rows(shuffle(loader, prefetch, 1))
    assert list(range(sum(sizes))) == sorted(first) == sorted(second)
    assert len(loader) == len(first)
    assert first == rows(ChunkLoader(store, 0, prefetch, random_state=seed))


def test_order_is_the_same_with_any_number_of_workers_and_in_any_store(folder: Path, memory: MemoryStore) -> None:
    """Threads, mapping and reading change nothing in the order; another seed does."""
    orders = [
        list(ChunkLoader(place, workers, 50, random_state=1, memory_map=memory_map))
        for place, memory_map in ((folder, True), (folder, False), (memory, True))
        for workers in (0, 1, 3)
    ]
    assert TOTAL == len({place for place, _, _ in orders[0]})
    assert all(order == orders[0] for order in orders)
    assert orders[0] != list(ChunkLoader(folder, 1, 50, random_state=2))


def test_text_sample_is_place_names_and_text(folder: Path) -> None:
    """A set of texts gives samples as the archive loader does; its place is chunk and position, which find it again."""
    loader = ChunkLoader(folder, random_state=3)
    for (i, j), (member, document), text in loader:
        number = 333 * i + j
        assert (i, j) == loader.reader.locate(number)
        k = number // 100
        assert (f"{k}.xz", f"{k}/{number % 100:07d}.txt") == (member, document)
        assert text == f"text {number % 100} of {k}\n" * 20


def test_samples_are_those_of_the_archive_loader(tmp_path: Path) -> None:
    """Names and texts of a set made of archives are the very ones that the archive loader gives."""
    members = {f"owt/{n}.xz": packed(documents(9, str(n))) for n in range(3)}
    archive = write_archive(tmp_path / "a.tar", members)
    expected = [(names, text) for _, names, text in OpenWebTextLoader([archive], 0)]
    stored = [(text, "a.tar", f"owt/{member}", document) for (member, document), text in sorted(expected)]
    store_chunks(LocalStore(tmp_path / "set"), TEXTS, [stored])
    assert sorted(expected) == sorted((names, text) for _, names, text in ChunkLoader(tmp_path / "set"))


SHAPES = {
    "more-fields": (
        schema_of(lang=Kind.STR, document=Kind.STR, member=Kind.STR, archive=Kind.STR, text=Kind.STR),
        True,
    ),
    "no-archive": (schema_of(text=Kind.STR, member=Kind.STR, document=Kind.STR), False),
    "text-of-bytes": (schema_of(text=Kind.BYTES, archive=Kind.STR, member=Kind.STR, document=Kind.STR), False),
}


@pytest.mark.parametrize(("schema", "is_text"), SHAPES.values(), ids=SHAPES.keys())
def test_shape_of_a_sample_follows_from_the_fields(schema: Any, is_text: bool) -> None:  # noqa: ANN401 - a table
    """Only the four fields as texts make a set of texts; of others, samples are the reader's."""
    store = MemoryStore()
    values = {each.name: each.name.encode() if each.kind is Kind.BYTES else each.name for each in schema.fields}
    store_chunks(store, schema, [[tuple(values.values())]])
    (sample,) = ChunkLoader(store)
    assert (((0, 0), ("member", "document"), "text") if is_text else values) == sample


def test_set_may_hold_nothing() -> None:
    """A set without samples gives epochs without a sample, and is a loader all the same."""
    store = MemoryStore()
    store_chunks(store, NUMBERED, [])
    loader = ChunkLoader(store, 2)
    assert ([], [], 0, True) == (list(loader), list(loader), len(loader), bool(loader))


# --- How random


def test_any_sample_is_first_alike_often(tmp_path: Path) -> None:
    """Where all fit in the pool, each of nine samples comes first alike often in 4,000 epochs, and last too."""
    store_chunks(LocalStore(tmp_path), NUMBERED, numbered(4, 5))
    loader = ChunkLoader(tmp_path, random_state=5)
    orders = [rows(loader) for _ in range(4_000)]
    for place in (0, -1):
        assert chi_squared(list(Counter(order[place] for order in orders).values())) < chi_square_limit(8)


def test_every_order_is_alike_likely_when_all_fit_in_the_pool(tmp_path: Path) -> None:
    """All 24 orders of four samples in two chunks come alike often."""
    store_chunks(LocalStore(tmp_path), NUMBERED, numbered(1, 3))
    loader = ChunkLoader(tmp_path, random_state=6)
    seen = Counter(tuple(rows(loader)) for _ in range(12_000))
    assert chi_squared([seen[each] for each in permutations(range(4))]) < chi_square_limit(23)


def test_first_samples_come_from_all_over_the_set(folder: Path) -> None:
    """A pool that holds a tenth of the set is filled from many places: all chunks, and runs of each."""
    loader = ChunkLoader(folder, prefetch=120, random_state=1)
    places = [place for place, _, _ in take(loader, 60)]
    assert {0, 1, 2, 3} == {chunk for chunk, _ in places}
    assert len({(chunk, position // 8) for chunk, position in places}) > 12


# --- Epochs, states


def test_epochs_follow_from_the_seed_and_their_number(folder: Path) -> None:
    """Setting the epoch gives its order again; two iterators at once do not disturb each other."""
    loader = ChunkLoader(folder, prefetch=50, random_state=4)
    epochs = [list(loader) for _ in range(3)]
    loader.set_epoch(1)
    both = [(one, other) for one, other in zip(loader, loader, strict=True)]
    assert epochs[1:] == [[one for one, _ in both], [other for _, other in both]]
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize("stop", [0, 1, 333, TOTAL - 1, TOTAL])
def test_rest_is_the_same_when_it_goes_on_from_a_state(folder: Path, memory: MemoryStore, stop: int) -> None:
    """From a state as JSON, the rest comes as it would have; with other workers, store, seed and pool, too."""
    loader = ChunkLoader(folder, 0, 60, random_state=1)
    iterator = iter(loader)
    first = list(take(iterator, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state == json.loads(json.dumps(iterator.state_dict()))
    rest = list(iterator)
    assert TOTAL == len(first) + len(rest)
    other = ChunkLoader(memory, 3, 9, random_state=77)
    other.load_state_dict(state)
    assert rest == list(other)
    assert list(loader) == list(other)


def test_state_is_there_when_the_iterator_is_gone(folder: Path) -> None:
    """After a break the loader still knows where it was, and holds no sample."""
    loader = ChunkLoader(folder, 1, 60, random_state=1)
    seen = []
    for sample in loader:
        seen.append(sample)
        if len(seen) == 100:
            break
    assert loader._latest is not None
    assert {None} == {document.sample for _, document in loader._latest.begun()._pool.items}
    other = ChunkLoader(folder)
    other.load_state_dict(loader.state_dict())
    assert list(ChunkLoader(folder, 0, 60, random_state=1)) == seen + list(other)


def test_state_is_refused_when_it_does_not_fit(folder: Path, memory: MemoryStore) -> None:
    """A state of another set, of another kind, of another version, or what is none, is an error."""
    state = ChunkLoader(folder).state_dict()
    store_chunks(memory, TEXTS, texts(3, 100, per_chunk=100), generation=2)
    with pytest.raises(OptionError, match="state: it was taken of another set, or generation"):
        ChunkLoader(memory).load_state_dict(state)
    ChunkLoader(memory, generation=1).load_state_dict(state)
    with pytest.raises(OptionError, match="state: it is of version 99"):
        ChunkLoader(folder).load_state_dict({**state, "version": 99})
    for bad in ({}, OpenWebTextLoader([], 0).state_dict(), {**state, "random": None}):
        with pytest.raises(OptionError, match="state: it is not what `state_dict` gives"):
            ChunkLoader(folder).load_state_dict(bad)
    loader = ChunkLoader(folder)
    loader.load_state_dict({**state, "reading": 1, "pool": [[0, 9_999]]})
    with pytest.raises(OptionError, match=r"state: it has sample 9999 of chunk chunk-.*\.bin in a run that does not"):
        list(loader)


def test_loader_can_be_sent_to_another_process(folder: Path) -> None:
    """A pickled loader begins where the next epoch would, without iterators or maps."""
    loader = ChunkLoader(folder, random_state=1)
    next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301 - made in this line
    assert list(loader) == list(copy)


@FORKS
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_works_in_other_processes(folder: Path, method: Any) -> None:  # noqa: ANN401 - a literal
    """A loader in use is forked, or sent to a new process, and gives its next epoch there."""
    context = multiprocessing.get_context(method)
    loader, answers = ChunkLoader(folder, random_state=1), context.SimpleQueue()
    next(iter(loader))
    worker = context.Process(target=send_places, args=(loader, answers))
    worker.start()
    heard = answers.get()
    worker.join(HANG_SECONDS)
    expected = sorted(place for place, _, _ in loader)
    assert (expected, 0) == (sorted(heard), worker.exitcode)


# --- Ends and faults


@pytest.mark.parametrize("num_workers", [0, 3])
def test_nothing_is_left_however_an_epoch_ends(memory: MemoryStore, num_workers: int) -> None:
    """A break, an error, a close, an end, or letting go ends the threads, and an ended iterator stays at its end."""
    loader = ChunkLoader(memory, num_workers, 20, random_state=1)
    for _ in loader:
        break
    assert [] == threads_left()
    with loader:
        iterators = [iter(loader) for _ in range(2)]
        for iterator in iterators:
            next(iterator)
        assert 2 * num_workers == len([each for each in threading.enumerate() if "read-ahead" in each.name])
    assert [] == threads_left()
    assert [[], []] == [list(iterator) for iterator in iterators]
    last = iter(loader)
    next(last)
    del last
    gc.collect()
    assert [] == threads_left()
    assert TOTAL == len(list(loader))
    assert [] == threads_left()


class FailingStore(MemoryStore):
    """A store that fails from its n-th read on."""

    reads_left = 10**9

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read a part of an object, or fail."""
        self.reads_left -= 1
        if self.reads_left < 0:
            raise StoreError(name, "is out of reach")
        return super().read_range(name, start, stop)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_error_of_the_store_is_raised_here(num_workers: int) -> None:
    """What a thread meets is raised where the sample would have come, and no thread is left."""
    store = FailingStore()
    store_chunks(store, TEXTS, texts(12, 100, per_chunk=333))
    iterator = iter(ChunkLoader(store, num_workers, 0, random_state=1))
    next(iterator)
    store.reads_left = 50
    with pytest.raises(StoreError, match="is out of reach"):
        list(iterator)
    assert ([], []) == (list(iterator), threads_left())


def test_damaged_sample_is_an_error_that_names_it(folder: Path) -> None:
    """A chunk whose bytes were turned raises with its name and the sample; it is never left out in silence."""
    loader = ChunkLoader(folder, random_state=1)
    path = folder / loader.reader.chunks[2]
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text 5 of 7", b"text \xff of 7", 1))
    with pytest.raises(DamagedChunkError, match=rf"{path.name}, sample 39: its text is not UTF-8"):
        list(loader)
    path.unlink()
    with pytest.raises(ObjectMissingError, match=path.name):
        list(ChunkLoader(folder))


@FORKS
def test_iterator_is_refused_in_a_forked_process(memory: MemoryStore) -> None:
    """A copy of an iterator has no threads; it says so and does not wait for them."""
    context = multiprocessing.get_context("fork")
    iterator, answers = iter(ChunkLoader(memory, 2, 0, random_state=1)), context.SimpleQueue()
    next(iterator)

    def use() -> None:
        try:
            list(iterator)
        except UsageError as error:
            answers.put(str(error))

    worker = context.Process(target=use)
    worker.start()
    worker.join(HANG_SECONDS)
    assert 0 == worker.exitcode
    assert "an iterator belongs to the process that began it" in answers.get()
    assert TOTAL - 1 == len(list(iterator))


def test_threads_read_at_once_and_no_further_than_allowed() -> None:
    """Three threads read at the same time, and items come in order, each read only when it is near its turn."""
    together, begun = threading.Barrier(3), []

    def read(item: int) -> int:
        begun.append(item)
        together.wait(HANG_SECONDS)
        return item

    reading = ReadAhead(read, range(30), num_threads=3)
    for taken, (item, result) in enumerate(reading):
        assert (taken, taken) == (item, result)
        assert len(begun) <= taken + 1 + 3 * PER_THREAD
    reading.close()
    assert [] == threads_left()


def test_memory_is_bounded_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pool that may hold 1 MB, an epoch over 20 MB grows the process by little more, however many are wanted."""
    monkeypatch.setattr(drawing, "MAX_POOL_BYTES", 1_000_000)
    made: list[list[tuple[Any, ...]]] = [[(n, f"{n}" * 10_000) for n in range(k * 50, k * 50 + 50)] for k in range(10)]
    store_chunks(LocalStore(tmp_path), NUMBERED, made)
    del made
    iterator = iter(ChunkLoader(tmp_path, prefetch=10**6, random_state=1))
    next(iterator)
    tracemalloc.start()
    try:
        assert 499 == sum(1 for _ in iterator)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "workers-negative": ({"num_workers": -1}, "num_workers: -1 is too small"),
    "workers-not-whole": ({"num_workers": 1.5}, "num_workers: 1.5 is no whole number"),
    "prefetch-negative": ({"prefetch": -1}, "prefetch: -1 is too small"),
    "state-of-no-use": ({"random_state": "seed"}, "random_state: str is neither"),
    "generation-unknown": ({"generation": 8}, "generation: 8 is not kept in memory; kept are: 1"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_option_is_refused_when_it_cannot_be_used(memory: MemoryStore, options: dict[str, Any], message: str) -> None:
    """A wrong option is an error, by name, where the loader is made."""
    with pytest.raises(OptionError, match=f"^{message}"):
        ChunkLoader(memory, **options)
