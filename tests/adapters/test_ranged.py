"""Stand-ins for files elsewhere: what is kept, for how long, and what is said when there is no room."""

from __future__ import annotations

import resource
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.ranged import MAX_STAND_INS, FileFacts, StandIn, StandIns, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable


def num_open() -> int:
    """Count the descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Zeros:
    """A file of so many zeros."""

    def __init__(self, num_bytes: int) -> None:
        self.facts = FileFacts(num_bytes=num_bytes, version="1")
        self.reads: list[tuple[int, int]] = []

    def open(self, write: Callable[[int, bytes], None]) -> FileFacts:
        """Give the last byte."""
        write(self.facts.num_bytes - 1, b"\0")
        return self.facts

    def read(self, start: int, stop: int, write: Callable[[int, bytes], None]) -> None:
        """Give a range."""
        self.reads.append((start, stop))
        write(start, bytes(stop - start))


def test_stand_in_is_as_long_as_its_file_and_takes_only_what_was_fetched() -> None:
    """Holes take no disk: of a terabyte, a kilobyte is there."""
    stand_in = StandIn(Zeros(10**12))
    stand_in.fetch([(5 * 10**11, 5 * 10**11 + 1_000)])
    state = Path(stand_in.path).stat()
    stand_in.close()
    assert (10**12, 1_001) == (state.st_size, stand_in.num_bytes)
    assert state.st_blocks * 512 < 100_000


def test_nothing_is_fetched_beyond_the_end() -> None:
    """A range that goes further than the file does is cut there."""
    zeros = Zeros(1_000)
    stand_in = StandIn(zeros)
    stand_in.fetch([(900, 5_000)])
    stand_in.close()
    assert [(900, 999)] == zeros.reads


def test_stand_in_is_kept_until_there_is_no_room() -> None:
    """The one that was used last stays; one that is in use stays whatever room it takes."""
    made = {name: StandIn(Zeros(1_000)) for name in "abc"}
    with closing(StandIns(max_bytes=250)) as kept:
        for name in "abc":
            with kept.lent(name, made[name]) as stand_in:
                stand_in.fetch([(0, 100)])
        with kept.lent("c", StandIn(Zeros(1_000))) as stand_in:
            assert made["c"] is stand_in
            stand_in.fetch([(0, 900)])
            with kept.lent("b", StandIn(Zeros(1_000))) as other:
                assert made["b"] is other
        with kept.lent("a", StandIn(Zeros(1_000))) as stand_in:
            assert made["a"] is not stand_in


def test_descriptors_are_few_when_files_are_many() -> None:
    """Thousands of files after one another, and no more open at once than the limit, but for those in use."""
    before = num_open()
    with closing(StandIns()) as kept:
        for number in range(3 * MAX_STAND_INS):
            with kept.lent(number, StandIn(Zeros(10))):
                pass
        assert num_open() <= before + MAX_STAND_INS
        with ExitStack() as stack:
            for number in range(2 * MAX_STAND_INS):
                stack.enter_context(kept.lent(number, StandIn(Zeros(10))))
            assert num_open() >= before + 2 * MAX_STAND_INS
        assert num_open() <= before + MAX_STAND_INS
    assert before == num_open()


def test_disk_is_named_when_it_takes_no_more() -> None:
    """A full disk is not the file's fault: it is said where, and what to do."""
    stand_in = StandIn(Zeros(10_000_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(UnreachableError, match=r"the disk of /.* does not take it: .*; TMPDIR names another"):
            stand_in.fetch([(2_000_000, 2_000_100)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        stand_in.close()
