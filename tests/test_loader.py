"""The loader: every document once, in an order of its seed, with all faults named."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evenshard import OpenWebTextLoader, archive_worker, shuffle, take
from evenshard.archive_readers import ProcessReaders
from evenshard.core.errors import (
    ArchiveChangedError,
    ArchiveError,
    BadSourcesError,
    BrokenTextError,
    EvenshardError,
    OptionError,
)
from evenshard.core.outcome import Reason
from evenshard.core.texts import Part
from evenshard.text_iterator import MAX_LOGGED
from tests.support.archives import (
    GOOD_TEXTS,
    Entry,
    documents,
    faulty_members,
    names_of,
    odd_texts,
    packed,
    write_archive,
    write_archives,
    write_uneven,
)
from tests.support.chance import chi_square_limit, chi_squared
from tests.support.processes import reader_processes

if TYPE_CHECKING:
    from pathlib import Path

TOTAL = 695
"""Documents in `archives`."""
UNEVEN = [*(f"a/{index:07d}.txt" for index in range(7)), "b/0000000.txt"]


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """Three archives with five members each, of unlike sizes; 15 members, 695 documents."""
    paths = []
    for number in range(3):
        sizes = [1 + 17 * member * (1 + number % 2) for member in range(5)]
        members = {f"owt/{number}-{m}.xz": packed(documents(size, f"{number}-{m}")) for m, size in enumerate(sizes)}
        paths.append(write_archive(tmp_path / f"subset{number:02d}.tar", members))
    return paths


# --- Every document once


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("buffer", [0, 1, 4, 1000])
def test_every_document_comes_once_in_each_epoch(tmp_path: Path, num_workers: int, buffer: int) -> None:
    """With more workers than members and any buffer, each of eight documents comes once in each epoch.

    The same seed gives the same order, also through `shuffle`; the next epoch has another one.
    """
    path = write_uneven(tmp_path / "owt.tar")
    epochs = []
    for _ in range(2):
        loader = OpenWebTextLoader([path], num_workers, prefetch=buffer, random_state=11)
        epochs += [names_of(loader), names_of(shuffle(loader, buffer, 12))]
    assert all(sorted(names) == UNEVEN for names in epochs)
    assert epochs[:2] == epochs[2:]
    assert epochs[0] != epochs[1]
    assert [] == reader_processes()


def test_sample_is_places_names_and_text(tmp_path: Path) -> None:
    """Places count folders; the member's name is its last part, the document's the whole one; texts stay the same."""
    (sample,) = [each for each in OpenWebTextLoader([write_uneven(tmp_path / "a.tar")], 0) if each[0] == (2, 0)]
    assert ((2, 0), ("b.xz", "b/0000000.txt"), "text 0 of b\n" * 20) == sample
    path = write_archive(tmp_path / "odd.tar", {"m.xz": odd_texts()})
    assert GOOD_TEXTS == {name: text for _, (_, name), text in OpenWebTextLoader([path], 1)}


def test_order_is_the_same_with_any_number_of_workers(archives: list[Path]) -> None:
    """Workers that meet members of unlike sizes change nothing in the order; nor does reading here."""
    orders = [list(OpenWebTextLoader(archives, workers, 50, random_state=1)) for workers in (0, 1, 2, 3, 7, 2)]
    assert TOTAL == len(orders[0])
    assert all(order == orders[0] for order in orders)
    assert orders[0] != list(OpenWebTextLoader(archives, 2, 50, random_state=2))


def test_samples_of_many_members_are_mixed(archives: list[Path]) -> None:
    """The first documents come from many members: the pool is filled before any is drawn."""
    loader = OpenWebTextLoader(archives, 2, random_state=1)
    assert len({member for _, (member, _), _ in take(loader, 60)}) > 8


def test_any_document_is_first_alike_often(tmp_path: Path) -> None:
    """Where all fit in the pool, each of eight documents comes first alike often in 3,000 epochs, and last too."""
    loader = OpenWebTextLoader([write_uneven(tmp_path / "a.tar")], 0, random_state=5)
    orders = [names_of(loader) for _ in range(3_000)]
    for place in (0, -1):
        assert chi_squared(list(Counter(order[place] for order in orders).values())) < chi_square_limit(7)


def test_all_workers_have_work_when_there_are_few_archives(tmp_path: Path) -> None:
    """Twenty workers on two archives of twenty members: each has two to read, at once."""
    paths = write_archives(tmp_path, archives=2, members=20, count=3)
    iterator = iter(OpenWebTextLoader(paths, 20, prefetch=1))
    next(iterator)
    readers = iterator._parts
    assert isinstance(readers, ProcessReaders)
    assert 20 == len(reader_processes()) == len({worker.child.pid for worker in readers._workers})
    assert {2: 19, 1: 1} == Counter(Counter(readers._turns).values())
    assert 119 == sum(1 for _ in iterator)
    assert [] == reader_processes()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_archives_may_hold_nothing(tmp_path: Path, num_workers: int) -> None:
    """No archive, an archive without members and members without documents give an epoch without a sample."""
    empty = write_archive(tmp_path / "empty.tar", {})
    bare = write_archive(tmp_path / "bare.tar", {"m.xz": packed([])})
    for subsets in ([], [empty], [bare], [empty, bare]):
        loader = OpenWebTextLoader(subsets, num_workers)
        assert ([], 0) == (list(loader), len(loader))


def test_worker_hands_over_no_more_than_allowed(tmp_path: Path) -> None:
    """Whoever is ahead waits: before its turn a worker hands over at most `max_ahead` documents, and one part."""
    path = write_archive(tmp_path / "a.tar", {f"{n}.xz": packed(documents(300, str(n))) for n in range(6)})
    iterator = iter(OpenWebTextLoader([path], 3, prefetch=100, random_state=1))
    most = 0
    for _ in iterator:
        readers = iterator._parts
        assert isinstance(readers, ProcessReaders)
        waiting = [[each for each in worker.parts if isinstance(each, Part)] for worker in readers._workers]
        most = max(most, *(sum(len(part.documents) for part in parts) for parts in waiting))
    assert 64 <= most <= 100 + 64


# --- Epochs and seeds


def test_generator_of_numpy_decides_the_order(archives: list[Path]) -> None:
    """A generator in the same state gives the same order, and goes on in the next loader that it is given to."""
    rng = np.random.default_rng(3)
    orders = [
        list(OpenWebTextLoader(archives, 0, random_state=state)) for state in (np.random.default_rng(3), rng, rng)
    ]
    assert orders[0] == orders[1]
    assert orders[1] != orders[2]


def test_order_can_be_repeated_when_no_seed_was_given(archives: list[Path]) -> None:
    """A loader says which seed it took; without one, each has another."""
    first, second = OpenWebTextLoader(archives, 0), OpenWebTextLoader(archives, 0)
    assert first.seed != second.seed
    assert list(first) == list(OpenWebTextLoader(archives, 0, random_state=first.seed))


def test_epoch_is_the_one_that_was_set(archives: list[Path]) -> None:
    """Each `iter` begins the next epoch, unless one is set."""
    loader = OpenWebTextLoader(archives, 0, random_state=1)
    first, second = list(loader), list(loader)
    loader.set_epoch(1)
    assert second == list(loader)
    loader.set_epoch(0)
    assert first == list(loader)
    assert first != second


def test_several_iterators_run_at_once(archives: list[Path]) -> None:
    """Iterators of one loader are epochs of their own, each with its counts, whoever is ahead."""
    loader = OpenWebTextLoader(archives, 2, 20, random_state=1)
    one, two, unstarted = iter(loader), iter(loader), iter(loader)
    turns = [next(one) for _ in range(5)] + [next(two) for _ in range(50)]
    assert 4 == len(reader_processes())
    rest_one, rest_two = list(one), list(two)
    again = OpenWebTextLoader(archives, 0, 20, random_state=1)
    assert list(again) == turns[:5] + rest_one
    assert list(again) == turns[5:] + rest_two
    assert (TOTAL, TOTAL, 0) == (one.counts.kept, two.counts.kept, unstarted.counts.kept)


def test_length_is_known_after_an_epoch(tmp_path: Path) -> None:
    """Before one was read to its end the length is unknown, and a loader is true all the same."""
    loader = OpenWebTextLoader([write_uneven(tmp_path / "a.tar")], 0)
    with pytest.raises(TypeError, match="known once an epoch was read"):
        len(loader)
    next(iter(loader))
    with pytest.raises(TypeError):
        len(loader)
    assert loader
    assert 8 == len(list(loader)) == len(loader)
    assert OpenWebTextLoader([])


# --- Going on in the middle


@pytest.mark.parametrize("stop", [0, 1, 7, 120, TOTAL - 1, TOTAL])
@pytest.mark.parametrize("workers", [(0, 0), (2, 3), (3, 0)], ids=str)
def test_rest_comes_as_it_would_have_when_a_state_is_loaded(
    archives: list[Path], stop: int, workers: tuple[int, int]
) -> None:
    """A state taken after some samples, through JSON and in a new loader, gives the very rest of the epoch.

    So it does with another number of workers and another seed and pool in the new loader; its next epoch, too.
    """
    loader = OpenWebTextLoader(archives, workers[0], 60, random_state=1)
    iterator = iter(loader)
    first = list(take(iterator, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state == json.loads(json.dumps(iterator.state_dict()))
    rest = list(iterator)
    assert TOTAL == len(first) + len(rest)
    other = OpenWebTextLoader(archives, workers[1], 9, random_state=77)
    other.load_state_dict(state)
    assert rest == list(other)
    assert loader.counts == other.counts
    assert list(loader) == list(other)


def test_state_is_there_when_the_iterator_is_gone(archives: list[Path]) -> None:
    """After a break, when the processes have ended, the loader still knows where it was, and holds no text."""
    loader = OpenWebTextLoader(archives, 2, 60, random_state=1)
    seen = []
    for sample in loader:
        seen.append(sample)
        if len(seen) == 100:
            break
    assert [] == reader_processes()
    other = OpenWebTextLoader(archives, 0)
    other.load_state_dict(loader.state_dict())
    assert list(OpenWebTextLoader(archives, 0, 60, random_state=1)) == seen + list(other)
    assert loader._latest is not None
    assert {b""} == {document.data for _, document in loader._latest.begun()._pool.items}


def test_state_is_forgotten_when_another_epoch_is_set(archives: list[Path]) -> None:
    """Setting the epoch of the state, as loops do, keeps it; another one begins that from its start."""
    loader = OpenWebTextLoader(archives, 0, random_state=1)
    whole = list(loader)
    iterator = iter(loader)
    first = list(take(iterator, 100))
    state, rest = loader.state_dict(), list(iterator)
    for epoch, expected in ((1, rest), (0, whole)):
        other = OpenWebTextLoader(archives, 0)
        other.load_state_dict(state)
        other.set_epoch(epoch)
        assert expected == list(other)
    assert TOTAL == len(first) + len(rest)


def test_state_is_refused_when_it_is_of_other_archives(archives: list[Path]) -> None:
    """A state does not silently fit something else; nor is anything else a state."""
    state = OpenWebTextLoader(archives, 0).state_dict()
    with pytest.raises(OptionError, match="state: it was taken of other archives"):
        OpenWebTextLoader(archives[:2], 0).load_state_dict(state)
    with pytest.raises(OptionError, match="state: it is not what"):
        OpenWebTextLoader(archives, 0).load_state_dict({"epoch": 1})


def test_state_goes_on_where_the_archives_were_moved(archives: list[Path], tmp_path: Path) -> None:
    """Archives are told by name and size, not by their folder."""
    loader = OpenWebTextLoader(archives, 0, random_state=1)
    iterator = iter(loader)
    list(take(iterator, 30))
    state, rest = loader.state_dict(), list(iterator)
    (tmp_path / "elsewhere").mkdir()
    moved = [path.rename(tmp_path / "elsewhere" / path.name) for path in archives]
    other = OpenWebTextLoader(moved, 1)
    other.load_state_dict(state)
    assert rest == list(other)


def test_loader_can_be_sent_to_another_process(archives: list[Path]) -> None:
    """A pickled loader begins where the next epoch would, without iterators or processes."""
    loader = OpenWebTextLoader(archives, 2, random_state=1)
    iterator = iter(loader)
    next(iterator)
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301 - made in this line
    assert list(loader) == list(copy)
    iterator.close()


# --- Faults


@pytest.mark.parametrize("num_workers", [0, 2])
def test_broken_texts_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture, num_workers: int) -> None:
    """By default bad members and texts end nothing: counts add up, and each is a value and a line of the log."""
    paths = [
        write_archive(tmp_path / "faulty.tar", faulty_members()),
        write_archive(tmp_path / "odd.tar", {"texts.xz": odd_texts()}),
    ]
    loader = OpenWebTextLoader(paths, num_workers, random_state=1)
    assert 13 + 6 == len(list(loader)) == len(loader)
    counts = loader.counts
    assert counts.adds_up
    assert (11, 7, {"broken-archive": 2, "not-an-archive": 2}) == (
        counts.members,
        counts.members_read,
        counts.members_failed,
    )
    assert (25, 19, {"empty-text": 2}, {"not-utf-8": 4}) == (
        counts.documents,
        counts.kept,
        counts.skipped,
        counts.failed,
    )
    assert sorted(map(str, loader.failures)) == sorted(
        record.getMessage() for record in caplog.records if "epoch" not in record.msg
    )
    assert f"{paths[1]}, member texts.xz, document k-utf16.txt: not-utf-8: invalid start byte at byte 0" in caplog.text
    assert "epoch 0: 19 documents kept, 2 skipped, 4 failed; 4 members failed" in caplog.text
    before = loader.counts, sorted(map(str, loader.failures))
    list(loader)
    assert before == (loader.counts, sorted(map(str, loader.failures)))


def test_log_is_not_flooded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a hundred bad texts the first twenty have a line each, and one line sums up."""
    entries = [Entry(name=f"{number}.txt", data=b"\xff") for number in range(100)]
    loader = OpenWebTextLoader([write_archive(tmp_path / "a.tar", {"m.xz": packed(entries)})], 0)
    with caplog.at_level(logging.WARNING):
        assert [] == list(loader)
    assert MAX_LOGGED + 1 == len(caplog.records)
    assert 100 == loader.counts.num_failed == len(loader.failures)


