"""What several passes tell together."""

from __future__ import annotations

import pytest

from evenshard.core.timing import Kind, Pass, points_of


def timed(kind: Kind, num_workers: int, repeat: int, load_seconds: float, cpu_seconds: float = 1.0) -> Pass:
    """Give a pass over 100 samples of 2 MB together."""
    return Pass(
        num_workers=num_workers,
        elapsed_seconds=load_seconds + 1,
        command="",
        kind=kind,
        repeat=repeat,
        num_samples=100,
        num_bytes=2_000_000,
        load_seconds=load_seconds,
        cpu_seconds=cpu_seconds,
    )


def test_points_are_medians_by_kind_and_workers() -> None:
    """In whatever order the passes come; the spread is from the slowest to the fastest."""
    times = [timed(Kind.CHUNKS, 1, 1, 1.0)]
    times += [timed(Kind.ARCHIVES, 2, repeat, seconds) for repeat, seconds in ((1, 10.0), (2, 4.0), (3, 5.0))]
    times += [timed(Kind.ARCHIVES, 1, 1, 2.0, cpu_seconds=3.0)]
    one, two, chunks = points_of(times)
    assert [(Kind.ARCHIVES, 1), (Kind.ARCHIVES, 2), (Kind.CHUNKS, 1)] == [
        (point.kind, point.num_workers) for point in (one, two, chunks)
    ]
    assert (20.0, 10.0, 25.0) == (two.samples_per_second, two.slowest, two.fastest)
    assert pytest.approx(0.75) == two.spread
    assert pytest.approx(0.4) == two.megabytes_per_second
    assert (6.0, 0.03, 0.0) == (two.elapsed_seconds, one.cpu_seconds_per_sample, one.spread)
    assert [] == points_of([])
