"""What a pass of a loader took, and what several passes tell together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(StrEnum):
    """What a loader reads."""

    ARCHIVES = "archives"
    CHUNKS = "chunks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One loader from its first sample to its last one, in a process of its own.

    Args:
        num_workers: as the loader was given it.
        elapsed_seconds: of the whole command, from the start of its process to the end of it.
        command: as a shell takes it.
        kind: what was read.
        repeat: which pass over the grid it belongs to, from 1.
        num_samples: samples that came.
        num_bytes: of their texts, in UTF-8.
        load_seconds: from asking for the first sample to the end of the last worker.
        cpu_seconds: user and system time of all its processes in these seconds.
    """

    num_workers: int
    elapsed_seconds: float
    command: str
    kind: Kind
    repeat: int
    num_samples: int
    num_bytes: int
    load_seconds: float
    cpu_seconds: float

    @property
    def samples_per_second(self) -> float:
        """Samples in each second of loading."""
        return self.num_samples / self.load_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """All passes of one kind with one number of workers.

    Args:
        kind: what was read.
        num_workers: as the loader was given it.
        samples_per_second: the median.
        slowest: the smallest samples/s of any pass.
        fastest: the largest one.
        megabytes_per_second: of text, in 10^6 bytes; the median.
        cpu_seconds_per_sample: the median.
        elapsed_seconds: of the whole command; the median.
    """

    kind: Kind
    num_workers: int
    samples_per_second: float
    slowest: float
    fastest: float
    megabytes_per_second: float
    cpu_seconds_per_sample: float
    elapsed_seconds: float

    @property
    def spread(self) -> float:
        """How far the passes lie apart, as a share of the median."""
        return (self.fastest - self.slowest) / self.samples_per_second


def points_of(passes: Iterable[Pass]) -> list[Point]:
    """Take passes together that differ in their repeat alone, by kind and number of workers."""
    groups: dict[tuple[Kind, int], list[Pass]] = {}
    for each in passes:
        groups.setdefault((each.kind, each.num_workers), []).append(each)
    return [_point(groups[key]) for key in sorted(groups)]


def _point(passes: list[Pass]) -> Point:
    rates = [each.samples_per_second for each in passes]
    return Point(
        kind=passes[0].kind,
        num_workers=passes[0].num_workers,
        samples_per_second=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        megabytes_per_second=median(each.num_bytes / 1e6 / each.load_seconds for each in passes),
        cpu_seconds_per_sample=median(each.cpu_seconds / each.num_samples for each in passes),
        elapsed_seconds=median(each.elapsed_seconds for each in passes),
    )