RAISED = {
    "member": ({"bad.xz": b"no archive"}, None, Reason.NOT_AN_ARCHIVE),
    "text": ({"bad.xz": packed([Entry(name="x.txt", data=b"\xff")])}, "x.txt", Reason.NOT_UTF_8),
}


@pytest.mark.parametrize(("bad", "document", "reason"), RAISED.values(), ids=RAISED.keys())
@pytest.mark.parametrize("num_workers", [0, 2])
def test_broken_text_is_raised_when_errors_are_wanted(
    tmp_path: Path, num_workers: int, bad: dict[str, bytes], document: str | None, reason: Reason
) -> None:
    """With errors="raise" the first broken text ends the epoch, with archive, member and document named."""
    path = write_archive(tmp_path / "a.tar", {"good.xz": packed(documents(100, "g")), **bad})
    for seed in range(3):
        iterator = iter(OpenWebTextLoader([path], num_workers, random_state=seed, errors="raise"))
        with pytest.raises(BrokenTextError, match=r"a\.tar, member bad\.xz.*errors='count' goes on") as raised:
            list(iterator)
        failure = raised.value.failure
        assert (str(path), "bad.xz", document, reason) == (
            failure.archive,
            failure.member,
            failure.document,
            failure.reason,
        )
        assert ([], []) == (list(iterator), reader_processes())


