"""Which sample is where."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.chunk_list import RUN_BYTES, RUN_SAMPLES, ChunkList
from evenshard.core.receipt import Chunk


def chunks(*sizes: tuple[int, int]) -> list[Chunk]:
    """Make chunks of (samples, bytes)."""
    return [
        Chunk(name=f"chunk-{number}.bin", num_samples=samples, num_bytes=size, sha256=f"{number:064x}")
        for number, (samples, size) in enumerate(sizes)
    ]


SIZES = st.lists(st.tuples(st.integers(0, 999), st.integers(8, 4 * RUN_BYTES)), max_size=12)


@given(sizes=SIZES)
def test_every_sample_has_one_place(sizes: list[tuple[int, int]]) -> None:
    """Numbers in order are the places in order, over chunks of any size, chunks without a sample among them."""
    found = ChunkList(chunks(*sizes))
    expected = [(chunk, position) for chunk, (count, _) in enumerate(sizes) for position in range(count)]
    assert expected == [found.locate(index) for index in range(found.num_samples)]
    for outside in (-1, len(expected)):
        with pytest.raises(IndexError, match=rf"sample {outside} is out of range \[0, {len(expected)}\)"):
            found.locate(outside)


@given(sizes=SIZES)
def test_runs_hold_every_sample_once(sizes: list[tuple[int, int]]) -> None:
    """All runs after each other are all samples in order; none is empty or long, those of a chunk are alike."""
    found = ChunkList(chunks(*sizes))
    runs = [run for chunk in range(len(sizes)) for run in found.runs_of(chunk)]
    assert runs == [found.run(number) for number in range(found.num_runs)]
    places = [[(run.chunk, position) for position in range(run.start, run.stop)] for run in runs]
    assert [found.locate(index) for index in range(found.num_samples)] == list(chain.from_iterable(places))
    for chunk, (num_samples, num_bytes) in enumerate(sizes):
        lengths = [run.stop - run.start for run in runs if run.chunk == chunk] or [0]
        assert max(lengths) - min(lengths) <= 1
        assert max(lengths) <= RUN_SAMPLES
        assert min(num_samples, num_bytes // RUN_BYTES) <= len(lengths)
        assert min(num_samples, 1) <= min(lengths)


def test_a_set_of_1e8_samples_is_a_few_numbers() -> None:
    """10^8 samples in 8,000 chunks take three numbers and a name for each chunk, and are found at once."""
    found = ChunkList(chunks(*[(12_500, 64_000_000)] * 8_000))
    assert 100_000_000 == found.num_samples
    assert (7_999, 12_499) == found.locate(99_999_999)
    assert (4_000, 0) == found.locate(50_000_000)
    assert 8 * 8_001 == len(found._sample_starts) * found._sample_starts.itemsize
    assert 62 * 8_000 == found.num_runs


def test_content_is_told_apart_wherever_it_lies() -> None:
    """The digest hangs on the chunks' content and order, and not on their names."""
    first, second = chunks((1, 20), (2, 20))
    renamed = Chunk(name="other.bin", num_samples=1, num_bytes=20, sha256=first.sha256)
    assert ChunkList([first, second]).digest == ChunkList([renamed, second]).digest
    assert ChunkList([first, second]).digest != ChunkList([second, first]).digest


@pytest.mark.parametrize("sizes", [(-1, 20), (1, -20)], ids=["samples", "bytes"])
def test_size_below_nothing_is_refused(sizes: tuple[int, int]) -> None:
    """A manifest that takes samples away cannot move the place of others."""
    with pytest.raises(ValueError, match="fewer than no"):
        ChunkList(chunks((5, 100), sizes))