def test_cut_archive_is_raised_when_errors_are_wanted(tmp_path: Path) -> None:
    """What is broken at the outside counts, and is raised before the first document; after a state was loaded, too."""
    path = write_archive(tmp_path / "a.tar", {"a.xz": packed(documents(2, "a")), "b.xz": packed(documents(3, "b"))})
    path.write_bytes(path.read_bytes()[: 3 * 512 + 100])
    loader = OpenWebTextLoader([path], 1)
    assert (2, 1, 1) == (len(list(loader)), loader.counts.members_read, loader.counts.num_members_failed)
    strict = OpenWebTextLoader([path], 1, errors="raise")
    strict.load_state_dict(OpenWebTextLoader([path], 1).state_dict())
    for each in (strict, OpenWebTextLoader([path], 1, errors="raise")):
        with pytest.raises(BrokenTextError, match=r"a\.tar, member b\.xz: broken-archive: it is cut"):
            next(iter(each))


def test_files_that_are_no_archives_are_named_all_at_once(tmp_path: Path, archives: list[Path]) -> None:
    """Missing files and files of another kind are one error before the first document, whatever `errors` says."""
    (tmp_path / "page.tar").write_text("<!doctype html>")
    (tmp_path / "empty.tar").touch()
    bad = [tmp_path / "missing.tar", tmp_path / "page.tar", tmp_path / "empty.tar", tmp_path]
    loader = OpenWebTextLoader([bad[0], *archives, *bad[1:]], 2)
    with pytest.raises(BadSourcesError) as raised:
        next(iter(loader))
    assert [str(path) for path in bad] == [path for path, _ in raised.value.problems]
    assert [
        "No such file or directory",
        "not a plain tar: it looks like a web page",
        "not a plain tar: it is empty",
        "it is no plain file",
    ] == [problem for _, problem in raised.value.problems]
    assert [] == reader_processes()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_archive_that_changes_or_goes_is_an_error(tmp_path: Path, archives: list[Path], num_workers: int) -> None:
    """What a worker cannot read is raised here, with archive and member named, and nothing is left behind."""
    loader = OpenWebTextLoader(archives, num_workers, prefetch=10, random_state=8)
    list(loader)
    content = archives[1].read_bytes()
    archives[1].write_bytes(content + bytes(512))
    with pytest.raises(ArchiveChangedError, match=r"subset01\.tar, member owt/1-\d\.xz: the archive has changed"):
        list(loader)
    archives[1].unlink()
    heard = set()
    for _ in range(3):
        loader.set_epoch(5)
        with pytest.raises(ArchiveError, match=r"subset01\.tar, member owt/1-\d\.xz: it cannot be read: No such file"):
            list(loader)
        heard.add(loader.state_dict()["num_drawn"])
    assert 1 == len(heard)
    assert [] == reader_processes()
    assert not list(tmp_path.glob("*.txt"))


def test_fault_of_a_worker_itself_comes_with_archive_and_member(
    monkeypatch: pytest.MonkeyPatch, archives: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever a worker raises is sent in the place of a part; its traceback goes to standard error."""
    sent: list[EvenshardError] = []

    def fail(_: object) -> Any:  # noqa: ANN401 - never returns
        raise MemoryError("no room\nat all")

    monkeypatch.setattr(archive_worker, "read_member", fail)
    monkeypatch.setattr(archive_worker, "send", lambda _, message: sent.append(message))
    loader = OpenWebTextLoader(archives, 0)
    archive_worker._read(loader._begin(0, None).members_to_read()[0], -1)
    (error,) = sent
    assert isinstance(error, ArchiveError)
    assert str(error).endswith("MemoryError: no room")
    assert "Traceback" in capfd.readouterr().err


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "one-path": ({"subsets": "a.tar"}, "subsets: give a list of archives, not one path"),
    "no-list": ({"subsets": 3}, "subsets: give a list of paths: 'int'"),
    "no-paths": ({"subsets": [None]}, "subsets: give a list of paths: "),
    "workers-negative": ({"num_workers": -1}, "num_workers: -1 is too small"),
    "workers-not-whole": ({"num_workers": 1.5}, "num_workers: 1.5 is no whole number"),
    "prefetch-negative": ({"prefetch": -1}, "prefetch: -1 is too small"),
    "state-of-no-use": ({"random_state": "seed"}, "random_state: str is neither"),
    "errors-unknown": ({"errors": "ignore"}, "errors: 'ignore' is neither 'count' nor 'raise'"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_option_is_refused_when_it_cannot_be_used(options: dict[str, Any], message: str) -> None:
    """A wrong option is an error, by name, where the loader is made."""
    with pytest.raises(OptionError, match=f"^{message}"):
        OpenWebTextLoader(**{"subsets": [], **options})
